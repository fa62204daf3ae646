import Changes
import CodecKit
import Foundation
import NetKit
import SystemKit
import TestServers
import Testing
import Trails

@testable import Pumping

/// Snapshots over the listener: who gets which bytes, and what a device makes of them.
@Suite(.timeLimit(.minutes(20)))
struct SnapshotDeskTests {
  private let temp: TempFolder
  private let node: TestNode
  private let stop = StopSignal()
  private let bytes: [UInt8]

  init() throws {
    temp = try TempFolder()
    node = try TestNode("hub", temp)
    bytes = (0..<300_000).map { _ in UInt8.random(in: 0...255) }
    try publish(bytes, "1700000000000001.db")
    try Data("other's".utf8).write(to: URL(fileURLWithPath: temp.path + "/secret"))
  }

  private static func sum(_ bytes: [UInt8]) throws -> String {
    let hash = try SHA256()
    hash.update(bytes)
    return hash.finalize().hex
  }

  /// Makes a file the newest one of snapshot `prices`, which `till` may fetch.
  private func publish(_ bytes: [UInt8], _ name: String, keep: Int = 3) throws {
    let path = "\(temp.path)/\(name)"
    try Data(bytes).write(to: URL(fileURLWithPath: path))
    let file = PublishedSnapshot(
      path: path, sha256: try Self.sum(bytes), bytes: UInt64(bytes.count),
      madeAt: Int64(name.prefix(16)) ?? 0)
    node.snapshots.withLock { snapshots in
      let files = Array(([file] + (snapshots["prices"]?.files ?? [])).prefix(keep))
      snapshots["prices"] = (["till"], files)
      snapshots["other"] = (["shop"], files)
    }
  }

  private func ask(
    _ method: String, _ target: String, as peer: String? = "till", _ headers: [(String, String)] = []
  ) throws -> HTTPReply {
    try HTTPClient(base: node.url, options: .init(node: peer), stop: stop).perform(method, target, headers: headers)
  }

  private func code(_ reply: HTTPReply) -> String? {
    guard case .object(let object)? = try? JSONReader.read(reply.body) else { return nil }
    return object.text("code")
  }

  @Test func `whole, a range, and 304 for the same file`() throws {
    try node.listen([:])
    let address = "/cairn/1/snapshots/prices"
    let tag = try "\"\(Self.sum(bytes))\""
    let all = try ask("GET", address)
    #expect(all.status == 200 && all.body == bytes && all.headers["etag"] == tag)
    let head = try ask("HEAD", address)
    #expect(head.status == 200 && head.headers["content-length"] == "\(bytes.count)" && head.body.isEmpty)
    #expect(try ask("GET", address, [("If-None-Match", tag)]).status == 304)
    #expect(try ask("GET", address, [("If-None-Match", "\"\(String(repeating: "0", count: 64))\"")]).status == 200)
    let part = try ask("GET", address, [("Range", "bytes=100000-"), ("If-Range", tag)])
    #expect(part.status == 206 && part.body == Array(bytes[100_000...]))
    #expect(try ask("GET", address, [("Range", "bytes=5-"), ("If-Range", "\"x\"")]).status == 200)
    #expect(try ask("GET", address, [("Range", "bytes=\(bytes.count)-")]).status == 416)
    #expect(try ask("POST", address).status == 405)
    let list = try ask("GET", "/cairn/1/snapshots")
    guard case .object(let told)? = try? JSONReader.read(list.body) else {
      Issue.record("no list")
      return
    }
    #expect(told.objects("snapshots").map { $0.text("name") } == ["prices"])
    // An older file stays there by its sum, as long as it is kept.
    try publish([1, 2, 3], "1700000000000002.db")
    #expect(try ask("GET", address).body == [1, 2, 3])
    #expect(try ask("GET", "\(address)?sha256=\(Self.sum(bytes))").body == bytes)
    #expect(try ask("GET", "\(address)?sha256=\(String(repeating: "a", count: 64))").status == 404)
    #expect(try ask("GET", "\(address)?sha256=x").status == 400)
    node.end()
  }

  @Test func `a peer gets nothing that is not granted, and no path outside of the folder`() throws {
    try node.listen([:])
    for (peer, target) in [
      ("till", "other"), ("till", "none"), ("shop", "prices"), ("tilL", "prices"), ("till ", "prices"),
      ("stranger", "prices"), ("till", "%2e%2e"), ("till", "..%2f..%2fsecret"), ("till", "prices%00"),
      ("till", "pri%63es%2f"), ("till", "PRICES"), ("till", "price%CC%81s"), ("till", "1700000000000001.db"),
      ("till", "..%2fprices"), ("till", "%2fetc%2fpasswd"), ("till", "prices%2f..%2f..%2fsecret"),
    ] {
      let reply = try ask("GET", "/cairn/1/snapshots/\(target)", as: peer)
      #expect([400, 401, 403, 404].contains(reply.status), "\(peer) \(target): \(reply.status)")
      #expect(!reply.body.starts(with: bytes.prefix(100)) && !reply.body.starts(with: Array("other's".utf8)))
    }
    // Whether a snapshot exists does not show.
    let (there, none) = (try ask("GET", "/cairn/1/snapshots/other"), try ask("GET", "/cairn/1/snapshots/none"))
    #expect(there.status == 403 && none.status == 403 && code(there) == "peer-refused")
    #expect(try ask("GET", "/cairn/1/snapshots/prices/x").status == 404)
    let list = try ask("GET", "/cairn/1/snapshots", as: "stranger")
    #expect(String(decoding: list.body, as: UTF8.self).contains("\"snapshots\":[]"))
    node.end()
  }

  @Test func `over TLS the name in the certificate counts`() throws {
    let certificates = try TestCertificates(temp.path)
    try node.listen([:], tls: certificates.server)
    let base = "https://127.0.0.1:\(node.port)"
    func client(_ name: String?) throws -> HTTPClient {
      var tls = ClientTLS(authorities: certificates.authorities)
      if let name { tls = try certificates.client(name) }
      // The header is a lie, and does not count.
      return try HTTPClient(base: base, tls: tls, options: .init(node: "till"), stop: stop)
    }
    #expect(try client("till").perform("GET", "/cairn/1/snapshots/prices").body == bytes)
    #expect(try client("shop").perform("GET", "/cairn/1/snapshots/prices").status == 403)
    let stranger = try? client(nil).perform("GET", "/cairn/1/snapshots/prices")
    #expect(stranger.map { [401, 403].contains($0.status) } ?? true)
    let place = SnapshotPlace(temp.path + "/device.db")
    let fetched = try SnapshotDownload("prices", to: place, over: client("till")).run { _, _ in }
    #expect(try fetched == .pending(Self.sum(bytes)))
    let refused = #expect(throws: CairnError.self) {
      try SnapshotDownload("prices", to: SnapshotPlace(temp.path + "/no.db"), over: client("shop")).run { _, _ in }
    }
    #expect(refused?.code == .peerRefused)
    #expect(!FileManager.default.fileExists(atPath: temp.path + "/no.db.pending"))
    node.end()
  }

  private struct Cut: Error {}

  private func download(_ path: String, cutAfter: UInt64 = .max) throws -> SnapshotDownload.Outcome {
    let client = try HTTPClient(base: node.url, options: .init(node: "till"), stop: stop)
    return try SnapshotDownload("prices", to: SnapshotPlace(path), over: client).run { done, _ in
      if done >= cutAfter { throw Cut() }
    }
  }

  private func content(_ path: String) throws -> [UInt8] { [UInt8](try Data(contentsOf: URL(fileURLWithPath: path))) }

  @Test func `a download that is interrupted goes on, and one that is damaged is refused`() throws {
    try node.listen([:])
    let path = temp.path + "/device.db"
    #expect(throws: Cut.self) { try download(path, cutAfter: 50_000) }
    let begun = try content(path + ".part")
    #expect(begun.count >= 50_000 && begun.count < bytes.count && bytes.starts(with: begun))
    #expect(!FileManager.default.fileExists(atPath: path + ".pending"))
    // The part that has arrived is not fetched again: a byte that is changed there shows.
    var wrong = begun
    wrong[7] ^= 1
    try Data(wrong).write(to: URL(fileURLWithPath: path + ".part"))
    let damaged = #expect(throws: CairnError.self) { try download(path) }
    #expect(damaged?.code == .databaseDamaged)
    #expect(!FileManager.default.fileExists(atPath: path + ".pending"))
    #expect(throws: Cut.self) { try download(path, cutAfter: 200_000) }
    // A newer file does not make a download begin again that has more than half.
    try publish([4, 5, 6], "1700000000000003.db")
    #expect(try download(path) == .pending(Self.sum(bytes)))
    #expect(try content(path + ".pending") == bytes)
    #expect(try SnapshotPlace.sum(of: path + ".pending") == Self.sum(bytes))
    #expect(try download(path) == .pending(Self.sum([4, 5, 6])))
    #expect(try content(path + ".pending") == [4, 5, 6])
    let left = try FileManager.default.contentsOfDirectory(atPath: temp.path).filter { $0.hasPrefix("device.db.part") }
    #expect(left.allSatisfy { $0 == "device.db.part" })
    #expect(try download(path) == .pending(Self.sum([4, 5, 6])))
    // The same one as the file that programs read is current.
    try FileManager.default.moveItem(atPath: path + ".pending", toPath: path)
    try FileManager.default.moveItem(atPath: path + ".pending.sha256", toPath: path + ".sha256")
    #expect(try download(path) == .current(Self.sum([4, 5, 6])))
    // A file whose bytes are not those of its sum.
    try publish([7, 8, 9], "1700000000000004.db")
    try Data([7, 8, 0]).write(to: URL(fileURLWithPath: temp.path + "/1700000000000004.db"))
    #expect(throws: CairnError.self) { try download(path) }
    #expect(try content(path) == [4, 5, 6])
    #expect(!FileManager.default.fileExists(atPath: path + ".pending"))
    node.end()
  }

  @Test func `a link in place of the part is not followed`() throws {
    try node.listen([:])
    let path = temp.path + "/device.db"
    try FileManager.default.createSymbolicLink(atPath: path + ".part", withDestinationPath: temp.path + "/secret")
    _ = try download(path)
    #expect(try content(temp.path + "/secret") == Array("other's".utf8))
    node.end()
  }

  // MARK: Space

  @Test(
    arguments: [
      (0, 0, 0, 0), (1_000_000, 10_000_000, 500_000, 500_000), (100, 10_000_000, 500_000, 0),
      (200 << 20, 4 << 40, 64 << 20, 136 << 20), (UInt64.max, UInt64.max, 64 << 20, UInt64.max - 64 << 20),
    ] as [(UInt64, UInt64, UInt64, UInt64)])
  func `a reserve stays free`(_ free: UInt64, _ total: UInt64, _ reserve: UInt64, _ usable: UInt64) {
    let room = DownloadRoom(free: free, total: total)
    #expect(room.reserve == reserve && room.usable == usable)
    #expect(room.fits(usable) && (usable == .max || !room.fits(usable + 1)))
  }

  private func download(_ path: String, free: UInt64) throws -> SnapshotDownload.Outcome {
    let client = try HTTPClient(base: node.url, options: .init(node: "till"), stop: stop)
    return try SnapshotDownload("prices", to: SnapshotPlace(path), over: client) { _ in
      DownloadRoom(free: free, total: 1_000_000)
    }.run { _, _ in }
  }

  @Test func `a file that does not fit is refused before a byte of it is written`() throws {
    try node.listen([:])
    let path = temp.path + "/device.db"
    let error = #expect(throws: CairnError.self) { try download(path, free: 349_999) }
    #expect(error?.code == .diskFull && error?.message.contains("announces 300000 bytes") == true)
    #expect(error?.hint.contains("free space") == true)
    #expect(try FileManager.default.contentsOfDirectory(atPath: temp.path).filter { $0.hasPrefix("device.db") } == [])
    // The bytes that are here need no space; they stay for the time when there is more.
    #expect(throws: Cut.self) { try download(path, cutAfter: 50_000) }
    let there = try content(path + ".part").count
    #expect(throws: CairnError.self) { try download(path, free: UInt64(349_999 - there)) }
    #expect(try content(path + ".part").count == there)
    #expect(try download(path, free: UInt64(350_000 - there)) == .pending(Self.sum(bytes)))
    node.end()
  }

  /// A node that announces `announced` bytes, and sends bytes for as long as the connection is open.
  private func withEndless(announced: String, _ body: (_ url: String) throws -> Void) throws {
    let script = """
      import http.server
      class H(http.server.BaseHTTPRequestHandler):
        def log_message(self, *a): pass
        def head(self):
          self.send_response(200)
          self.send_header('ETag', '"' + 'a' * 64 + '"')
        def do_HEAD(self):
          self.head(); self.send_header('Content-Length', '\(announced)'); self.end_headers()
        def do_GET(self):
          self.head(); self.end_headers()
          try:
            while True: self.wfile.write(bytes(1 << 16))
          except OSError: pass
      server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), H)
      print(server.server_port, flush=True)
      server.serve_forever()
      """
    let child = try Child(
      "/usr/bin/python3", ["-c", script], folder: temp.path, environment: ["PATH": "/usr/bin:/bin"],
      output: temp.path + "/port", errors: temp.path + "/errors")
    defer {
      child.signal(SIGKILL)
      child.waitUntilExit()
    }
    let limit = Date().addingTimeInterval(30)
    func port() -> String { (try? String(contentsOfFile: temp.path + "/port", encoding: .utf8)) ?? "" }
    while !port().hasSuffix("\n"), Date() < limit { usleep(10_000) }
    try body("http://127.0.0.1:\(port().trimmingCharacters(in: .newlines))")
  }

  @Test(arguments: ["1000000000000000", "1000"])
  func `a node that announces too much, or sends more than it announced, fills no disk`(_ announced: String) throws {
    let path = temp.path + "/device.db"
    try withEndless(announced: announced) { url in
      let client = try HTTPClient(base: url, stop: stop)
      let error = #expect(throws: CairnError.self) {
        try SnapshotDownload("prices", to: SnapshotPlace(path), over: client).run { _, _ in }
      }
      #expect(error?.code == (announced == "1000" ? .databaseDamaged : .diskFull), "\(String(describing: error))")
      let size = (try? content(path + ".part").count) ?? 0
      #expect(size == 0)
      #expect(!FileManager.default.fileExists(atPath: path + ".pending"))
    }
  }

  @Test(.enabled(if: getuid() == 0, "mounting a tmpfs needs root"))
  func `a disk that becomes full while a file is written gets its space back`() throws {
    try node.listen([:])
    let small = temp.path + "/small"
    try FileManager.default.createDirectory(atPath: small, withIntermediateDirectories: true)
    func run(_ words: [String]) throws -> Int32 {
      let process = try Process.run(URL(fileURLWithPath: "/usr/bin/env"), arguments: words)
      process.waitUntilExit()
      return process.terminationStatus
    }
    guard try run(["mount", "-t", "tmpfs", "-o", "size=128k", "tmpfs", small]) == 0 else { return }
    defer { _ = try? run(["umount", small]) }
    // Another program takes the space after the check.
    let error = #expect(throws: CairnError.self) { try download(small + "/device.db", free: 1_000_000) }
    #expect(error?.code == .diskFull && error?.message.contains("became full") == true)
    #expect(try FileManager.default.contentsOfDirectory(atPath: small) == [])
    // By its own look at the file system, it is refused at once.
    let refused = #expect(throws: CairnError.self) { try download(small + "/device.db") }
    #expect(refused?.code == .diskFull && refused?.message.contains("announces") == true)
    node.end()
  }
}
