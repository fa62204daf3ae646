import Changes
import Foundation
import HostilePeer
import TestServers
import Testing

/// A daemon that listens, and a peer `evil` that may push `evil.*` to it and says what it likes.
final class HostileBench {
  let net: NetworkBench
  let port: UInt16
  let evil: HostilePusher
  private(set) var hq: NetworkBench.Node

  /// `more` is added to the conf; `grants` are those of the peer.
  init(_ more: String = "", grants: String = "push = [\"evil.*\"]", peer: String = "", isTLS: Bool = false) throws {
    net = try NetworkBench()
    port = try NetworkBench.freePort()
    evil = HostilePusher(port: port, files: isTLS ? net.bench.path("state-evil/peers/joined/hq") : nil)
    _ = try net.bench.sqlite(
      "erp.db",
      "PRAGMA journal_mode = WAL; CREATE TABLE salaries(id INTEGER PRIMARY KEY, pay INT); INSERT INTO salaries VALUES (1, 100)"
    )
    let conf = """
      [node]
      name = "hq"
      state = "\(net.bench.path("state-hq"))"
      [database.erp]
      url = "sqlite://\(net.bench.path("erp.db"))"
      [receive]
      listen = "127.0.0.1:\(port)"
      \(isTLS ? "" : "insecure = true")
      [peer.evil]
      may = { \(grants) }
      \(peer)
      \(more)

      """
    try FileManager.default.createDirectory(atPath: net.bench.path("hq"), withIntermediateDirectories: true)
    try Data(conf.utf8).write(to: URL(fileURLWithPath: net.bench.path("hq/cairn.toml")))
    hq = try net.start("hq", net.bench.path("hq"))
    if !isTLS { try #require(waitForListener(), "\(net.logs)") }
  }

  func waitForListener() -> Bool {
    net.wait {
      if evil.files != nil { return evil.get("/cairn") == 200 }
      guard let peer = RawPeer(port) else { return false }
      peer.send("GET /cairn HTTP/1.1\r\nHost: x\r\nCairn-Node: evil\r\nConnection: close\r\n\r\n")
      return peer.status() == 200
    }
  }

  /// Invites `evil`, which joins and gets a certificate. Returns what pushes a segment over TLS: the status of the answer.
  func joinOverTLS() throws -> (HostileSegment) throws -> String {
    try #require(net.wait { FileManager.default.fileExists(atPath: net.bench.path("state-hq/lock")) }, "\(net.logs)")
    let invited = try net.bench.run(
      Bench.cairn, ["peer", "invite", "evil", "--address", "127.0.0.1:\(port)", "--config", "hq", "--json"])
    #expect(invited.status == 0, "\(invited.errors)")
    let facts = try JSONSerialization.jsonObject(with: Data(invited.output.utf8)) as? [String: Any]
    let line = try #require(facts?["line"] as? String, "\(invited.output)")
    #expect(net.wait { net.log(hq).contains("TLS 1.3") }, "\(net.logs)")
    let (evil, state) = (net.bench.path("evil"), net.bench.path("state-evil"))
    for folder in [evil, state] {
      try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
    }
    try Data("[node]\nname = \"evil\"\nstate = \"\(state)\"\n".utf8)
      .write(to: URL(fileURLWithPath: evil + "/cairn.toml"))
    let joined = try net.bench.run(Bench.cairn, ["peer", "join", line, "--config", "evil"])
    #expect(joined.status == 0, "\(joined.errors)")
    return { [self] in try pushOverTLS($0) }
  }

  /// Pushes a segment with the certificate of `evil`, once it has joined; the status of the answer.
  func pushOverTLS(_ segment: HostileSegment, _ more: [String] = []) throws -> String {
    try Data(segment.bytes).write(to: URL(fileURLWithPath: net.bench.path("body")))
    let path =
      "/cairn/1/trails/\(segment.name)/\(segment.id)/\(segment.number.hex(8)).seg?offset=0&chain=\(segment.start)"
    return try askOverTLS(path, ["--data-binary", "@" + net.bench.path("body")] + more)
  }

  /// Adds to the conf, which the daemon then reads again.
  func reload(adding more: String) throws {
    let path = net.bench.path("hq/cairn.toml")
    try Data((String(contentsOfFile: path, encoding: .utf8) + more).utf8).write(to: URL(fileURLWithPath: path))
    let reloaded = try net.cairn(hq, "reload")
    try #require(reloaded.status == 0, "\(reloaded)")
  }

  /// Asks with the certificate of `evil`, once it has joined; the status of the answer.
  ///
  /// - Parameter more: Words for curl.
  func askOverTLS(_ path: String, _ more: [String] = []) throws -> String {
    let files = net.bench.path("state-evil") + "/peers/joined/hq"
    return try net.bench.run(
      "/usr/bin/curl",
      [
        "-s", "-o", net.bench.path("answer"), "-w", "%{http_code}", "--resolve", "hq:\(port):127.0.0.1",
        "--cert", files + "/node.crt", "--key", files + "/node.key", "--cacert", files + "/ca.crt",
      ] + more + ["https://hq:\(port)\(path)"]
    ).output
  }

  var isAlive: Bool { hq.daemon?.isRunning == true && waitForListener() }

  /// Ends the daemon and starts it again on the same state.
  func restart() throws -> Bool {
    net.end(hq)
    try net.start(hq)
    return waitForListener()
  }

  /// Resident memory of the daemon, MiB.
  var residentMiB: Int {
    let process = hq.daemon?.processIdentifier ?? 0
    let words = (try? String(contentsOfFile: "/proc/\(process)/statm", encoding: .utf8))?.split(separator: " ") ?? []
    return ((words.count > 1 ? Int(words[1]) ?? 0 : 0) * 4096) >> 20
  }

  /// The disk space that the trails of the state folder take, MiB.
  var diskMiB: Int {
    let outcome = try? net.bench.run("/usr/bin/du", ["-sk", net.bench.path("state-hq")])
    return (outcome?.output.split(separator: "\t").first.flatMap { Int($0) } ?? 0) >> 10
  }

  /// The disk space that they take by the daemon's status, MiB.
  var toldMiB: Int { ((net.status(hq)["disk"] as? [String: Any])?["bytes"] as? Int ?? 0) >> 20 }

  /// The rows that nothing of the peer may touch.
  var isCanaryUntouched: Bool {
    (try? net.bench.sqlite("erp.db", "SELECT group_concat(id || ' ' || pay) FROM salaries")) == "1 100\n"
  }
}

/// A sender of the peer `evil`'s trails: over plain HTTP, or over TLS with the certificate in the folder `files`.
struct HostilePusher: Sendable {
  let port: UInt16
  let files: String?

  /// Asks over TLS; the status of the answer, nil if there is none.
  private func ask(_ files: String, _ path: String, body: [UInt8]? = nil, chunks: (() -> [UInt8]?)? = nil) -> Int? {
    let place = NSTemporaryDirectory() + "/cairn-evil-" + UUID().uuidString
    defer { for suffix in ["", ".out", ".err"] { unlink(place + suffix) } }
    var words = [
      "-s", "-o", "/dev/null", "-w", "%{http_code}", "--resolve", "hq:\(port):127.0.0.1", "--cert",
      files + "/node.crt", "--key", files + "/node.key", "--cacert", files + "/ca.crt", "https://hq:\(port)\(path)",
    ]
    if let body {
      guard FileManager.default.createFile(atPath: place, contents: Data(body)) else { return nil }
      words += ["-H", "Expect:", "-H", "Content-Type:", "--data-binary", "@" + place]
    }
    if let chunks {
      guard FileManager.default.createFile(atPath: place, contents: nil), let file = FileHandle(forWritingAtPath: place)
      else { return nil }
      while let chunk = chunks() { try? file.write(contentsOf: chunk) }
      try? file.close()
      words += ["-X", "POST", "-T", place, "-H", "Expect:", "-H", "Transfer-Encoding: chunked"]
    }
    let child = try? Child(
      "/usr/bin/curl", words, folder: "/", environment: [:], output: place + ".out", errors: place + ".err")
    child?.wait(seconds: 60)
    let text = (try? String(contentsOfFile: place + ".out", encoding: .utf8)) ?? ""
    return Int(text).flatMap { $0 == 0 ? nil : $0 }
  }

  private func path(_ trail: TrailName, _ id: TrailID, _ number: UInt64, _ offset: Int, _ chain: ChainHash) -> String {
    "/cairn/1/trails/\(trail)/\(id)/\(number.hex(8)).seg?offset=\(offset)&chain=\(chain)"
  }

  /// Pushes a segment from its start; the status of the answer.
  @discardableResult func push(_ segment: HostileSegment) -> Int? {
    push(segment.bytes, segment, offset: 0, chain: segment.start)
  }

  /// Pushes bytes of a segment at a place.
  @discardableResult
  func push(_ bytes: [UInt8], _ segment: HostileSegment, offset: Int, chain: ChainHash) -> Int? {
    let path = path(segment.name, segment.id, segment.number, offset, chain)
    if let files { return ask(files, path, body: bytes) }
    guard let peer = RawPeer(port) else { return nil }
    peer.send(
      Array(
        "POST \(path) HTTP/1.1\r\nHost: x\r\nCairn-Node: evil\r\nConnection: close\r\nContent-Length: \(bytes.count)\r\n\r\n"
          .utf8) + bytes)
    return peer.status()
  }

  /// One body of chunks, each as `next` gives it, until it is nil or the daemon does not listen any more.
  func pushChunks(_ segment: HostileSegment, _ next: @escaping () -> [UInt8]?) -> Int? {
    let path = path(segment.name, segment.id, segment.number, 0, segment.start)
    if let files { return ask(files, path, chunks: next) }
    guard let peer = RawPeer(port) else { return nil }
    peer.send(
      "POST \(path) HTTP/1.1\r\nHost: x\r\nCairn-Node: evil\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n")
    while let chunk = next() {
      guard peer.send(Array("\(String(chunk.count, radix: 16))\r\n".utf8) + chunk + [13, 10]) else { break }
    }
    peer.send("0\r\n\r\n")
    return peer.status()
  }

  func get(_ path: String) -> Int? {
    if let files { return ask(files, path) }
    guard let peer = RawPeer(port) else { return nil }
    peer.send("GET \(path) HTTP/1.1\r\nHost: x\r\nCairn-Node: evil\r\nConnection: close\r\n\r\n")
    return peer.status()
  }

  func post(_ path: String, _ body: String) -> Int? {
    if let files { return ask(files, path, body: Array(body.utf8)) }
    guard let peer = RawPeer(port) else { return nil }
    peer.send(
      "POST \(path) HTTP/1.1\r\nHost: x\r\nCairn-Node: evil\r\nConnection: close\r\nContent-Length: \(body.utf8.count)\r\n\r\n\(body)"
    )
    return peer.status()
  }
}

extension HostileSegment {
  init(_ name: String, number: UInt64 = 1, created: Int64 = 1_772_368_200_000_000, first: UInt64 = 1) {
    self.init(TrailName(name).unsafelyUnwrapped, number: number, created: created, first: first)
  }
}
