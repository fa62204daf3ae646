import Changes
import Glibc
import NetKit
import SystemKit

/// The certificates of a node, in the folder `peers` of its state.
///
/// A node that listens has a small authority of its own: `ca.crt` and `ca.key`, and what it shows itself: `node.crt` and
/// `node.key`. Below `joined/HUB` stands what a node has got from another that it dials: `ca.crt`, `node.crt`, `node.key`.
/// Keys have the mode 0600.
package struct PeerFolder: Sendable {
  package let path: String

  package init(state: String) { path = state + "/peers" }

  func file(_ name: String) -> String { "\(path)/\(name)" }

  /// Whether there is what a listener needs.
  package var hasServer: Bool { Folder.exists(file("node.crt")) && Folder.exists(file("ca.crt")) }

  /// What a listener shows and believes.
  package var serverTLS: ServerTLS {
    let revoked = RevokedPeers(file("revoked"))
    return ServerTLS(
      certificate: file("node.crt"), key: file("node.key"), authorities: file("ca.crt"),
      revoked: { revoked.contains($0.fingerprint) })
  }

  /// What is shown to a peer, and how it is known: by what joining it has brought, else by what a listener here has.
  package func clientTLS(_ peer: String?) -> ClientTLS {
    let folder = peer.map { joined($0) }.flatMap { Folder.exists($0.file("node.crt")) ? $0 : nil } ?? self
    return ClientTLS(
      certificate: folder.file("node.crt"), key: folder.file("node.key"), authorities: folder.file("ca.crt"), name: peer
    )
  }

  /// The names of the nodes that this one has joined.
  package var joinedNames: [String] {
    ((try? Folder.names(file("joined"))) ?? []).filter { Folder.exists(joined($0).file("node.crt")) }
  }

  /// What this node shows to one that it has joined.
  package func joinedCertificate(_ hub: String) -> PeerCertificate? { try? joined(hub).certificate("node.crt").facts }

  /// SHA-256 of the listener's public key in lower-case hexadecimal.
  package func keyDigest() throws -> String { hexadecimal(try certificate("node.crt").keyDigest) }

  func joined(_ hub: String) -> PeerFolder { PeerFolder(path: file("joined/\(hub)")) }

  private init(path: String) { self.path = path }

  // MARK: The authority

  /// Makes what is missing of the authority and of what the listener shows; `host` is a name that others dial besides.
  package func prepare(node: String, host: String?, now: Int64) throws {
    try Folder.create(path)
    let (hasKey, hasCertificate) = (Folder.exists(file("ca.key")), Folder.exists(file("ca.crt")))
    guard hasKey == hasCertificate else {
      throw CairnError(
        .stateForeign, "\(path) holds only one of ca.crt and ca.key, so it is not the authority of this node",
        hint: "move the file away, or give the other one back", remedy: .badInput)
    }
    if !hasKey {
      let key = try PrivateKey()
      // Two authorities never have one name: a node may be set up again.
      let mark = hexadecimal(key.digest.prefix(4))
      let terms = CertificateTerms(
        commonName: "Cairn authority of \(node) \(mark)", purpose: .authority, notBefore: now - Self.day,
        notAfter: now + 30 * Self.year)
      try File.replace(file("ca.key"), text: key.pem, permissions: 0o600)
      try File.replace(file("ca.crt"), text: Certificate.selfSigned(terms, key: key).pem, permissions: 0o644)
    }
    guard !Folder.exists(file("node.crt")) else { return }
    let key = try PrivateKey()
    let names = [node] + (host.map { [$0] } ?? [])
    let terms = CertificateTerms(
      commonName: node, purpose: .server(names: names), notBefore: now - Self.day, notAfter: now + 30 * Self.year)
    let issued = try issue(terms, try CertificateRequest(commonName: node, key: key))
    try File.replace(file("node.key"), text: key.pem, permissions: 0o600)
    try File.replace(file("node.crt"), text: issued.pem, permissions: 0o644)
  }

  func issue(_ terms: CertificateTerms, _ request: CertificateRequest) throws -> Certificate {
    try Certificate.issue(terms, for: request, by: try certificate("ca.crt"), key: try key("ca.key"))
  }

  func certificate(_ name: String) throws -> Certificate {
    try read(name, "certificate") { try Certificate(pem: $0) }
  }

  func key(_ name: String) throws -> PrivateKey { try read(name, "private key") { try PrivateKey(pem: $0) } }

  private func read<T>(_ name: String, _ what: String, _ parse: (String) throws -> T) throws -> T {
    let text: String
    do throws(FileError) { text = try File.text(file(name)) } catch {
      throw CairnError(
        .stateUnwritable, "cannot read the \(what) in \(file(name)): \(error)",
        hint: "run it as root or as the user of the daemon; see who may read the file ('ls -l')", remedy: .badInput)
    }
    do { return try parse(text) } catch {
      throw CairnError(
        .stateForeign, "\(file(name)) holds no \(what): \(error)",
        hint: "give the file back from a backup, or move the folder \(path) away and let all peers join again",
        remedy: .badInput)
    }
  }

  static let day: Int64 = 86_400_000_000
  static let year = 365 * day
}
