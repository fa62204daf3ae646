import Changes
import NetKit
import SystemKit

/// The certificates that the authority of this node has signed for others, one file each in `issued`.
package struct IssuedCertificates: Sendable {
  package struct Entry: Equatable, Sendable {
    package let certificate: PeerCertificate
    package let isRevoked: Bool
  }

  /// How long one is good; it is renewed when a third of that is left.
  static let lifetime = PeerFolder.year

  private let peers: PeerFolder
  private var folder: String { peers.file("issued") }

  package init(_ peers: PeerFolder) { self.peers = peers }

  /// Signs one for a peer, and keeps a copy.
  func issue(_ name: String, _ request: CertificateRequest, now: Int64) throws -> Certificate {
    let terms = CertificateTerms(
      commonName: name, purpose: .client, notBefore: now - PeerFolder.day, notAfter: now + Self.lifetime)
    let issued = try peers.issue(terms, request)
    try Folder.create(folder)
    try File.replace("\(folder)/\(name)-\(issued.serial).crt", text: issued.pem, permissions: 0o644)
    return issued
  }

  /// In the order of their names.
  package func all() -> [Entry] {
    let revoked = RevokedPeers(peers.file("revoked"))
    return ((try? Folder.names(folder)) ?? []).compactMap { name in
      guard name.hasSuffix(".crt"), let text = try? File.text("\(folder)/\(name)"),
        let facts = try? Certificate(pem: text).facts
      else { return nil }
      return Entry(certificate: facts, isRevoked: revoked.contains(facts.fingerprint))
    }
  }

  func contains(_ certificate: PeerCertificate) -> Bool { all().contains { $0.certificate == certificate } }

  /// Revokes all of a peer that count still. Returns their fingerprints.
  package func revoke(_ name: String, now: Int64) throws -> [String] {
    let fingerprints = all().filter { $0.certificate.commonName == name && !$0.isRevoked }.map(
      \.certificate.fingerprint)
    if !fingerprints.isEmpty {
      try RevokedPeers.add(fingerprints, of: name, at: now, to: peers.file("revoked"))
    }
    return fingerprints
  }
}
