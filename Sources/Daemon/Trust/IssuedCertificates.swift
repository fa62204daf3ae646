import Changes
import NetKit
import SystemKit

/// The certificates that this node has signed for peers, one file each in the folder `issued`. When a peer first uses a
/// renewed certificate, the older one becomes invalid.
///
///     let current = IssuedCertificates(peers).all().filter { !$0.isRevoked }
package struct IssuedCertificates: Sendable {
  package struct Entry: Equatable, Sendable {
    package let certificate: PeerCertificate
    package let isRevoked: Bool
  }

  // A certificate is renewed when a third of its lifetime is left.
  static let lifetime = PeerFolder.year

  private let peers: PeerFolder
  private var folder: String { peers.file("issued") }

  package init(_ peers: PeerFolder) { self.peers = peers }

  // MARK: Issuing

  /// Signs the certificate of a node that joins by an invitation. Earlier certificates of its name, and its other
  /// invitations, become invalid. Returns nil if the invitation was used or withdrawn.
  func join(_ invitation: Invitations.Invitation, _ request: CertificateRequest, now: Int64) throws -> Certificate? {
    let (name, invitations) = (invitation.name, Invitations(peers))
    return try peers.locked {
      // Under the lock of a revocation: a revoked name has no invitation any more.
      guard try invitations.take(invitation) else { return nil }
      _ = try invitations.withdraw(name, now: now)
      try peers.keepRevoked()
      try removeExpired(now: now)
      let earlier = try of(name)
      if let last = earlier.map(\.notBefore).max() {
        try RevokedPeers.add(name, through: max(Self.first(now), last / 1_000_000), to: peers.file("revoked"))
      }
      return try issue(name, request, after: nil, now: now)
    }
  }

  enum Renewal {
    case certificate(Certificate)
    case refused(String, hint: String)
  }

  /// Renews the peer's certificate `shown` for the same key, in the last third of its lifetime or after a change of
  /// authority. Otherwise returns a refusal. A repeated request gets the certificate that was signed before.
  func renew(_ shown: PeerCertificate, _ request: CertificateRequest, now: Int64) throws -> Renewal {
    try peers.locked {
      // A request may have begun before the revocation.
      guard !peers.revoked.contains(shown) else { return .refused("it was revoked", hint: "join again") }
      let all = try of(shown.commonName)
      guard let old = all.first(where: { $0.fingerprint == shown.fingerprint }) else {
        return .refused("it is not signed by the authority of this node", hint: "join again")
      }
      guard request.keyDigest == old.keyDigest else {
        return .refused(
          "a renewal must keep the key",
          hint: "for a new key, join again: 'cairn peer invite \(shown.commonName)' at the listener")
      }
      let authorities = try peers.certificates("ca.crt")
      // The listener may not have noticed yet that an authority was dropped.
      guard authorities.contains(where: old.isIssued), let current = authorities.first else {
        return .refused("its authority was dropped", hint: "join again")
      }
      guard
        Joining.isDue(notBefore: shown.notBefore, notAfter: shown.notAfter, now: now) || !old.isIssued(by: current)
      else {
        return .refused("it can be renewed only in the last third of its lifetime", hint: "ask again later")
      }
      let successor = all.first { one in
        one.notBefore > old.notBefore && one.keyDigest == old.keyDigest && one.isIssued(by: current)
          && !Joining.isDue(notBefore: one.notBefore, notAfter: one.notAfter, now: now)
      }
      if let successor { return .certificate(successor) }
      try removeExpired(now: now)
      return .certificate(
        try issue(shown.commonName, request, after: all.map(\.notBefore).max(), now: now))
    }
  }

  private func issue(_ name: String, _ request: CertificateRequest, after last: Int64?, now: Int64) throws
    -> Certificate
  {
    let revoked = try RevokedPeers.through(name, peers.file("revoked"))
    // The new certificate starts after all revoked ones of the name, and after its predecessor.
    let second = max(Self.first(now), (revoked ?? 0) + 1, last.map { $0 / 1_000_000 + 1 } ?? 0)
    let terms = CertificateTerms(
      commonName: name, purpose: .client, notBefore: second * 1_000_000,
      notAfter: min(now + Self.lifetime, try peers.certificate("ca.crt").notAfter))
    let issued = try peers.issue(terms, request)
    try Folder.create(folder)
    try File.replace("\(folder)/\(name)-\(issued.serial).crt", text: issued.pem, permissions: 0o644)
    return issued
  }

  // The validity starts one day early, because the clocks of nodes differ.
  private static func first(_ now: Int64) -> Int64 { (now - PeerFolder.day) / 1_000_000 }

  // MARK: Looking

  package func all() -> [Entry] {
    let revoked = peers.revoked
    return ((try? Folder.names(folder)) ?? []).compactMap { name in
      guard let facts = try? read(name).facts else { return nil }
      return Entry(certificate: facts, isRevoked: revoked.contains(facts))
    }
  }

  /// Returns the issued certificates that have neither expired nor been revoked.
  func live(now: Int64) throws -> [Certificate] {
    let revoked = peers.revoked
    return try names().map { try read($0) }.filter { $0.notAfter >= now && !revoked.contains($0.facts) }
  }

  func contains(_ certificate: PeerCertificate) -> Bool {
    guard TrailName.isValid(certificate.commonName), TrailName.isValid(certificate.serial) else { return false }
    return (try? read("\(certificate.commonName)-\(certificate.serial).crt").facts) == certificate
  }

  private func names() throws -> [String] {
    Folder.exists(folder) ? try Folder.names(folder).filter { $0.hasSuffix(".crt") } : []
  }

  private func of(_ name: String) throws -> [Certificate] {
    try names().filter { $0.hasPrefix(name + "-") }.map { try read($0) }.filter { $0.commonName == name }
  }

  private func read(_ file: String) throws -> Certificate { try Certificate(pem: try File.text("\(folder)/\(file)")) }

  private func removeExpired(now: Int64) throws {
    for name in try names() {
      guard let certificate = try? read(name), certificate.notAfter < now else { continue }
      try Folder.remove("\(folder)/\(name)")
    }
  }

  // MARK: Revoking

  /// Withdraws all invitations of a name, and revokes its certificates.
  ///
  /// - Returns: The fingerprints of the certificates that were not revoked before, and the number of invitations.
  package func revoke(_ name: String, now: Int64) throws -> (fingerprints: [String], invitations: Int) {
    try peers.locked {
      let invitations = try Invitations(peers).withdraw(name, now: now)
      return (try revokeCertificates(of: name, now: now), invitations)
    }
  }

  private func revokeCertificates(of name: String, now: Int64) throws -> [String] {
    guard Folder.exists(folder) else { return [] }
    try peers.keepRevoked()
    let revoked = peers.revoked
    if let problem = revoked.problem { throw Self.refusal(problem) }
    let live = try of(name).filter { !revoked.contains($0.facts) }
    guard let last = live.map(\.notBefore).max() else { return [] }
    try RevokedPeers.add(name, through: max(Self.first(now), last / 1_000_000), to: peers.file("revoked"))
    return live.map(\.fingerprint)
  }

  /// Makes the certificates of a peer that are older than `shown` invalid, after the peer has used `shown`.
  func retire(before shown: PeerCertificate) throws {
    guard contains(shown) else { return }
    try peers.locked {
      let older = try of(shown.commonName).filter { $0.notBefore < shown.notBefore }
      guard !older.isEmpty else { return }
      try peers.keepRevoked()
      try RevokedPeers.add(
        shown.commonName, through: shown.notBefore / 1_000_000 - 1, to: peers.file("revoked"))
      for certificate in older { try Folder.remove("\(folder)/\(shown.commonName)-\(certificate.serial).crt") }
      try Folder.sync(folder)
    }
  }

  // Until the operator restores the list, no peer can be revoked and none can connect.
  private static func refusal(_ problem: RevokedPeers.Unknown) -> CairnError {
    CairnError(
      .stateForeign,
      "the list of revoked certificates cannot be read, so no certificate is accepted: \(problem.reason)",
      hint:
        "restore the file from a backup; if it is lost, run 'cairn peer rotate --ca --drop', then create an empty file, and let all peers join again",
      remedy: .badInput)
  }
}
