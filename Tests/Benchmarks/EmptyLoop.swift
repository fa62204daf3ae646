import Changes
import Glibc
import NetKit
import SystemKit
import TestServers

/// The rate of the two network libraries without any checks: bodies of one MiB, one after the other over one
/// connection. They are sent from memory or a cached file, and the receiver copies them to memory.
///
/// With a file, the receiver also writes each body to it and syncs it, before it answers or asks again.
final class EmptyLoop: HTTPHandler {
  static let bodyBytes = 1 << 20

  private let source: String
  private let sink: String?

  /// Creates a loop that keeps its files in `folder`.
  init(_ folder: String, isDurable: Bool) throws {
    source = folder + "/body"
    sink = isDurable ? folder + "/durable" : nil
    let file = try File(source, .create)
    var random = Seeded(11)
    let bytes = (0..<Self.bodyBytes / 8).map { _ in random.next() }
    try bytes.withUnsafeBytes { try file.write($0, at: 0) }
  }

  /// Returns the rate in bytes per second.
  func push(bodies: Int, _ server: ServerTLS?, _ client: ClientTLS?) throws -> Double {
    let bytes = [UInt8](repeating: 0x78, count: Self.bodyBytes)
    return try measure(bodies, server, client) { link, _ in
      try bytes.withUnsafeBytes { try link.perform("POST", "/", body: $0) }.status
    }
  }

  func pull(bodies: Int, _ server: ServerTLS?, _ client: ClientTLS?) throws -> Double {
    let target = try Sink(sink)
    return try measure(bodies, server, client) { link, _ in
      let status = try link.perform("GET", "/", into: { try target.take($0) }).status
      try target.end()
      return status
    }
  }

  private func measure(
    _ bodies: Int, _ server: ServerTLS?, _ client: ClientTLS?, _ one: (HTTPClient, Int) throws -> Int
  ) throws -> Double {
    let listener = try HTTPServer(host: "127.0.0.1", port: 0, tls: server, handler: self)
    defer { listener.stop() }
    let link = try HTTPClient(
      base: "\(client == nil ? "http" : "https")://127.0.0.1:\(listener.port)", tls: client, stop: StopSignal())
    _ = try one(link, 0)
    let begun = Stopwatch()
    for number in 0..<bodies {
      guard try one(link, number) == 200 else { throw TestFailure("the empty loop is refused a body") }
    }
    return Double(bodies * Self.bodyBytes) / begun.seconds
  }

  func begin(_ request: HTTPRequest) -> HTTPAction {
    do {
      if request.method == "POST" { return .receive(try Sink(sink)) }
      let file = try File(source, .read)
      return .answer(
        HTTPResponse(status: 200, body: .file(file, offset: 0, count: UInt64(Self.bodyBytes))))
    } catch { return .answer(HTTPResponse(status: 500)) }
  }

  private final class Sink: HTTPBodySink {
    private let file: File?
    private let memory = UnsafeMutableRawBufferPointer.allocate(byteCount: EmptyLoop.bodyBytes, alignment: 16)
    private var count = 0

    init(_ path: String?) throws { file = try path.map { try File($0, .openOrCreate) } }
    deinit { memory.deallocate() }

    func take(_ bytes: UnsafeRawBufferPointer) throws {
      guard count + bytes.count <= memory.count else { throw TestFailure("a body is larger than it was") }
      UnsafeMutableRawBufferPointer(rebasing: memory[count...]).copyMemory(from: bytes)
      count += bytes.count
    }

    func end() throws {
      guard count == memory.count else { throw TestFailure("a body is not whole") }
      count = 0
      guard let file else { return }
      try file.write(UnsafeRawBufferPointer(memory), at: try file.size)
      try file.syncData()
    }

    func receive(_ bytes: UnsafeRawBufferPointer) -> HTTPResponse? {
      (try? take(bytes)) == nil ? HTTPResponse(status: 500) : nil
    }

    func finish() -> HTTPResponse {
      do {
        try end()
        return HTTPResponse(status: 200)
      } catch { return HTTPResponse(status: 500) }
    }

    func abandon() {}
  }
}
