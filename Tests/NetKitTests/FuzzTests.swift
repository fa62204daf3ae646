import Foundation
import NetKit
import SystemKit
import TestServers
import Synchronization
import Testing

/// Strangers that send what they like. Run with CAIRN_SOAK for 100,000 requests; the seed is printed, and CAIRN_SEED sets it.
@Suite struct FuzzTests {
  /// Serves a secret to peers; over plain HTTP no client is one.
  private final class Vault: HTTPHandler {
    static let secret = "the-secret-of-the-vault"
    let begun = Atomic<Int>(0)
    let open = Atomic<Int>(0)
    let crooked = Atomic<Int>(0)

    final class Sink: HTTPBodySink {
      private let vault: Vault
      private let lengthTold: UInt64?
      private var length: UInt64 = 0
      init(_ vault: Vault, _ length: UInt64?) {
        (self.vault, lengthTold) = (vault, length)
        vault.open.add(1, ordering: .relaxed)
      }
      func receive(_ bytes: UnsafeRawBufferPointer) -> HTTPResponse? {
        length += UInt64(bytes.count)
        if bytes.first == 0x21 { return HTTPResponse(status: 409, type: "text/plain", text: "no") }
        return nil
      }
      func finish() -> HTTPResponse {
        vault.open.subtract(1, ordering: .relaxed)
        if let lengthTold, lengthTold != length { vault.crooked.add(1, ordering: .relaxed) }
        return HTTPResponse(status: 200, type: "text/plain", text: "\(length)")
      }
      func abandon() { vault.open.subtract(1, ordering: .relaxed) }
    }

    func begin(_ request: HTTPRequest) -> HTTPAction {
      begun.add(1, ordering: .relaxed)
      let parts = request.path.split(separator: "/", omittingEmptySubsequences: false).dropFirst()
      if request.path != "/", parts.contains(where: { $0.isEmpty || $0 == "." || $0 == ".." }) {
        crooked.add(1, ordering: .relaxed)
      }
      if request.path.utf8.contains(where: { $0 < 0x20 }) { crooked.add(1, ordering: .relaxed) }
      if request.peer != nil { return .answer(HTTPResponse(status: 200, type: "text/plain", text: Self.secret)) }
      if request.method == "POST" { return .receive(Sink(self, request.contentLength)) }
      return .answer(HTTPResponse(status: 404, type: "text/plain", text: request.path))
    }
  }

  private static let paths = [
    "/", "/cairn", "/cairn/1/trails", "/cairn/1/trails/hq.erp/5a/00000001.seg?offset=0&chain=00", "/../../etc/passwd",
    "/%2e%2e/%2e%2e/etc/passwd", "/a/..%2fb", "/%00", "//cairn//1", "/cairn/1/trails/..;/x", "/\\..\\..\\x", "*",
    "http://x/cairn", "/?\u{0}", "/cairn/1/trails/%ff%fe", "/cairn?wait=99999999999999999999&offset=-1",
  ]

  private static func request(_ random: inout Seeded) -> [UInt8] {
    let method =
      ["GET", "POST", "HEAD", "PUT", "DELETE", "OPTIONS", "TRACE", "G\tT", ""].randomElement(using: &random) ?? ""
    let path = paths.randomElement(using: &random) ?? "/"
    let version =
      ["HTTP/1.1", "HTTP/1.1", "HTTP/1.1", "HTTP/1.0", "HTTP/2.0", "HTTP/9", ""].randomElement(using: &random) ?? ""
    var text = "\(method) \(path) \(version)\r\nHost: x\r\n"
    let body = String(
      repeating: ["a", "!", "\r\n", "0"].randomElement(using: &random) ?? "a",
      count: Int.random(in: 0...3000, using: &random))
    switch Int.random(in: 0..<12, using: &random) {
    case 0: text += "Content-Length: \(body.utf8.count)\r\n"
    case 1: text += "Content-Length: \(Int.random(in: -5...5000, using: &random))\r\n"
    case 2: text += "Content-Length: 18446744073709551616\r\n"
    case 3: text += "Content-Length: 99999999999\r\n"
    case 4: text += "Transfer-Encoding: chunked\r\n\r\n\(String(body.utf8.count, radix: 16))\r\n\(body)\r\n0\r\n\r\n"
    case 5: text += "Transfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n"
    case 6: text += "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n"
    case 7: text += "Transfer-Encoding: identity, chunked\r\n"
    case 8: for n in 0..<Int.random(in: 0..<400, using: &random) { text += "X-\(n): \(n)\r\n" }
    case 9: text += "Cookie: \(String(repeating: "a=b; ", count: Int.random(in: 0..<4000, using: &random)))\r\n"
    case 10: text += " folded: \r\n\tand more\r\nExpect: 100-continue\r\nContent-Length: 10\r\n"
    default: text += "Range: bytes=9-\r\nIf-None-Match: \"x\"\r\nCairn-Node: hq\r\nConnection: keep-alive\r\n"
    }
    text += "\r\n" + body
    var bytes = Array(text.utf8)
    for _ in 0..<Int.random(in: 0..<4, using: &random) where !bytes.isEmpty {
      let at = Int.random(in: 0..<bytes.count, using: &random)
      switch Int.random(in: 0..<5, using: &random) {
      case 0: bytes[at] = UInt8.random(in: 0...255, using: &random)
      case 1: bytes.removeSubrange(at...)
      case 2: bytes.insert(contentsOf: (0..<50).map { _ in UInt8.random(in: 0...255, using: &random) }, at: at)
      case 3: bytes += bytes.prefix(at)
      default: bytes[at] = 0
      }
    }
    return bytes
  }

  private static var residentBytes: Int {
    let words = (try? String(contentsOfFile: "/proc/self/statm", encoding: .utf8))?.split(separator: " ") ?? []
    return (words.count > 1 ? Int(words[1]) ?? 0 : 0) * 4096
  }

  private static var descriptorCount: Int {
    (try? FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd").count) ?? 0
  }

  /// One stranger after the other; every thousandth stays for a while.
  private static func attack(_ port: UInt16, _ count: Int, _ seed: UInt64) -> (leaks: Int, silent: Int) {
    var random = Seeded(seed)
    var (leaks, silent) = (0, 0)
    var lingering: [RawPeer] = []
    for n in 0..<count {
      guard let peer = RawPeer(port) else {
        silent += 1
        continue
      }
      peer.send(request(&random))
      if n % 1000 == 999 {
        lingering.append(peer)
        if lingering.count > 20 { lingering.removeFirst() }
        continue
      }
      if n % 7 == 0 {
        // Gone without a word.
        var abrupt = linger(l_onoff: 1, l_linger: 0)
        setsockopt(peer.descriptor, SOL_SOCKET, SO_LINGER, &abrupt, socklen_t(MemoryLayout<linger>.size))
        continue
      }
      shutdown(peer.descriptor, Int32(SHUT_WR))
      if String(decoding: peer.all(), as: UTF8.self).contains(Vault.secret) { leaks += 1 }
    }
    return (leaks, silent)
  }

  @Test func `nothing that strangers send does harm`() throws {
    let count = isSoak ? 100_000 : 1500
    let seed =
      ProcessInfo.processInfo.environment["CAIRN_SEED"].flatMap { UInt64($0) } ?? UInt64.random(in: 0...9_999_999)
    print("fuzz of the listener: \(count) requests, CAIRN_SEED=\(seed)")
    let vault = Vault()
    let server = try HTTPServer(
      host: "127.0.0.1", port: 0,
      limits: HTTPLimits(connections: 60, idleSeconds: 2, handshakeSeconds: 2, unwantedBytes: 65536), handler: vault)
    let threads = 4
    func round(_ count: Int, _ seed: UInt64) throws -> (leaks: Int, silent: Int) {
      let port = server.port
      let attackers = try (0..<threads).map { n in
        try WorkerThread<[Int]> {
          let result = Self.attack(port, count / threads, seed &+ UInt64(n))
          return [result.leaks, result.silent]
        }
      }
      let results = attackers.compactMap { $0.join() }
      return (results.reduce(0) { $0 + $1[0] }, results.reduce(0) { $0 + $1[1] })
    }
    // Later rounds use again what the first round needs.
    var result = try round(count / 5, seed)
    let before = (Self.residentBytes, Self.descriptorCount)
    let next = try round(count * 4 / 5, seed &+ 1000)
    result = (result.leaks + next.leaks, result.silent + next.silent)
    let after = (Self.residentBytes, Self.descriptorCount)
    print("resident \(before.0 >> 20) MiB before, \(after.0 >> 20) MiB after; descriptors \(before.1), \(after.1)")
    #expect(result.leaks == 0)
    #expect(vault.crooked.load(ordering: .relaxed) == 0)
    #expect(vault.begun.load(ordering: .relaxed) > count / 20)
    // Alone, nothing else of this process changes them.
    if isSoak { #expect(after.0 - before.0 < 64 << 20) }
    let client = try HTTPClient(base: "http://127.0.0.1:\(server.port)", stop: StopSignal())
    #expect(try client.perform("GET", "/cairn").status == 404)
    server.stop()
    #expect(vault.open.load(ordering: .relaxed) == 0)
  }

  @Test func `a connection without TLS ends at the handshake`() throws {
    let authority = try TestAuthority()
    try authority.issue("hq", .server(names: ["127.0.0.1"]))
    let vault = Vault()
    let server = try HTTPServer(
      host: "127.0.0.1", port: 0, tls: authority.server(), limits: HTTPLimits(connections: 60, handshakeSeconds: 2),
      handler: vault)
    var random = Seeded(UInt64.random(in: 0...9_999_999))
    for n in 0..<(isSoak ? 5000 : 200) {
      guard let peer = RawPeer(server.port) else { continue }
      let garbage = (0..<Int.random(in: 0..<600, using: &random)).map { _ in UInt8.random(in: 0...255, using: &random) }
      // Half of them begin as a handshake does.
      peer.send((n % 2 == 0 ? [0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3] : []) + garbage)
      shutdown(peer.descriptor, Int32(SHUT_WR))
      #expect(!String(decoding: peer.all(), as: UTF8.self).contains("HTTP/1"))
    }
    #expect(vault.begun.load(ordering: .relaxed) == 0)
    server.stop()
  }
}
