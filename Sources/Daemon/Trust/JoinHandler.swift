import Changes
import NetKit
import Synchronization
import SystemKit

/// The request handler that issues certificates to nodes: `POST join` with an invitation, `POST renew` with a valid
/// certificate.
///
///     let join = JoinHandler(peers, node: "hq")
///     let action = join.begin(request)
package final class JoinHandler: Sendable {
  private static let bytesMax = 16384
  // The limit for each peer in a minute.
  private static let renewalsMax = 6
  private static let minute: Int64 = 60_000
  private static let knownMax = 10_000

  private let peers: PeerFolder
  private let node: String
  private let clock: Clock
  private let shown = Mutex<Set<String>>([])
  private let renewals = Mutex<[String: (since: Int64, count: Int)]>([:])

  package init(_ peers: PeerFolder, node: String, clock: Clock = .system) {
    (self.peers, self.node, self.clock) = (peers, node, clock)
  }

  /// Handles an HTTP request whose path ends in `/join`, `/renew` or `/authority`.
  package func begin(_ request: HTTPRequest) -> HTTPAction {
    if request.path.hasSuffix("/authority") { return .answer(authority(request)) }
    guard request.method == "POST" else {
      return .answer(Self.refusal(405, .usage, "this address takes only POST", "see docs/reference/protocol.md"))
    }
    if let length = request.contentLength, length > Self.bytesMax { return .answer(Self.tooLarge) }
    return .receive(Sink(self, request))
  }

  /// Makes a peer's older certificates invalid, when the peer uses a newer one for the first time.
  package func noteUse(of peer: PeerCertificate) {
    let isNew = shown.withLock { shown in
      if shown.count >= Self.knownMax { shown = [] }
      return shown.insert(peer.fingerprint).inserted
    }
    guard isNew else { return }
    // If the write fails, the next request tries it again.
    do { try IssuedCertificates(peers).retire(before: peer) } catch {
      _ = shown.withLock { $0.remove(peer.fingerprint) }
    }
  }

  private final class Sink: HTTPBodySink {
    private let desk: JoinHandler
    private let request: HTTPRequest
    private var body: [UInt8] = []

    init(_ desk: JoinHandler, _ request: HTTPRequest) { (self.desk, self.request) = (desk, request) }

    func receive(_ bytes: UnsafeRawBufferPointer) -> HTTPResponse? {
      guard body.count + bytes.count <= JoinHandler.bytesMax else { return JoinHandler.tooLarge }
      body.append(contentsOf: bytes)
      return nil
    }
    func finish() -> HTTPResponse {
      do {
        return try request.path.hasSuffix("/renew") ? desk.renew(body, request) : desk.join(body)
      } catch let error as CairnError {
        return JoinHandler.refusal(500, error.code, error.message, error.hint)
      } catch {
        return JoinHandler.refusal(
          500, .ioFailed, "no certificate could be made: \(error)", "check the disk of that node")
      }
    }
    func abandon() {}
  }

  private func join(_ body: [UInt8]) throws -> HTTPResponse {
    guard case .object(let object)? = try? JSONReader.read(body), let token = object.text("token"),
      let text = object.text("request")
    else { return Self.malformed }
    let (invitations, now) = (Invitations(peers), clock.microseconds())
    // The token is checked first: the request of a stranger is not even parsed.
    guard JoinLine.isHex(token, 32), let invitation = try invitations.find(token), invitation.expires >= now else {
      return Self.refusal(
        401, .peerUnknown, "the token is unknown: it was used, has expired, or was withdrawn",
        "run 'cairn peer invite' again at node \(node)")
    }
    guard let request = try? CertificateRequest(pem: text) else { return Self.malformed }
    guard request.commonName.hasSameBytes(as: invitation.name) else {
      return Self.refusal(
        403, .peerRefused,
        "the invitation is for node '\(invitation.name)', not for '\(Self.printable(request.commonName))'",
        "ask for an invitation with the name of this node ([node] name)")
    }
    if let problem = request.keyProblem { return Self.unfit(problem) }
    guard let issued = try IssuedCertificates(peers).join(invitation, request, now: now) else {
      return Self.refusal(
        401, .peerUnknown, "the token was just used", "run 'cairn peer invite' again at node \(node)")
    }
    return try answer(invitation.name, issued)
  }

  private func renew(_ body: [UInt8], _ asked: HTTPRequest) throws -> HTTPResponse {
    guard let peer = asked.peer, IssuedCertificates(peers).contains(peer) else {
      return Self.refusal(
        401, .peerUnknown, "only a valid certificate of this node's own authority can be renewed",
        asked.peerProblem ?? "join again: 'cairn peer invite' at node \(node)")
    }
    guard isWithinRate(peer.commonName) else {
      return Self.refusal(
        429, .busy, "peer '\(peer.commonName)' asks for certificates too often", "Cairn tries again in a minute")
    }
    guard case .object(let object)? = try? JSONReader.read(body), let text = object.text("request"),
      let request = try? CertificateRequest(pem: text)
    else { return Self.malformed }
    if let problem = request.keyProblem { return Self.unfit(problem) }
    switch try IssuedCertificates(peers).renew(peer, request, now: clock.microseconds()) {
    case .certificate(let issued): return try answer(peer.commonName, issued)
    case .refused(let why, let hint):
      return Self.refusal(403, .peerRefused, "the certificate of '\(peer.commonName)' is not renewed: \(why)", hint)
    }
  }

  private func isWithinRate(_ name: String) -> Bool {
    let now = Clock.monotonicMilliseconds
    return renewals.withLock { renewals in
      if renewals.count >= Self.knownMax { renewals = renewals.filter { now - $0.value.since < Self.minute } }
      var rate = renewals[name] ?? (since: now, count: 0)
      if now - rate.since >= Self.minute { rate = (since: now, count: 0) }
      rate.count += 1
      renewals[name] = rate
      return rate.count <= Self.renewalsMax
    }
  }

  private func answer(_ name: String, _ issued: Certificate) throws -> HTTPResponse {
    let authorities = try peers.certificates("ca.crt").map(\.pem).joined()
    let object = JSONObject([
      ("node", .text(node)), ("name", .text(name)), ("certificate", .text(issued.pem)),
      ("authority", .text(authorities)),
    ])
    return HTTPResponse(status: 200, type: "application/json", text: object.line + "\n")
  }

  // A peer whose certificate another authority signed then requests a renewal.
  private func authority(_ request: HTTPRequest) -> HTTPResponse {
    guard request.peer != nil else {
      return Self.refusal(
        401, .peerUnknown, "the certificate of the peer is not accepted",
        request.peerProblem ?? "use a certificate that the authority of this node signed")
    }
    guard let current = peers.authorities.first else {
      return Self.refusal(404, .trailMissing, "this node has no authority of its own", "see docs/reference/protocol.md")
    }
    let object = JSONObject([("node", .text(node)), ("authority", .text(current.fingerprint))])
    return HTTPResponse(status: 200, type: "application/json", text: object.line + "\n")
  }

  // MARK: Refusals

  private static var tooLarge: HTTPResponse {
    refusal(413, .usage, "the body is too large", "send a request for one certificate")
  }
  private static var malformed: HTTPResponse {
    refusal(
      400, .usage, "the body is not JSON with a token and a certificate signing request",
      "see docs/reference/protocol.md")
  }
  private static func unfit(_ problem: String) -> HTTPResponse {
    refusal(400, .usage, problem, "use a key for ECDSA over P-256, Ed25519, or RSA from 2048 bits")
  }

  private static func printable(_ text: String) -> String { String(text.oneLine.unicodeScalars.prefix(64)) }

  private static func refusal(_ status: UInt32, _ code: ErrorCode, _ message: String, _ hint: String) -> HTTPResponse {
    let object = JSONObject([("code", .text(code.rawValue)), ("message", .text(message)), ("hint", .text(hint))])
    return HTTPResponse(status: status, type: "application/json", text: object.line + "\n")
  }
}
