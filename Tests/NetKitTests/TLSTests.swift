import Changes
import Foundation
import NetKit
import Synchronization
import SystemKit
import TestServers
import Testing

@Suite struct TLSTests {
  private let authority: TestAuthority
  private let handler = EchoHandler()
  private let stop = StopSignal()

  init() throws {
    authority = try TestAuthority()
    try authority.issue("hq", .server(names: ["hq", "localhost", "127.0.0.1", "::1"]))
    try authority.issue("till")
  }

  private func ask(_ server: HTTPServer, _ tls: ClientTLS, host: String = "127.0.0.1") throws -> (Int, String) {
    let client = try HTTPClient(
      base: "https://\(host):\(server.port)", tls: tls, options: .init(connectSeconds: 5, node: "till"), stop: stop)
    let reply = try client.perform("GET", "/who")
    return (reply.status, String(decoding: reply.body, as: UTF8.self))
  }

  @Test(arguments: ["127.0.0.1", "[::1]", "localhost"]) func `both sides know each other`(host: String) throws {
    let server = try HTTPServer(
      host: host == "[::1]" ? "::1" : "127.0.0.1", port: 0, tls: authority.server(), handler: handler)
    let answer = try ask(server, authority.client(), host: host)
    #expect(answer == (200, "till till"), "\(answer)")
  }

  @Test func `bodies pass both ways`() throws {
    let server = try HTTPServer(host: "127.0.0.1", port: 0, tls: authority.server(), handler: handler)
    let client = try HTTPClient(base: "https://127.0.0.1:\(server.port)", tls: authority.client(), stop: stop)
    let body = [UInt8](repeating: 7, count: 5 << 20)
    var got = 0
    let reply = try body.withUnsafeBytes { try client.perform("POST", "/echo", body: $0) { got += $0.count } }
    #expect((reply.status, got) == (200, body.count))
  }

  @Test func `a client without a certificate of our authority has no name`() throws {
    let server = try HTTPServer(host: "127.0.0.1", port: 0, tls: authority.server(), handler: handler)
    #expect(try ask(server, authority.client(nil)).1 == "nobody till")
    for (name, isKept) in [(nil, false), ("till", true)] {
      let client = try HTTPClient(base: "https://127.0.0.1:\(server.port)", tls: authority.client(name), stop: stop)
      #expect(try (client.perform("GET", "/who").headers["connection"] == nil) == isKept)
    }
    let other = try TestAuthority("another")
    try other.issue("till")
    var tls = other.client()
    tls.authorities = authority.authorities
    #expect(try ask(server, tls).1.contains("of 'till' comes from another authority"))
    // An authority that has the same name as ours.
    let double = try TestAuthority()
    try double.issue("till")
    tls = double.client()
    tls.authorities = authority.authorities
    let answer = try ask(server, tls).1
    #expect(answer.hasPrefix("? the certificate") && !answer.contains("till till"), "\(answer)")
  }

  @Test func `a certificate that has expired, is not valid yet, or is a server's only, does not count`() throws {
    let server = try HTTPServer(host: "127.0.0.1", port: 0, tls: authority.server(), handler: handler)
    try authority.issue("old", from: -3, to: -1)
    #expect(try ask(server, authority.client("old")).1.contains("'old' has expired"))
    try authority.issue("young", from: 1, to: 2)
    #expect(try ask(server, authority.client("young")).1.contains("'young' is not valid yet"))
  }

  @Test func `a certificate counts until it is revoked, also on an open connection`() throws {
    final class Flag: Sendable { let value = Atomic<Bool>(false) }
    let flag = Flag()
    let tls = authority.server(revoked: { $0.commonName == "till" && flag.value.load(ordering: .relaxed) })
    let server = try HTTPServer(host: "127.0.0.1", port: 0, tls: tls, handler: handler)
    let client = try HTTPClient(base: "https://127.0.0.1:\(server.port)", tls: authority.client(), stop: stop)
    #expect(try String(decoding: client.perform("GET", "/who").body, as: UTF8.self) == "till -")
    flag.value.store(true, ordering: .relaxed)
    #expect(try String(decoding: client.perform("GET", "/who").body, as: UTF8.self).contains("was revoked"))
  }

  @Test func `a wait for an answer ends within a second after the certificate is revoked`() throws {
    final class Flag: Sendable { let value = Atomic<Bool>(false) }
    let (flag, authority, handler) = (Flag(), self.authority, self.handler)
    let tls = authority.server(revoked: { $0.commonName == "till" && flag.value.load(ordering: .relaxed) })
    let server = try HTTPServer(host: "127.0.0.1", port: 0, tls: tls, handler: handler)
    let clientTLS = authority.client()
    let waiter = try WorkerThread<Int?> {
      let client = try? HTTPClient(base: "https://127.0.0.1:\(server.port)", tls: clientTLS, stop: StopSignal())
      return try? client?.perform("GET", "/wait?ms=60000").status
    }
    while handler.waiting.load(ordering: .sequentiallyConsistent) == 0 { Clock.sleep(milliseconds: 5) }
    let start = Clock.monotonicMilliseconds
    flag.value.store(true, ordering: .relaxed)
    while waiter.outcome == nil, Clock.monotonicMilliseconds - start < 10_000 { Clock.sleep(milliseconds: 10) }
    let took = Clock.monotonicMilliseconds - start
    handler.ending.set()
    #expect(waiter.join() == .some(nil), "an answer came")
    #expect(took < 2000, "\(took) ms")
  }

  // MARK: Strangers

  @Test func `a stranger who says nothing, or never ends the handshake, is not waited for`() throws {
    let server = try HTTPServer(
      host: "127.0.0.1", port: 0, tls: authority.server(), limits: HTTPLimits(idleSeconds: 60, handshakeSeconds: 1),
      handler: handler)
    // A record of a handshake that announces more than comes.
    for beginning in [[], [0x16, 0x03, 0x01, 0x02, 0x00, 0x01, 0x00, 0x01, 0xfc, 0x03, 0x03]] as [[UInt8]] {
      let peer = try #require(RawPeer(server.port))
      let start = Clock.monotonicMilliseconds
      peer.send(beginning)
      while peer.send(beginning.isEmpty ? [] : [0]), Clock.monotonicMilliseconds - start < 4000 {
        Clock.sleep(milliseconds: 100)
        if beginning.isEmpty { break }
      }
      _ = peer.all()
      #expect(Clock.monotonicMilliseconds - start < 6000)
    }
    #expect(try ask(server, authority.client()).0 == 200)
  }

  @Test func `strangers who hold all connections give way to a peer`() throws {
    let server = try HTTPServer(
      host: "127.0.0.1", port: 0, tls: authority.server(), limits: HTTPLimits(connections: 3, perAddress: 100),
      handler: handler)
    let silent = (0..<3).compactMap { _ in RawPeer(server.port) }
    #expect(silent.count == 3)
    #expect(try ask(server, authority.client()).0 == 200)
  }

  @Test func `a server is believed by its authority and name`() throws {
    let server = try HTTPServer(host: "127.0.0.1", port: 0, tls: authority.server(), handler: handler)
    #expect(try ask(server, authority.client(peer: "hq")).0 == 200)
    var error = #expect(throws: CairnError.self) { try ask(server, authority.client(peer: "hq2")) }
    #expect(error?.code == .peerUntrusted)
    #expect(error?.message.contains("is not for 'hq2'") == true, "\(error?.message ?? "")")
    let other = try TestAuthority("another")
    var tls = authority.client()
    tls.authorities = other.authorities
    error = #expect(throws: CairnError.self) { try ask(server, tls) }
    #expect(error?.message.contains("comes from another authority") == true, "\(error?.message ?? "")")
    tls.authorities = authority.path("none.crt")
    error = #expect(throws: CairnError.self) { try ask(server, tls) }
    #expect(error?.code == .confValue)
  }

  @Test func `a server whose certificate has expired is reported as such`() throws {
    try authority.issue("hq", .server(names: ["127.0.0.1"]), from: -3, to: -1)
    let server = try HTTPServer(host: "127.0.0.1", port: 0, tls: authority.server(), handler: handler)
    let error = #expect(throws: CairnError.self) { try ask(server, authority.client()) }
    #expect(error?.code == .peerUntrusted)
    #expect(error?.message.contains("of 'hq' has expired") == true, "\(error?.description ?? "")")
  }

  @Test func `a server is believed by its key alone`() throws {
    let shown = try Certificate(pem: try String(contentsOfFile: authority.path("hq.crt"), encoding: .utf8))
    let server = try HTTPServer(host: "127.0.0.1", port: 0, tls: authority.server(), handler: handler)
    let pin = "sha256//" + Data(shown.keyDigest).base64EncodedString()
    #expect(try ask(server, authority.client(nil, pin: pin)).1 == "nobody till")
    let wrong = "sha256//" + Data(shown.keyDigest.reversed()).base64EncodedString()
    let error = #expect(throws: CairnError.self) { try ask(server, authority.client(nil, pin: wrong)) }
    #expect(error?.code == .peerUntrusted)
    #expect(error?.message.contains("public key") == true, "\(error?.message ?? "")")
  }

  @Test func `plain HTTP and older TLS are not spoken`() throws {
    let server = try HTTPServer(host: "127.0.0.1", port: 0, tls: authority.server(), handler: handler)
    let plain = try HTTPClient(base: "http://127.0.0.1:\(server.port)", stop: stop)
    #expect(throws: CairnError.self) { try plain.perform("GET", "/who") }
    let listener = try HTTPServer(host: "127.0.0.1", port: 0, handler: handler)
    let error = #expect(throws: CairnError.self) { try ask(listener, authority.client()) }
    #expect(error?.code == .peerUnreachable, "\(error?.message ?? "")")
    for version in ["-tls1_2", "-tls1_3"] {
      let process = Process()
      process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
      process.arguments = ["openssl", "s_client", "-connect", "127.0.0.1:\(server.port)", version]
      (process.standardInput, process.standardOutput, process.standardError) = (
        FileHandle.nullDevice, FileHandle.nullDevice, FileHandle.nullDevice
      )
      try process.run()
      process.waitUntilExit()
      #expect((process.terminationStatus == 0) == (version == "-tls1_3"))
    }
  }

  @Test func `files that do not belong together are refused at the start`() throws {
    try authority.issue("other")
    var tls = authority.server()
    tls.key = authority.path("other.key")
    let error = #expect(throws: CairnError.self) {
      _ = try HTTPServer(host: "127.0.0.1", port: 0, tls: tls, handler: handler)
    }
    #expect(error?.code == .confValue)
  }
}
