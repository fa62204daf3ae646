import Changes
import Foundation
import NetKit
import Synchronization
import SystemKit
import Testing

@testable import Trust

/// A node that listens, and others that join it.
@Suite struct JoinTests {
  private struct Desk: HTTPHandler {
    let desk: JoinHandler
    func begin(_ request: HTTPRequest) -> HTTPAction {
      if let peer = request.peer { desk.noteUse(of: peer) }
      if ["/join", "/renew", "/authority"].contains(where: { request.path.hasSuffix($0) }) {
        return desk.begin(request)
      }
      return .answer(
        HTTPResponse(status: 200, type: "text/plain", text: request.peer?.commonName ?? request.peerProblem ?? "nobody")
      )
    }
  }

  private final class Folder {
    let path = NSTemporaryDirectory() + "cairn-peering-\(UUID().uuidString)"
    init() throws { try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true) }
    deinit { try? FileManager.default.removeItem(atPath: path) }
  }

  private final class Time: Sendable { let value = Atomic<Int64>(0) }

  private let folder: Folder
  private let hub: PeerFolder
  private let till: PeerFolder
  private let server: HTTPServer
  private let now = Clock.system.microseconds()
  /// The time of the desk; 0: the real time.
  private let time: Time
  private let stop = StopSignal()

  init() throws {
    folder = try Folder()
    hub = PeerFolder(state: folder.path + "/hub")
    till = PeerFolder(state: folder.path + "/till")
    try hub.prepare(node: "hq", host: "127.0.0.1", now: now)
    let time = Time()
    self.time = time
    let clock = Clock {
      let set = time.value.load(ordering: .relaxed)
      return set == 0 ? Clock.system.microseconds() : set
    }
    server = try HTTPServer(
      host: "127.0.0.1", port: 0, tls: hub.serverTLS, handler: Desk(desk: JoinHandler(hub, node: "hq", clock: clock)))
  }

  private func line(_ name: String, expires: Int64 = 600_000_000, port: UInt16? = nil) throws -> JoinLine {
    let token = try Invitations(hub).make(name, expires: now + expires)
    return JoinLine(
      address: "127.0.0.1:\(port ?? server.port)", token: token,
      key: try hub.certificate("node.crt").keyDigest.map { String(format: "%02x", $0) }.joined())
  }

  private func ask(_ folder: PeerFolder, as peer: String = "hq", port: UInt16? = nil) throws -> String {
    let client = try HTTPClient(
      base: "https://127.0.0.1:\(port ?? server.port)", tls: folder.clientTLS(peer), stop: stop)
    return String(decoding: try client.perform("GET", "/who").body, as: UTF8.self)
  }

  @Test func `a node that has joined is known, and knows whom it joined`() throws {
    let line = try line("till-7")
    #expect(JoinLine(" \(line)\n") == line)
    let outcome = try Joining(till, node: "till-7").join(line)
    #expect(outcome.hub == "hq")
    #expect(outcome.certificate.commonName == "till-7")
    #expect(till.joinedNames == ["hq"])
    #expect(try ask(till) == "till-7")
    #expect(IssuedCertificates(hub).all().map(\.certificate) == [outcome.certificate])
    for (path, mode) in [
      (hub.file("ca.key"), 0o600), (hub.file("node.key"), 0o600), (till.joined("hq").file("node.key"), 0o600),
      (hub.file("ca.crt"), 0o644),
    ] {
      let attributes = try FileManager.default.attributesOfItem(atPath: path)
      #expect((attributes[.posixPermissions] as? Int) == mode, "\(path)")
    }
    // The name in the certificate is that of the node, not that of the host.
    let error = #expect(throws: CairnError.self) { try ask(till, as: "shop") }
    #expect(error?.code == .confValue || error?.code == .peerUntrusted)
  }

  @Test func `a token finds its own invitation among many, and an invented one finds none`() throws {
    let invitations = Invitations(hub)
    let tokens = try (0..<30).map { try invitations.make("till-\($0)", expires: now + 60_000_000) }
    for (number, token) in tokens.enumerated() { #expect(try invitations.find(token)?.name == "till-\(number)") }
    for _ in 0..<200 {
      let wrong = (0..<32).compactMap { _ in "0123456789abcdef".randomElement().map(String.init) }.joined()
      #expect(try invitations.find(wrong) == nil, "\(wrong)")
    }
  }

  @Test func `a token is good once, for one name and for a time`() throws {
    let used = try line("till-7")
    _ = try Joining(till, node: "till-7").join(used)
    var error = #expect(throws: CairnError.self) { _ = try Joining(till, node: "till-7").join(used) }
    #expect(error?.code == .peerUnknown)
    let other = try line("till-8")
    error = #expect(throws: CairnError.self) { _ = try Joining(till, node: "till-7").join(other) }
    #expect(error?.code == .peerRefused)
    #expect(error?.message.contains("for node 'till-8', not for 'till-7'") == true)
    _ = try Joining(PeerFolder(state: folder.path + "/8"), node: "till-8").join(other)
    let late = try line("till-7", expires: -1)
    error = #expect(throws: CairnError.self) { _ = try Joining(till, node: "till-7").join(late) }
    #expect(error?.code == .peerUnknown)
    let wrong = JoinLine(address: used.address, token: String(repeating: "a", count: 32), key: used.key)
    error = #expect(throws: CairnError.self) { _ = try Joining(till, node: "till-7").join(wrong) }
    #expect(error?.code == .peerUnknown)
    // No token lies about.
    let files = try FileManager.default.subpathsOfDirectory(atPath: hub.path)
    #expect(!files.contains { $0.contains(used.token) })
  }

  @Test func `one token among many bearers is used by one`() throws {
    let line = try line("till-7")
    let folder = folder.path
    let threads = try (0..<8).map { n in
      try WorkerThread<Bool> {
        (try? Joining(PeerFolder(state: "\(folder)/race-\(n)"), node: "till-7").join(line)) != nil
      }
    }
    #expect(threads.filter { $0.join() == true }.count == 1)
    #expect(IssuedCertificates(hub).all().count == 1)
  }

  @Test func `a node with another key than the line says does not get the token`() throws {
    let right = try line("till-7")
    let line = JoinLine(address: right.address, token: right.token, key: String(right.key.reversed()))
    let error = #expect(throws: CairnError.self) { _ = try Joining(till, node: "till-7").join(line) }
    #expect(error?.code == .peerUntrusted)
    #expect(Invitations(hub).all().count == 1)
  }

  @Test func `a revoked certificate counts no more, at once and for ever`() throws {
    _ = try Joining(till, node: "till-7").join(try line("till-7"))
    #expect(try ask(till) == "till-7")
    #expect(try IssuedCertificates(hub).revoke("till-7", now: now).fingerprints.count == 1)
    #expect(try ask(till).contains("was revoked"))
    #expect(try IssuedCertificates(hub).revoke("till-7", now: now).fingerprints.isEmpty)
    let late = now + PeerFolder.year * 9 / 10
    let error = #expect(throws: CairnError.self) {
      _ = try Joining(till, node: "till-7").renewIfDue("hq", base: "https://127.0.0.1:\(server.port)", now: late)
    }
    #expect(error?.code == .peerUnknown)
    // Invited again, it is a peer again.
    _ = try Joining(till, node: "till-7").join(try line("till-7"))
    #expect(try ask(till) == "till-7")
    // A list that cannot be read revokes all.
    try FileManager.default.removeItem(atPath: hub.file("revoked"))
    try FileManager.default.createDirectory(atPath: hub.file("revoked"), withIntermediateDirectories: true)
    #expect(try ask(till).contains("was revoked"))
  }

  @Test func `a list that is missing revokes all, for the listener that runs and for the next one`() throws {
    _ = try Joining(till, node: "till-7").join(try line("till-7"))
    #expect(try ask(till) == "till-7")
    try FileManager.default.removeItem(atPath: hub.file("revoked"))
    #expect(try ask(till).contains("was revoked"))
    let peer = try #require(till.joinedCertificate("hq"))
    #expect(hub.revoked.contains(peer) && hub.revoked.problem != nil)
    // Revoking does not begin it again.
    #expect(throws: CairnError.self) { try IssuedCertificates(hub).revoke("till-7", now: now) }
    #expect(!isThere(hub.file("revoked")))
    try "".write(toFile: hub.file("revoked"), atomically: true, encoding: .utf8)
    #expect(try ask(till) == "till-7")
  }

  @Test func `a node of an earlier build has no list until it is looked after, and one from then on`() throws {
    _ = try Joining(till, node: "till-7").join(try line("till-7"))
    let peer = try #require(till.joinedCertificate("hq"))
    let authority = try hub.certificate("ca.crt").pem
    try authority.write(toFile: hub.file("ca.crt"), atomically: true, encoding: .utf8)
    try FileManager.default.removeItem(atPath: hub.file("revoked"))
    #expect(!hub.revoked.contains(peer))
    _ = try hub.upkeep(node: "hq", now: now)
    #expect(!hub.revoked.contains(peer))
    try FileManager.default.removeItem(atPath: hub.file("revoked"))
    #expect(hub.revoked.contains(peer))
  }

  @Test func `a list of many MiB is a list: what comes last in it counts, and nothing is lost from it`() throws {
    _ = try Joining(till, node: "till-7").join(try line("till-7"))
    let old = (0..<50_000).map { String(format: "%064x", $0) + " gone-\($0) 1\n" }.joined()
    #expect(old.utf8.count > 3 << 20)
    try old.write(toFile: hub.file("revoked"), atomically: true, encoding: .utf8)
    #expect(try ask(till) == "till-7")
    #expect(try IssuedCertificates(hub).revoke("till-7", now: now).fingerprints.count == 1)
    #expect(try ask(till).contains("was revoked"))
    let text = try String(contentsOfFile: hub.file("revoked"), encoding: .utf8)
    #expect(text.hasPrefix(old))
    // One line a name, however often.
    for _ in 0..<5 {
      _ = try Joining(till, node: "till-7").join(try line("till-7"))
      #expect(try ask(till) == "till-7")
      #expect(try IssuedCertificates(hub).revoke("till-7", now: now).fingerprints.count == 1)
      #expect(try ask(till).contains("was revoked"))
    }
    let after = try String(contentsOfFile: hub.file("revoked"), encoding: .utf8)
    #expect(after.split(separator: "\n").filter { $0.contains(" till-7 ") }.count == 1)
    // A line that is not understood leaves nothing known.
    try (after + "till-9\n").write(toFile: hub.file("revoked"), atomically: true, encoding: .utf8)
    #expect(hub.revoked.problem?.reason.contains("line 50002") == true, "\(String(describing: hub.revoked.problem))")
  }

  @Test func `four hundred requests for a renewal bring nothing`() throws {
    _ = try Joining(till, node: "till-7").join(try line("till-7"))
    let client = try HTTPClient(base: "https://127.0.0.1:\(server.port)", tls: till.clientTLS("hq"), stop: stop)
    func renew(_ key: PrivateKey) throws -> (Int, String) {
      let request = try CertificateRequest(commonName: "till-7", key: key).pem
      let bytes = Array(JSONObject([("request", .text(request))]).line.utf8)
      let reply = try bytes.withUnsafeBytes { try client.perform("POST", "/cairn/1/renew", body: $0) }
      return (reply.status, String(decoding: reply.body, as: UTF8.self))
    }
    let own = try till.joined("hq").key("node.key")
    let early = try renew(own)
    #expect(early.0 == 403 && early.1.contains("last third"), "\(early)")
    time.value.store(now + PeerFolder.year * 7 / 10, ordering: .relaxed)
    let other = try renew(PrivateKey())
    #expect(other.0 == 403 && other.1.contains("keep the key"), "\(other)")
    var answers: [Int: Int] = [:]
    for _ in 0..<400 { answers[try renew(own).0, default: 0] += 1 }
    #expect(answers[429] ?? 0 >= 390 && (answers[200] ?? 0) <= 4, "\(answers)")
    #expect(IssuedCertificates(hub).all().count == 2)
  }

  @Test func `a known name does not become another authority's`() throws {
    _ = try Joining(till, node: "till-7").join(try line("till-7"))
    let known = try String(contentsOfFile: till.joined("hq").file("ca.crt"), encoding: .utf8)
    let evil = PeerFolder(state: folder.path + "/evil")
    try evil.prepare(node: "hq", host: "127.0.0.1", now: now)
    let listener = try HTTPServer(
      host: "127.0.0.1", port: 0, tls: evil.serverTLS, handler: Desk(desk: JoinHandler(evil, node: "hq")))
    func trap() throws -> JoinLine {
      JoinLine(
        address: "127.0.0.1:\(listener.port)", token: try Invitations(evil).make("till-7", expires: now + 60_000_000),
        key: try evil.keyDigest())
    }
    let error = #expect(throws: CairnError.self) { try Joining(till, node: "till-7").join(try trap()) }
    let fingerprint = try evil.certificate("ca.crt").fingerprint
    #expect(
      error?.code == .peerUntrusted && error?.message.contains(fingerprint) == true, "\(String(describing: error))")
    #expect(try String(contentsOfFile: till.joined("hq").file("ca.crt"), encoding: .utf8) == known)
    #expect(try ask(till) == "till-7")
    #expect(throws: CairnError.self) {
      try Joining(till, node: "till-7").join(try trap(), replacing: String(fingerprint.reversed()))
    }
    // The operator means it.
    _ = try Joining(till, node: "till-7").join(try trap(), replacing: String(fingerprint.prefix(16)))
    #expect(try till.joined("hq").certificate("ca.crt").fingerprint == fingerprint)
    #expect(try FileManager.default.contentsOfDirectory(atPath: till.file("joined")) == ["hq"])
    withExtendedLifetime(listener) {}
  }

  @Test func `a false node does not pass by the known authority beside its own`() throws {
    _ = try Joining(till, node: "till-7").join(try line("till-7"))
    let known = try String(contentsOfFile: till.joined("hq").file("ca.crt"), encoding: .utf8)
    let evil = PeerFolder(state: folder.path + "/evil")
    try evil.prepare(node: "hq", host: "127.0.0.1", now: now)
    // Every peer of the real node has its authority's certificate.
    let real = try hub.certificate("ca.crt")
    let own = try evil.certificate("ca.crt")
    try evil.replace("ca", [own, real], key: try evil.key("ca.key"))
    let listener = try HTTPServer(
      host: "127.0.0.1", port: 0, tls: evil.serverTLS, handler: Desk(desk: JoinHandler(evil, node: "hq")))
    let trap = JoinLine(
      address: "127.0.0.1:\(listener.port)", token: try Invitations(evil).make("till-7", expires: now + 60_000_000),
      key: try evil.keyDigest())
    let error = #expect(throws: CairnError.self) { try Joining(till, node: "till-7").join(trap) }
    #expect(
      error?.code == .peerUntrusted && error?.message.contains(own.fingerprint) == true, "\(String(describing: error))")
    #expect(try String(contentsOfFile: till.joined("hq").file("ca.crt"), encoding: .utf8) == known)
    #expect(try ask(till) == "till-7")
    withExtendedLifetime(listener) {}
  }

  @Test func `who joins again after the authority was replaced compares it`() throws {
    _ = try Joining(till, node: "till-7").join(try line("till-7"))
    let rotation = try hub.rotate(node: "hq", authority: true, listener: false, dropsOld: false, now: now)
    let fingerprint = try #require(rotation.authority)
    let error = #expect(throws: CairnError.self) { try Joining(till, node: "till-7").join(try line("till-7")) }
    #expect(error?.code == .peerUntrusted && error?.hint.contains(String(fingerprint.prefix(16))) == true)
    _ = try Joining(till, node: "till-7").join(try line("till-7"), replacing: String(fingerprint.prefix(16)))
    #expect(try till.joined("hq").certificate("ca.crt").fingerprint == fingerprint)
  }

  @Test func `who joins again has one certificate, and the one before counts no more`() throws {
    _ = try Joining(till, node: "till-7").join(try line("till-7"))
    let thief = PeerFolder(state: folder.path + "/thief")
    try FileManager.default.createDirectory(atPath: thief.path, withIntermediateDirectories: true)
    try FileManager.default.copyItem(atPath: till.file("joined"), toPath: thief.file("joined"))
    #expect(try ask(thief) == "till-7")
    _ = try Joining(till, node: "till-7").join(try line("till-7"))
    #expect(try ask(thief).contains("was revoked"))
    #expect(try ask(till) == "till-7")
  }

  @Test func `a stranger's request for a certificate is not even parsed`() throws {
    let client = try HTTPClient(base: "https://127.0.0.1:\(server.port)", tls: hub.clientTLS("hq"), stop: stop)
    let body = Array("{\"token\": \"\(String(repeating: "a", count: 32))\", \"request\": \"no PEM\"}".utf8)
    #expect(try body.withUnsafeBytes { try client.perform("POST", "/cairn/1/join", body: $0) }.status == 401)
  }

  @Test func `a peer has no more connections than its share, from whatever address`() throws {
    _ = try Joining(till, node: "till-7").join(try line("till-7"))
    let small = try HTTPServer(
      host: "127.0.0.1", port: 0, tls: hub.serverTLS, limits: HTTPLimits(perPeer: 2),
      handler: Desk(desk: JoinHandler(hub, node: "hq")))
    let clients = try (0..<3).map { _ in
      try HTTPClient(base: "https://127.0.0.1:\(small.port)", tls: till.clientTLS("hq"), stop: stop)
    }
    let answers = try clients.map { try $0.perform("GET", "/who").status }
    #expect(answers == [200, 200, 429])
    // A connection that is refused takes no place, however often it is tried.
    for _ in 0..<20 {
      let statuses = [clients[2], clients[0]].map { try? $0.perform("GET", "/who").status }
      #expect(statuses == [429, 200])
    }
  }

  @Test func `the body of a stranger that trickles in is not waited for`() throws {
    let slow = try HTTPServer(
      host: "127.0.0.1", port: 0, tls: hub.serverTLS, limits: HTTPLimits(idleSeconds: 60, handshakeSeconds: 1),
      handler: Desk(desk: JoinHandler(hub, node: "hq")))
    let program = """
      import socket, ssl, time
      context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
      context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
      peer = context.wrap_socket(socket.create_connection(("127.0.0.1", \(slow.port))))
      peer.sendall(b"POST /cairn/1/join HTTP/1.1\\r\\nHost: x\\r\\nContent-Length: 16000\\r\\n\\r\\n")
      begun = time.monotonic()
      try:
        while time.monotonic() - begun < 20:
          peer.sendall(b"a")
          time.sleep(0.2)
        print("open")
      except OSError:
        print("ended")
      """
    let process = Process()
    let output = Pipe()
    process.executableURL = URL(fileURLWithPath: "/usr/bin/python3")
    (process.arguments, process.standardOutput) = (["-c", program], output)
    try process.run()
    let text = String(decoding: output.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
    process.waitUntilExit()
    #expect(text == "ended\n")
  }

  @Test func `an authority is replaced while peers go on`() throws {
    let base = "https://127.0.0.1:\(server.port)"
    let joining = Joining(till, node: "till-7")
    _ = try joining.join(try line("till-7"))
    #expect(try joining.renewIfDue("hq", base: base, now: now) == nil)
    let old = try hub.certificate("ca.crt").fingerprint
    let thief = try copy(of: till)
    let rotation = try hub.rotate(node: "hq", authority: true, listener: false, dropsOld: false, now: now)
    #expect(try hub.certificates("ca.crt").map(\.fingerprint) == [try #require(rotation.authority), old])
    #expect(try hub.upkeep(node: "hq", now: now).isEmpty)
    // The listener has both authorities now; what it shows is of the old one.
    let next = try HTTPServer(
      host: "127.0.0.1", port: 0, tls: hub.serverTLS, handler: Desk(desk: JoinHandler(hub, node: "hq")))
    func name(_ port: UInt16) throws -> String { try ask(till, port: port) }
    #expect(try name(next.port) == "till-7")
    #expect(try ask(thief, port: next.port) == "till-7")
    #expect(try joining.renewIfDue("hq", base: "https://127.0.0.1:\(next.port)", now: now) != nil)
    #expect(try name(next.port) == "till-7")
    #expect(try joining.renewIfDue("hq", base: "https://127.0.0.1:\(next.port)", now: now) == nil)
    #expect(try hub.upkeep(node: "hq", now: now).count == 1)
    #expect(try hub.certificates("ca.crt").map(\.fingerprint) == [rotation.authority])
    let last = try HTTPServer(
      host: "127.0.0.1", port: 0, tls: hub.serverTLS, handler: Desk(desk: JoinHandler(hub, node: "hq")))
    #expect(try name(last.port) == "till-7")
    try trust(hub, in: thief)
    #expect(try ask(thief, port: last.port).contains("comes from another authority"))
    // The list of revoked certificates is kept also by the new authority.
    try FileManager.default.removeItem(atPath: hub.file("revoked"))
    #expect(try name(last.port).contains("was revoked"))
  }

  /// A folder with the certificate and the key of a node that has joined.
  private func copy(of node: PeerFolder) throws -> PeerFolder {
    let copy = PeerFolder(state: folder.path + "/copy")
    try FileManager.default.createDirectory(atPath: copy.path, withIntermediateDirectories: true)
    try FileManager.default.copyItem(atPath: node.file("joined"), toPath: copy.file("joined"))
    return copy
  }

  /// Gives a node the present authority of another one, which the other one shows to everyone.
  private func trust(_ hub: PeerFolder, in node: PeerFolder) throws {
    try hub.certificate("ca.crt").pem.write(
      toFile: node.joined("hq").file("ca.crt"), atomically: true, encoding: .utf8)
  }

  @Test func `after a stolen authority is replaced and dropped, none of its certificates is accepted`() throws {
    _ = try Joining(till, node: "till-7").join(try line("till-7"))
    // The thief of the key makes a certificate of any name.
    let thief = try copy(of: till)
    let terms = CertificateTerms(
      commonName: "till-9", purpose: .client, notBefore: now - PeerFolder.day, notAfter: now + PeerFolder.year)
    let request = try CertificateRequest(commonName: "till-9", key: thief.joined("hq").key("node.key"))
    let (stolen, key) = (try hub.certificate("ca.crt"), try hub.key("ca.key"))
    try Certificate.issue(terms, for: request, by: stolen, key: key).pem.write(
      toFile: thief.joined("hq").file("node.crt"), atomically: true, encoding: .utf8)
    #expect(try ask(till) == "till-7" && ask(thief) == "till-9")
    let rotation = try hub.rotate(node: "hq", authority: true, listener: true, dropsOld: true, now: now)
    let fingerprint = try #require(rotation.authority)
    #expect(try hub.certificates("ca.crt").map(\.fingerprint) == [fingerprint])
    #expect(try hub.certificate("node.crt").isIssued(by: hub.certificate("ca.crt")))
    #expect(try hub.peersOfOldAuthorities(now: now) == ["till-7"])
    let next = try HTTPServer(
      host: "127.0.0.1", port: 0, tls: hub.serverTLS, handler: Desk(desk: JoinHandler(hub, node: "hq")))
    // Peers of the old authority no longer know the listener.
    #expect(throws: CairnError.self) { try ask(till, port: next.port) }
    for node in [till, thief] {
      try trust(hub, in: node)
      #expect(try ask(node, port: next.port).contains("comes from another authority"))
    }
    _ = try Joining(till, node: "till-7").join(
      try line("till-7", port: next.port), replacing: String(fingerprint.prefix(16)))
    #expect(try ask(till, port: next.port) == "till-7")
  }

  @Test func `a certificate of a dropped authority is not renewed, also on a connection that is still open`() throws {
    _ = try Joining(till, node: "till-7").join(try line("till-7"))
    let shown = try #require(till.joinedCertificate("hq"))
    let request = try CertificateRequest(commonName: "till-7", key: till.joined("hq").key("node.key"))
    func renewal() throws -> IssuedCertificates.Renewal {
      try IssuedCertificates(hub).renew(shown, request, now: now + PeerFolder.year * 9 / 10)
    }
    _ = try hub.rotate(node: "hq", authority: true, listener: false, dropsOld: false, now: now)
    guard case .certificate = try renewal() else { return #expect(Bool(false), "an old authority is still accepted") }
    _ = try hub.rotate(node: "hq", authority: true, listener: false, dropsOld: true, now: now)
    guard case .refused(let why, _) = try renewal() else { return #expect(Bool(false), "its authority was dropped") }
    #expect(why.contains("dropped"))
  }

  @Test func `a revocation withdraws invitations, and only the latest one of a name is valid`() throws {
    let (first, second) = (try line("till-7"), try line("till-7"))
    // A join ends the other invitations of its name, so that no other node comes later in its place.
    _ = try Joining(till, node: "till-7").join(first)
    #expect(Invitations(hub).all().isEmpty)
    let other = PeerFolder(state: folder.path + "/other")
    #expect(throws: CairnError.self) { try Joining(other, node: "till-7").join(second) }
    // A join whose token was looked up before the revocation gets no certificate after it.
    let late = try line("till-7")
    let invitation = try #require(try Invitations(hub).find(late.token))
    let revoked = try IssuedCertificates(hub).revoke("till-7", now: now)
    #expect(revoked.fingerprints.count == 1 && revoked.invitations == 1)
    let request = try CertificateRequest(commonName: "till-7", key: PrivateKey())
    #expect(try IssuedCertificates(hub).join(invitation, request, now: now) == nil)
    #expect(try ask(till).contains("was revoked"))
  }

  @Test func `a replacement that a crash has cut is ended, and one that had not begun is none`() throws {
    let before = try hub.keyDigest()
    let key = try PrivateKey()
    try key.pem.write(toFile: hub.file("node.key.next"), atomically: true, encoding: .utf8)
    _ = try hub.upkeep(node: "hq", now: now)
    #expect(try hub.keyDigest() == before && !isThere(hub.file("node.key.next")))
    let rotation = try hub.rotate(node: "hq", authority: false, listener: true, dropsOld: false, now: now)
    #expect(try hub.keyDigest() == rotation.listenerKey)
    // The certificate is in its place, the key is not yet.
    try FileManager.default.moveItem(atPath: hub.file("node.key"), toPath: hub.file("node.key.next"))
    try key.pem.write(toFile: hub.file("node.key"), atomically: true, encoding: .utf8)
    _ = try hub.upkeep(node: "hq", now: now)
    #expect(try hub.key("node.key").digest == hub.certificate("node.crt").keyDigest)
  }

  @Test func `lives are short, and the listener's is renewed by itself with the same key and names`() throws {
    let authority = try hub.certificate("ca.crt")
    let shown = try hub.certificate("node.crt")
    #expect(authority.notAfter - now < 11 * PeerFolder.year && shown.notAfter - now < 2 * PeerFolder.year)
    #expect(try hub.upkeep(node: "hq", now: now).isEmpty)
    #expect(try hub.upkeep(node: "hq", now: now + PeerFolder.year * 7 / 10).count == 1)
    let fresh = try hub.certificate("node.crt")
    #expect(fresh.notAfter > shown.notAfter && fresh.keyDigest == shown.keyDigest)
    #expect(fresh.names == ["hq", "127.0.0.1"])
  }

  @Test func `a certificate is renewed in the last third of its time`() throws {
    // Joined so long ago that two thirds of its life are over.
    time.value.store(now - PeerFolder.year * 7 / 10, ordering: .relaxed)
    let first = try Joining(till, node: "till-7").join(try line("till-7")).certificate
    time.value.store(0, ordering: .relaxed)
    let (joining, base) = (Joining(till, node: "till-7"), "https://127.0.0.1:\(server.port)")
    #expect(try joining.renewIfDue("hq", base: base, now: now - PeerFolder.year / 2) == nil)
    #expect(try joining.renewIfDue("shop", base: base, now: now) == nil)
    let late = now
    let before = try String(contentsOfFile: till.joined("hq").file("node.crt"), encoding: .utf8)
    let second = try #require(try joining.renewIfDue("hq", base: base, now: late))
    #expect(second.fingerprint != first.fingerprint)
    // The answer was lost: it is given again, and no other certificate with it.
    try before.write(toFile: till.joined("hq").file("node.crt"), atomically: true, encoding: .utf8)
    #expect(try joining.renewIfDue("hq", base: base, now: late) == second)
    #expect(IssuedCertificates(hub).all().count == 2)
    // The new one is shown: the one before counts no more.
    #expect(try ask(till) == "till-7")
    #expect(IssuedCertificates(hub).all().map(\.certificate) == [second])
    try before.write(toFile: till.joined("hq").file("node.crt"), atomically: true, encoding: .utf8)
    #expect(try ask(till).contains("was revoked"))
  }

  @Test(arguments: ["", "{}", "[1]", "{\"token\": \"x\"}", "{\"token\": 1, \"request\": 2}", "not JSON at all"])
  func `a text that is no request for a certificate is refused`(body: String) throws {
    let client = try HTTPClient(base: "https://127.0.0.1:\(server.port)", tls: hub.clientTLS("hq"), stop: stop)
    let bytes = Array(body.utf8)
    #expect(try bytes.withUnsafeBytes { try client.perform("POST", "/cairn/1/join", body: $0) }.status == 400)
    #expect(try client.perform("GET", "/cairn/1/join").status == 405)
    let large = [UInt8](repeating: 0x20, count: 20000)
    #expect(try large.withUnsafeBytes { try client.perform("POST", "/cairn/1/join", body: $0) }.status == 413)
  }

  private func isThere(_ path: String) -> Bool { FileManager.default.fileExists(atPath: path) }

  @Test func `the authority is made once, and never in part`() throws {
    let before = try String(contentsOfFile: hub.file("ca.crt"), encoding: .utf8)
    try hub.prepare(node: "hq", host: nil, now: now)
    #expect(try String(contentsOfFile: hub.file("ca.crt"), encoding: .utf8) == before)
    try FileManager.default.removeItem(atPath: hub.file("ca.key"))
    #expect(throws: CairnError.self) { try hub.prepare(node: "hq", host: nil, now: now) }
  }

  @Test(arguments: [
    "", "hq:7420", "hq:7420/ab/cd", "hq/\(String(repeating: "a", count: 32))/\(String(repeating: "b", count: 64))",
    "hq:7420/\(String(repeating: "g", count: 32))/\(String(repeating: "b", count: 64))", "a b",
  ]) func `a text that is no line to join by is refused`(text: String) {
    #expect(JoinLine(text) == nil)
  }
}
