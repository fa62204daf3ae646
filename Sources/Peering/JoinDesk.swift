import Changes
import NetKit
import SystemKit

/// Answers those who want a certificate: `POST join` with a token, `POST renew` with one that counts still.
package final class JoinDesk: Sendable {
  private static let bytesMax = 16384

  private let peers: PeerFolder
  private let node: String
  private let clock: Clock

  package init(_ peers: PeerFolder, node: String, clock: Clock = .system) {
    (self.peers, self.node, self.clock) = (peers, node, clock)
  }

  /// The path ends in `/join` or `/renew`.
  package func begin(_ request: HTTPRequest) -> HTTPAction {
    guard request.method == "POST" else {
      return .answer(Self.refusal(405, .usage, "only POST is answered here", "look at docs/protocol.md"))
    }
    if let length = request.contentLength, length > Self.bytesMax { return .answer(Self.tooLarge) }
    return .receive(Sink(self, request))
  }

  private final class Sink: HTTPBodySink {
    private let desk: JoinDesk
    private let request: HTTPRequest
    private var body: [UInt8] = []

    init(_ desk: JoinDesk, _ request: HTTPRequest) { (self.desk, self.request) = (desk, request) }

    func receive(_ bytes: UnsafeRawBufferPointer) -> HTTPResponse? {
      guard body.count + bytes.count <= JoinDesk.bytesMax else { return JoinDesk.tooLarge }
      body.append(contentsOf: bytes)
      return nil
    }
    func finish() -> HTTPResponse {
      do {
        return try request.path.hasSuffix("/renew") ? desk.renew(body, request) : desk.join(body)
      } catch let error as CairnError {
        return JoinDesk.refusal(500, error.code, error.message, error.hint)
      } catch {
        return JoinDesk.refusal(500, .ioFailed, "no certificate could be made: \(error)", "look at this node's disk")
      }
    }
    func abandon() {}
  }

  private func join(_ body: [UInt8]) throws -> HTTPResponse {
    guard case .object(let object)? = try? JSONReader.read(body), let token = object.text("token"),
      let text = object.text("request"), let request = try? CertificateRequest(pem: text)
    else { return Self.malformed }
    let (invitations, now) = (Invitations(peers), clock.microseconds())
    guard JoinLine.isHex(token, 32), let invitation = try invitations.find(token), invitation.expires >= now else {
      return Self.refusal(
        401, .peerUnknown, "the token is not known here: it was used, its time is over, or it was withdrawn",
        "ask for a new line: 'cairn peer invite' at node \(node)")
    }
    guard request.commonName == invitation.name else {
      return Self.refusal(
        403, .peerRefused,
        "the invitation is for node '\(invitation.name)', not for '\(Self.printable(request.commonName))'",
        "ask for one with the name of this node, as [node] name has it")
    }
    guard try invitations.take(invitation) else {
      return Self.refusal(
        401, .peerUnknown, "the token was used just now", "ask for a new line: 'cairn peer invite' at node \(node)")
    }
    return try answer(invitation.name, request, now)
  }

  private func renew(_ body: [UInt8], _ asked: HTTPRequest) throws -> HTTPResponse {
    guard let peer = asked.peer, IssuedCertificates(peers).contains(peer) else {
      return Self.refusal(
        401, .peerUnknown, "only a certificate of this node's own authority that counts still can be renewed here",
        asked.peerProblem ?? "join again: 'cairn peer invite' at node \(node)")
    }
    guard case .object(let object)? = try? JSONReader.read(body), let text = object.text("request"),
      let request = try? CertificateRequest(pem: text)
    else { return Self.malformed }
    return try answer(peer.commonName, request, clock.microseconds())
  }

  private func answer(_ name: String, _ request: CertificateRequest, _ now: Int64) throws -> HTTPResponse {
    let issued = try IssuedCertificates(peers).issue(name, request, now: now)
    let object = JSONObject([
      ("node", .text(node)), ("name", .text(name)), ("certificate", .text(issued.pem)),
      ("authority", .text(try File.text(peers.file("ca.crt")))),
    ])
    return HTTPResponse(status: 200, type: "application/json", text: object.line + "\n")
  }

  // MARK: Refusals

  private static var tooLarge: HTTPResponse {
    refusal(413, .usage, "the body is too large", "send a request for one certificate")
  }
  private static var malformed: HTTPResponse {
    refusal(
      400, .usage, "the body is no JSON with a token and a certificate signing request", "look at docs/protocol.md")
  }

  /// A name that somebody sent, fit for a message.
  private static func printable(_ text: String) -> String {
    String(
      text.unicodeScalars.prefix(64).map { $0.properties.isPatternWhitespace || $0.value < 0x20 ? "?" : Character($0) })
  }

  private static func refusal(_ status: UInt32, _ code: ErrorCode, _ message: String, _ hint: String) -> HTTPResponse {
    let object = JSONObject([("code", .text(code.rawValue)), ("message", .text(message)), ("hint", .text(hint))])
    return HTTPResponse(status: status, type: "application/json", text: object.line + "\n")
  }
}
