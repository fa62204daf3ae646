import Changes
import NetKit
import SystemKit

/// The side of those who join: gets a certificate from another node, and a new one before it expires.
package struct Joining {
  /// What joining has brought.
  package struct Outcome: Equatable, Sendable {
    /// The name of the node that was joined.
    package let hub: String
    package let certificate: PeerCertificate
  }

  private let peers: PeerFolder
  private let node: String
  private let stop: StopSignal

  package init(_ peers: PeerFolder, node: String, stop: StopSignal = StopSignal()) {
    (self.peers, self.node, self.stop) = (peers, node, stop)
  }

  /// Errors: `peer-unreachable`, `peer-untrusted` (the key is another one), `peer-unknown` (the token), `peer-refused`.
  package func join(_ line: JoinLine) throws -> Outcome {
    let client = try HTTPClient(
      base: "https://\(line.address)", tls: ClientTLS(pin: "sha256//" + base64(line.keyBytes)), stop: stop)
    let key = try PrivateKey()
    let request = try CertificateRequest(commonName: node, key: key)
    let body = JSONObject([("token", .text(line.token)), ("request", .text(try request.pem))])
    let answer = try ask(client, "/cairn/1/join", body)
    let (hub, certificate) = try check(answer, key)
    let folder = peers.joined(hub)
    try Folder.create(folder.path)
    try File.replace(folder.file("node.key"), text: key.pem, permissions: 0o600)
    try File.replace(folder.file("ca.crt"), text: answer.text("authority") ?? "", permissions: 0o644)
    try File.replace(folder.file("node.crt"), text: certificate.pem, permissions: 0o644)
    return Outcome(hub: hub, certificate: certificate.facts)
  }

  /// Gets another certificate for the same key when less than a third of the time of ours is left. Nil: not yet, or there
  /// is none that came by joining.
  ///
  /// Errors: as of ``join(_:)``; what is there stays as it is then.
  package func renewIfDue(_ hub: String, base: String, now: Int64) throws -> PeerCertificate? {
    let folder = peers.joined(hub)
    guard Folder.exists(folder.file("node.crt")) else { return nil }
    let old = try folder.certificate("node.crt")
    guard Self.isDue(notBefore: old.notBefore, notAfter: old.notAfter, now: now) else { return nil }
    let key = try folder.key("node.key")
    let client = try HTTPClient(base: base, tls: peers.clientTLS(hub), stop: stop)
    let request = try CertificateRequest(commonName: node, key: key)
    let answer = try ask(client, "/cairn/1/renew", JSONObject([("request", .text(try request.pem))]))
    let (_, certificate) = try check(answer, key)
    try File.replace(folder.file("node.crt"), text: certificate.pem, permissions: 0o644)
    return certificate.facts
  }

  package static func isDue(notBefore: Int64, notAfter: Int64, now: Int64) -> Bool {
    notAfter - now < (notAfter - notBefore) / 3
  }

  private func ask(_ client: HTTPClient, _ target: String, _ body: JSONObject) throws -> JSONObject {
    let bytes = Array(body.line.utf8)
    let reply = try bytes.withUnsafeBytes {
      try client.perform("POST", target, headers: [("Content-Type", "application/json")], body: $0)
    }
    guard case .object(let object)? = try? JSONReader.read(reply.body) else {
      throw CairnError(
        .peerUnreachable, "\(client.base.address) answers \(reply.status), and not as a node of Cairn does",
        hint: "see what listens there", remedy: .retry)
    }
    if reply.status == 200 { return object }
    throw CairnError(
      object.text("code").flatMap { ErrorCode(rawValue: $0) } ?? .peerRefused,
      "\(client.base.address) gives no certificate: \(object.text("message") ?? "status \(reply.status)")",
      hint: object.text("hint") ?? "look at its log", remedy: .stop)
  }

  private func check(_ answer: JSONObject, _ key: PrivateKey) throws -> (hub: String, certificate: Certificate) {
    guard let hub = answer.text("node"), TrailName.isValid(hub), hub != node, let text = answer.text("certificate"),
      let certificate = try? Certificate(pem: text), certificate.keyDigest == key.digest,
      certificate.commonName == node, (try? Certificate(pem: answer.text("authority") ?? "")) != nil
    else {
      throw CairnError(
        .peerUntrusted, "the certificate that came is not what was asked for",
        hint: "see what listens there; nothing was kept of it")
    }
    return (hub, certificate)
  }
}
