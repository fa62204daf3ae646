import Changes
import Foundation
import NetKit
import SystemKit
import Testing

@testable import Peering

/// A node that listens, and others that join it.
@Suite struct JoinTests {
  private struct Desk: HTTPHandler {
    let desk: JoinDesk
    func begin(_ request: HTTPRequest) -> HTTPAction {
      if request.path.hasSuffix("/join") || request.path.hasSuffix("/renew") { return desk.begin(request) }
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

  private let folder: Folder
  private let hub: PeerFolder
  private let till: PeerFolder
  private let server: HTTPServer
  private let now = Clock.system.microseconds()
  private let stop = StopSignal()

  init() throws {
    folder = try Folder()
    hub = PeerFolder(state: folder.path + "/hub")
    till = PeerFolder(state: folder.path + "/till")
    try hub.prepare(node: "hq", host: "127.0.0.1", now: now)
    server = try HTTPServer(
      host: "127.0.0.1", port: 0, tls: hub.serverTLS, handler: Desk(desk: JoinDesk(hub, node: "hq")))
  }

  private func line(_ name: String, expires: Int64 = 60_000_000, port: UInt16? = nil) throws -> JoinLine {
    let token = try Invitations(hub).make(name, expires: now + expires)
    return JoinLine(
      address: "127.0.0.1:\(port ?? server.port)", token: token,
      key: try hub.certificate("node.crt").keyDigest.map { String(format: "%02x", $0) }.joined())
  }

  private func ask(_ folder: PeerFolder, as peer: String = "hq") throws -> String {
    let client = try HTTPClient(base: "https://127.0.0.1:\(server.port)", tls: folder.clientTLS(peer), stop: stop)
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

  @Test func `a token finds its own invitation among many, and one that nobody gave finds none`() throws {
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
    let threads = (0..<8).map { n in
      WorkerThread<Bool> {
        (try? Joining(PeerFolder(state: "\(folder)/race-\(n)"), node: "till-7").join(line)) != nil
      }
    }
    #expect(threads.filter { $0.join() == true }.count == 1)
    #expect(IssuedCertificates(hub).all().count == 1)
  }

  @Test func `whoever has another key than the line says is not told the token`() throws {
    let right = try line("till-7")
    let line = JoinLine(address: right.address, token: right.token, key: String(right.key.reversed()))
    let error = #expect(throws: CairnError.self) { _ = try Joining(till, node: "till-7").join(line) }
    #expect(error?.code == .peerUntrusted)
    #expect(Invitations(hub).all().count == 1)
  }

  @Test func `what is revoked counts no more, at once and for ever`() throws {
    _ = try Joining(till, node: "till-7").join(try line("till-7"))
    #expect(try ask(till) == "till-7")
    #expect(try IssuedCertificates(hub).revoke("till-7", now: now).count == 1)
    #expect(try ask(till).contains("was revoked"))
    #expect(try IssuedCertificates(hub).revoke("till-7", now: now).isEmpty)
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

  @Test func `a certificate is renewed in the last third of its time`() throws {
    let first = try Joining(till, node: "till-7").join(try line("till-7")).certificate
    let (joining, base) = (Joining(till, node: "till-7"), "https://127.0.0.1:\(server.port)")
    #expect(try joining.renewIfDue("hq", base: base, now: now) == nil)
    #expect(try joining.renewIfDue("shop", base: base, now: now) == nil)
    let second = try #require(try joining.renewIfDue("hq", base: base, now: now + PeerFolder.year * 7 / 10))
    #expect(second.fingerprint != first.fingerprint)
    #expect(try ask(till) == "till-7")
    #expect(IssuedCertificates(hub).all().count == 2)
  }

  @Test(arguments: ["", "{}", "[1]", "{\"token\": \"x\"}", "{\"token\": 1, \"request\": 2}", "not JSON at all"])
  func `what is no request for a certificate is refused`(body: String) throws {
    let client = try HTTPClient(base: "https://127.0.0.1:\(server.port)", tls: hub.clientTLS("hq"), stop: stop)
    let bytes = Array(body.utf8)
    #expect(try bytes.withUnsafeBytes { try client.perform("POST", "/cairn/1/join", body: $0) }.status == 400)
    #expect(try client.perform("GET", "/cairn/1/join").status == 405)
    let large = [UInt8](repeating: 0x20, count: 20000)
    #expect(try large.withUnsafeBytes { try client.perform("POST", "/cairn/1/join", body: $0) }.status == 413)
  }

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
  ]) func `what is no line to join by is refused`(text: String) {
    #expect(JoinLine(text) == nil)
  }
}
