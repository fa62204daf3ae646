import Changes
import NetKit
import SystemKit

/// Gets a certificate from another node by an invitation, and renews it before it expires.
///
///     let outcome = try Joining(peers, node: "till").join(line)
package struct Joining {
  /// The certificates that a node received after it used an invitation of another node.
  package struct Outcome: Equatable, Sendable {
    /// The name of the node that signed the certificate.
    package let hub: String
    package let certificate: PeerCertificate
    package let authority: PeerCertificate
  }

  private let peers: PeerFolder
  private let node: String
  private let stop: StopSignal

  package init(_ peers: PeerFolder, node: String, stop: StopSignal = StopSignal()) {
    (self.peers, self.node, self.stop) = (peers, node, stop)
  }

  /// Joins the node that printed a line: gets a certificate from that node, and stores that node's authority.
  ///
  /// - Parameter replacing: The first 16 or more hexadecimal digits of the SHA-256 of the new authority's certificate.
  ///   Needed if this node has joined a node of the same name under another authority.
  /// - Throws: `peer-untrusted` if the key differs from the line, or the authority from the stored authority;
  ///   `peer-unknown` for an invalid token; `peer-unreachable`; `peer-refused`.
  package func join(_ line: JoinLine, replacing: String? = nil) throws -> Outcome {
    let client = try HTTPClient(
      base: "https://\(line.address)", tls: ClientTLS(pin: "sha256//" + base64(line.keyBytes)), stop: stop)
    let key = try PrivateKey()
    let request = try CertificateRequest(commonName: node, key: key)
    let body = JSONObject([("token", .text(line.token)), ("request", .text(try request.pem))])
    let answer = try check(try ask(client, "POST", "/cairn/1/join", body), key)
    try refuseStranger(answer, replacing)
    // Key, certificate and authority are put in place at once: a crash leaves the earlier ones whole.
    let fresh = PeerFolder(path: peers.file("joined/.\(answer.hub).new"))
    try Folder.removeAll(fresh.path)
    try Folder.create(fresh.path)
    try File.replace(fresh.file("node.key"), text: key.pem, permissions: 0o600)
    try File.replace(fresh.file("ca.crt"), text: answer.authorities, permissions: 0o644)
    try File.replace(fresh.file("node.crt"), text: answer.certificate.pem, permissions: 0o644)
    try Folder.replace(peers.joined(answer.hub).path, by: fresh.path)
    return Outcome(
      hub: answer.hub, certificate: answer.certificate.facts, authority: try Certificate(pem: answer.authorities).facts)
  }

  // Throws `peer-untrusted` if a node of this name was joined before under another authority. Only the authority that
  // signed the new certificate is compared.
  private func refuseStranger(_ answer: Answer, _ replacing: String?) throws {
    let folder = peers.joined(answer.hub)
    guard Folder.exists(folder.file("ca.crt")) else { return }
    let known = try folder.certificates("ca.crt")
    let told = try Certificate.all(pem: answer.authorities)
    let fingerprint = told[0].fingerprint
    guard !known.contains(where: { $0.fingerprint == fingerprint }) else { return }
    if let replacing, replacing.utf8.count >= 16, fingerprint.hasPrefix(replacing.asciiLowercased) { return }
    throw CairnError(
      .peerUntrusted,
      "node '\(answer.hub)' had authority \(known[0].fingerprint) when this node joined it, and now has authority \(fingerprint)",
      hint:
        "if '\(answer.hub)' was set up again or has a new authority, compare with 'cairn peer list' there; then run 'cairn peer join --replace \(fingerprint.prefix(16)) LINE' with a new line",
      remedy: .badInput)
  }

  /// Renews the certificate that another node gave to this node, in the last third of its lifetime or after a change of
  /// authority.
  ///
  /// - Returns: The new certificate; nil if no renewal is due, or if this node has no certificate from joining.
  /// - Throws: `peer-unreachable`; `peer-untrusted` for an answer with a wrong certificate; the other node's error.
  package func renewIfDue(_ hub: String, base: String, now: Int64) throws -> PeerCertificate? {
    let folder = peers.joined(hub)
    guard Folder.exists(folder.file("node.crt")) else { return nil }
    let old = try folder.certificate("node.crt")
    let client = try HTTPClient(base: base, tls: peers.clientTLS(hub), stop: stop)
    let isDue = Self.isDue(notBefore: old.notBefore, notAfter: old.notAfter, now: now)
    // A node that cannot be reached now is asked again later.
    guard isDue || (try? hasNewAuthority(client, old, folder)) ?? false else { return nil }
    let key = try folder.key("node.key")
    let request = try CertificateRequest(commonName: node, key: key)
    let answer = try check(
      try ask(client, "POST", "/cairn/1/renew", JSONObject([("request", .text(try request.pem))])), key)
    // The authorities come first: with them both certificates of the other node are trusted, the old one and the new
    // one.
    try File.replace(folder.file("ca.crt"), text: answer.authorities, permissions: 0o644)
    try File.replace(folder.file("node.crt"), text: answer.certificate.pem, permissions: 0o644)
    return answer.certificate.facts
  }

  // Whether the other node has an authority that this node does not know, or that did not sign this node's certificate.
  private func hasNewAuthority(_ client: HTTPClient, _ old: Certificate, _ folder: PeerFolder) throws -> Bool {
    let reply = try client.perform("GET", "/cairn/1/authority")
    // Earlier builds do not know the address.
    guard reply.status == 200, case .object(let object)? = try? JSONReader.read(reply.body),
      let current = object.text("authority"), JoinLine.isHex(current, 64)
    else { return false }
    return try !folder.certificates("ca.crt").contains { $0.fingerprint == current && old.isIssued(by: $0) }
  }

  package static func isDue(notBefore: Int64, notAfter: Int64, now: Int64) -> Bool {
    notAfter - now < (notAfter - notBefore) / 3
  }

  private struct Answer {
    let hub: String
    let certificate: Certificate
    /// The authorities in PEM. The one that signed the certificate comes first.
    let authorities: String
  }

  private func ask(_ client: HTTPClient, _ method: String, _ target: String, _ body: JSONObject) throws -> JSONObject {
    let bytes = Array(body.line.utf8)
    let reply = try bytes.withUnsafeBytes {
      try client.perform(method, target, headers: [("Content-Type", "application/json")], body: $0)
    }
    guard case .object(let object)? = try? JSONReader.read(reply.body) else {
      throw CairnError(
        .peerUnreachable, "\(client.base.address) answers with HTTP status \(reply.status), not as a Cairn node",
        hint: "check what listens there", remedy: .retry)
    }
    if reply.status == 200 { return object }
    throw CairnError(
      object.text("code").flatMap { ErrorCode(rawValue: $0) } ?? .peerRefused,
      "\(client.base.address) issued no certificate: \(object.text("message") ?? "status \(reply.status)")",
      hint: object.text("hint") ?? "see the log of that node", remedy: .stop)
  }

  private func check(_ answer: JSONObject, _ key: PrivateKey) throws -> Answer {
    guard let hub = answer.text("node"), TrailName.isValid(hub), hub != node, let text = answer.text("certificate"),
      let certificate = try? Certificate(pem: text), certificate.keyDigest == key.digest,
      certificate.commonName == node,
      let authorities = try? Certificate.all(pem: answer.text("authority") ?? ""),
      certificate.isIssued(by: authorities[0])
    else {
      throw CairnError(
        .peerUntrusted, "the certificate received does not match the request",
        hint: "check what listens there; nothing was stored")
    }
    // Only the certificates in the answer are kept.
    return Answer(hub: hub, certificate: certificate, authorities: authorities.map(\.pem).joined())
  }
}
