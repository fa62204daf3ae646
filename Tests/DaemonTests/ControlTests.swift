import Changes
import ControlAPI
import Foundation
import Glibc
import Synchronization
import SystemKit
import Testing

@testable import Daemon

@Suite struct ControlTests {
  private let path = "/tmp/cairn-control-\(UUID().uuidString.prefix(8))"

  private func server(_ answer: @escaping @Sendable (ControlRequest) throws -> JSONObject) throws -> ControlServer {
    try ControlServer(path, group: nil) { request, _ in try answer(request) }
  }

  /// Sends bytes as they are, and returns the first line of the answer; nil: the peer closed.
  private func send(_ text: String) throws -> String? {
    let socket = try LocalSocket.connect(path, seconds: 10)
    try socket.writeLine(text)
    return try socket.readLine(bytesMax: 1 << 20).map { String(decoding: $0, as: UTF8.self) }
  }

  @Test func `a request goes over and its answer comes back`() throws {
    let server = try server { JSONObject([("event", .text($0.command.rawValue)), ("subject", .text($0.subject))]) }
    defer { server.close() }
    let answer = try ControlClient(path).ask(ControlRequest(.copy, "erp", tables: ["a\"b"]))
    #expect(answer.text("event") == "copy" && answer.text("subject") == "erp")
  }

  @Test func `only owner and group may use the socket`() throws {
    let server = try server { _ in JSONObject() }
    defer { server.close() }
    var status = stat()
    #expect(stat(path, &status) == 0 && status.st_mode & 0o777 == 0o660)
  }

  @Test(.enabled(if: geteuid() == 0, "only root can act as another user"))
  func `another user of the machine may not connect`() throws {
    let server = try server { _ in JSONObject() }
    defer { server.close() }
    let program = """
      import os, socket
      os.setgroups([]); os.setgid(65534); os.setuid(65534)
      try:
        socket.socket(socket.AF_UNIX).connect("\(path)")
        print("in")
      except PermissionError:
        print("out")
      """
    let (process, output) = (Process(), Pipe())
    process.executableURL = URL(fileURLWithPath: "/usr/bin/python3")
    (process.arguments, process.standardOutput) = (["-c", program], output)
    try process.run()
    let text = String(decoding: output.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
    process.waitUntilExit()
    #expect(text == "out\n")
  }

  @Test func `an error comes back with its code and hint`() throws {
    let server = try server { _ in throw CairnError(.rowDiffers, "row 7", hint: "look") }
    defer { server.close() }
    let error = #expect(throws: CairnError.self) { try ControlClient(path).ask(ControlRequest(.status)) }
    #expect(error?.code == .rowDiffers && error?.hint == "look")
  }

  @Test(arguments: [
    "", "{", "[]", "{\"version\":2,\"command\":\"status\"}", "{\"version\":1,\"command\":\"explode\"}",
    "{\"version\":1,\"command\":\"copy\",\"subject\":\"a\",\"tables\":[[1]]}",
    "{\"version\":1,\"command\":\"copy\",\"subject\":\"a\",\"tables\":\"item\"}",
    "{\"version\":1,\"command\":\"skip\",\"subject\":\"a\"}",
    "{\"version\":1,\"command\":\"take-source\",\"subject\":\"a\",\"at\":\"1\"}",
    "\u{0}\u{1}\u{2}", "{\"version\":1}", String(repeating: "[", count: 5000), "GET / HTTP/1.1",
  ])
  func `rubbish is refused, and the next peer is answered`(text: String) throws {
    let server = try server { _ in JSONObject() }
    defer { server.close() }
    #expect(try send(text)?.contains("\"ok\":false") == true)
    _ = try ControlClient(path).ask(ControlRequest(.status))
  }

  @Test func `a line without end is cut off, and silent peers keep no client out`() throws {
    let server = try server { _ in JSONObject() }
    defer { server.close() }
    let silent = try (0..<8).map { _ in try LocalSocket.connect(path, seconds: 1) }
    #expect(throws: FileError.self) {
      let socket = try LocalSocket.connect(path, seconds: 10)
      try socket.writeLine(String(repeating: "x", count: ControlRequest.bytesMax * 2))
      if try socket.readLine(bytesMax: 1 << 20) == nil { throw FileError(code: EPIPE, operation: "read", path: path) }
    }
    _ = try ControlClient(path).ask(ControlRequest(.status))
    withExtendedLifetime(silent) {}
  }

  @Test func `clients that send a request byte by byte keep no client out`() throws {
    let server = try server { _ in JSONObject() }
    defer { server.close() }
    let stop = StopSignal()
    let path = path
    // As many as hold every place, each coming back when it is ended.
    let trickling = try (0..<24).map { _ in
      try WorkerThread<Void> {
        while !stop.isSet {
          guard let descriptor = Self.connected(path) else { continue }
          while !stop.wait(milliseconds: 300), Glibc.send(descriptor, "{", 1, Int32(MSG_NOSIGNAL)) == 1 {}
          close(descriptor)
        }
      }
    }
    Clock.sleep(milliseconds: 500)
    for _ in 0..<5 {
      let begun = Clock.monotonicMilliseconds
      _ = try ControlClient(path).ask(ControlRequest(.status), seconds: 3)
      #expect(Clock.monotonicMilliseconds - begun < 3000)
    }
    stop.set()
    for thread in trickling { _ = thread.join() }
  }

  @Test func `a request has five seconds in all, however its bytes come`() throws {
    let server = try server { _ in JSONObject() }
    defer { server.close() }
    let descriptor = try #require(Self.connected(path))
    defer { close(descriptor) }
    let begun = Clock.monotonicMilliseconds
    while Glibc.send(descriptor, "{", 1, Int32(MSG_NOSIGNAL)) == 1, Clock.monotonicMilliseconds - begun < 12_000 {
      Clock.sleep(milliseconds: 200)
    }
    #expect(Clock.monotonicMilliseconds - begun < 8_000)
  }

  @Test func `the kernel says who gives an order`() throws {
    let seen = Mutex<ControlPeer?>(nil)
    let server = try ControlServer(path, group: nil) { _, peer in
      seen.withLock { $0 = peer }
      return JSONObject()
    }
    defer { server.close() }
    _ = try ControlClient(path).ask(ControlRequest(.reload))
    #expect(seen.withLock { $0 } == ControlPeer(user: geteuid(), process: getpid()))
  }

  @Test func `questions are logged once a minute for each user and trail`() {
    let notes = OrderNotes()
    let asked: [(UInt32?, String, Int64)] = [
      (0, "hq.erp", 0), (0, "hq.erp", 1), (0, "hq.erp", 59_999), (0, "hq.pos", 59_999), (1000, "hq.erp", 59_999),
      (nil, "hq.erp", 59_999), (0, "hq.erp", 60_000), (0, "hq.pos", 60_000), (1000, "hq.erp", 119_999),
    ]
    let due = asked.map { notes.isDue($0.0, $0.1, now: $0.2) }
    #expect(due == [true, false, false, true, true, true, true, false, true])
  }

  private static func connected(_ path: String) -> Int32? {
    let descriptor = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0)
    var address = sockaddr_un()
    address.sun_family = sa_family_t(AF_UNIX)
    withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: Array(path.utf8)) }
    let code = withUnsafePointer(to: &address) {
      $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
        connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_un>.size))
      }
    }
    if code == 0 { return descriptor }
    close(descriptor)
    return nil
  }

  @Test func `a stale socket is replaced, a live one is not`() throws {
    let first = try LocalListener(path, group: nil)
    _ = try LocalSocket.connect(path, seconds: 1)
    #expect(throws: FileError.self) { try LocalListener(path, group: nil) }
    // One whose process was killed leaves its file.
    let stale = path + ".stale"
    link(path, stale)
    withExtendedLifetime(first) {}
    let descriptor = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0)
    var address = sockaddr_un()
    address.sun_family = sa_family_t(AF_UNIX)
    let dead = path + ".dead"
    withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: Array(dead.utf8)) }
    _ = withUnsafePointer(to: &address) {
      $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
        bind(descriptor, $0, socklen_t(MemoryLayout<sockaddr_un>.size))
      }
    }
    close(descriptor)
    #expect(Folder.exists(dead))
    _ = try LocalListener(dead, group: nil)
    unlink(stale)
  }

  @Test func `a file that is no socket is left alone`() throws {
    _ = FileManager.default.createFile(atPath: path, contents: Data("mine".utf8))
    defer { unlink(path) }
    #expect(throws: CairnError.self) { try ControlServer(path, group: nil) { _, _ in JSONObject() } }
    #expect(FileManager.default.contents(atPath: path) == Data("mine".utf8))
  }

  @Test func `when no daemon answers, that is said with what to do`() throws {
    let error = #expect(throws: CairnError.self) { try ControlClient(path).ask(ControlRequest(.status)) }
    #expect(error?.code == .daemonUnreachable && error?.code.exitStatus == 69)
    #expect(error?.hint.contains("systemctl start cairnd") == true)
  }

  @Test func `a request is the same after a journey`() throws {
    let request = ControlRequest(.unhook, "pos", tables: ["item", "ünï\n\"x\\"])
    #expect(try ControlRequest(parsing: Array(request.line.utf8)) == request)
  }
}
