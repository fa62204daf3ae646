import Changes
import Foundation
import NetKit
import Synchronization
import SystemKit
import Testing

@Suite struct PlainTests {
  private let handler = EchoHandler()
  private let stop = StopSignal()

  private func client(_ server: HTTPServer, _ options: HTTPClient.Options = .init(), host: String = "127.0.0.1") throws
    -> HTTPClient
  {
    try HTTPClient(base: "http://\(host):\(server.port)", options: options, stop: stop)
  }

  private func isOpen(_ path: String) throws -> Bool {
    try FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd").contains {
      (try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/fd/\($0)")) == path
    }
  }

  @Test(arguments: ["127.0.0.1", "[::1]"]) func `bodies come back as they went, over one connection`(host: String)
    throws
  {
    let server = try HTTPServer(host: host == "[::1]" ? "::1" : host, port: 0, handler: handler)
    let client = try client(server, host: host)
    for count in [0, 1, 65536, 4 << 20] {
      let body = (0..<count).map { UInt8(truncatingIfNeeded: $0 &* 31 &+ $0 >> 8) }
      var got: [UInt8] = []
      let reply = try body.withUnsafeBytes { try client.perform("POST", "/echo", body: $0) { got += Array($0) } }
      #expect(reply.status == 200)
      #expect(got == body)
    }
    #expect(handler.finished.load(ordering: .relaxed) == 4)
    #expect(try client.perform("GET", "/nowhere").status == 404)
    server.stop()
    let error = #expect(throws: CairnError.self) { try client.perform("GET", "/nowhere") }
    #expect(error?.code == .peerUnreachable)
    #expect(error?.message.contains("onnection refused") == true)
  }

  @Test func `a wait is answered when it is over, and one that is stopped at once`() throws {
    let server = try HTTPServer(
      host: "127.0.0.1", port: 0, limits: HTTPLimits(idleSeconds: 1, handshakeSeconds: 1), handler: handler)
    let client = try client(server)
    // Longer than a connection may be idle.
    #expect(try client.perform("GET", "/wait?ms=3000").status == 204)
    let (handler, other) = (self.handler, StopSignal())
    let waiter = try WorkerThread<Int?> {
      let client = try? HTTPClient(base: "http://127.0.0.1:\(server.port)", stop: other)
      return try? client?.perform("GET", "/wait?ms=60000").status
    }
    while handler.waiting.load(ordering: .sequentiallyConsistent) == 0 { Clock.sleep(milliseconds: 5) }
    let start = Clock.monotonicMilliseconds
    handler.ending.set()
    server.stop()
    _ = waiter.join()
    #expect(Clock.monotonicMilliseconds - start < 3000)
    #expect(handler.waiting.load(ordering: .sequentiallyConsistent) == 0)
  }

  @Test func `a stop signal ends a wait for an answer, and beats until then`() throws {
    let server = try HTTPServer(host: "127.0.0.1", port: 0, handler: handler)
    let (client, stop, pulse) = (try client(server), stop, Pulse())
    let stopper = try WorkerThread<Void> {
      Clock.sleep(milliseconds: 300)
      stop.set()
    }
    let start = Clock.monotonicMilliseconds
    #expect(throws: HTTPClient.Stopped.self) {
      try pulse.attached { _ = try client.perform("GET", "/wait?ms=20000") }
    }
    #expect(Clock.monotonicMilliseconds - start < 2500)
    #expect(pulse.value > 0)
    _ = stopper.join()
    handler.ending.set()
  }

  @Test func `silence is reported as such`() throws {
    let server = try HTTPServer(host: "127.0.0.1", port: 0, handler: handler)
    let client = try client(server, .init(silenceSeconds: 1))
    let error = #expect(throws: CairnError.self) { _ = try client.perform("GET", "/wait?ms=6000") }
    #expect(error?.message.contains("nothing for 1 s") == true, "\(error?.message ?? "")")
    handler.ending.set()
  }

  @Test func `memory and files are sent as they are`() throws {
    let path = NSTemporaryDirectory() + "cairn-net-\(UUID().uuidString)"
    defer { unlink(path) }
    let content = (0..<300_000).map { UInt8(truncatingIfNeeded: $0 &* 7) }
    try Data(content).write(to: URL(fileURLWithPath: path))
    let server = try HTTPServer(host: "127.0.0.1", port: 0, handler: EchoHandler(file: path))
    let client = try client(server)
    let reply = try client.perform("GET", "/file?from=1000&count=200000")
    #expect(reply.headers["etag"] == "\"x\"")
    #expect(reply.body == Array(content[1000..<201_000]))
    #expect(try client.perform("HEAD", "/file?from=0&count=5").headers["content-length"] == "5")
    var count = 0
    let large = try client.perform("GET", "/memory?count=8388608") { count += $0.count }
    #expect((large.status, count) == (200, 8_388_608))
    // A file that was sent is closed and given back; the last one a moment after it has come.
    for _ in 0..<2000 { _ = try client.perform("GET", "/file?from=0&count=1") }
    let deadline = Clock.monotonicMilliseconds + 10_000
    while try isOpen(path), Clock.monotonicMilliseconds < deadline { Clock.sleep(milliseconds: 1) }
    #expect(try !isOpen(path))
  }

  @Test func `a body is refused in the middle, and the connection goes on`() throws {
    let server = try HTTPServer(
      host: "127.0.0.1", port: 0, limits: HTTPLimits(unwantedBytes: 4 << 20), handler: handler)
    let client = try client(server)
    let body = [UInt8](repeating: 1, count: 3 << 20)
    for _ in 0..<3 {
      let reply = try body.withUnsafeBytes { try client.perform("POST", "/echo?refuse=100000", body: $0) { _ in } }
      #expect(reply.status == 409)
      #expect(String(decoding: reply.body, as: UTF8.self) == "enough")
      #expect(try body.withUnsafeBytes { try client.perform("POST", "/nowhere", body: $0) }.status == 404)
    }
    #expect(handler.abandoned.load(ordering: .relaxed) == 3)
    // More than is read for nothing: cut off, or answered at once.
    let large = [UInt8](repeating: 1, count: 32 << 20)
    #expect(throws: CairnError.self) {
      _ = try large.withUnsafeBytes { try client.perform("POST", "/echo?refuse=100000", body: $0) }
    }
    #expect(handler.finished.load(ordering: .relaxed) == 0)
    #expect(try client.perform("GET", "/nowhere").status == 404)
  }

  @Test func `an error of the sink comes through, and the next request works`() throws {
    struct Enough: Error {}
    let server = try HTTPServer(host: "127.0.0.1", port: 0, handler: handler)
    let client = try client(server)
    #expect(throws: Enough.self) { try client.perform("GET", "/memory?count=1000000") { _ in throw Enough() } }
    #expect(try client.perform("GET", "/nowhere").status == 404)
  }

  @Test func `a rate is kept`() throws {
    let server = try HTTPServer(host: "127.0.0.1", port: 0, handler: handler)
    let client = try client(server, .init(rate: RateLimit(bytesPerSecond: 1_000_000)))
    let start = Clock.monotonicMilliseconds
    var count = 0
    for _ in 0..<3 { _ = try client.perform("GET", "/memory?count=700000") { count += $0.count } }
    #expect(count == 2_100_000)
    #expect(Clock.monotonicMilliseconds - start > 700)
  }

  @Test func `an address that is wrong is reported`() throws {
    #expect(throws: CairnError.self) { _ = try HTTPClient(base: "hq:7420", stop: stop) }
    let nowhere = try HTTPClient(base: "http://no-such-host.invalid:1", stop: stop)
    let error = #expect(throws: CairnError.self) { _ = try nowhere.perform("GET", "/") }
    #expect(error?.code == .peerUnreachable)
    #expect(error?.message.contains("'no-such-host.invalid' cannot be resolved") == true, "\(error?.message ?? "")")
  }
}
