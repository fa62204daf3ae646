import Changes
import Glibc
import NetKit
import SystemKit

/// The certificates of a node, in the folder `peers` of its state folder. The folder `joined/NAME` has the certificates
/// that node NAME gave to this node.
///
///     let peers = PeerFolder(state: "/var/lib/cairn")
///     peers.joinedNames   // the nodes that this node has joined
package struct PeerFolder: Sendable {
  package let path: String

  package init(state: String) { path = state + "/peers" }

  func file(_ name: String) -> String { "\(path)/\(name)" }

  package var hasServer: Bool { Folder.exists(file("node.crt")) && Folder.exists(file("ca.crt")) }

  /// The list of revoked certificates. Each access returns a new list with its own cache.
  package var revoked: RevokedPeers {
    let folder = self
    return RevokedPeers(file("revoked")) { folder.keepsRevoked }
  }

  /// The certificate that the listener shows, and the authorities that it trusts.
  package var serverTLS: ServerTLS {
    let revoked = revoked
    return ServerTLS(
      certificate: file("node.crt"), key: file("node.key"), authorities: file("ca.crt"),
      revoked: { revoked.contains($0) })
  }

  /// Returns the certificate that this node shows to a peer, and the authorities that it trusts. If this node has
  /// joined the peer, both come from the peer.
  package func clientTLS(_ peer: String?) -> ClientTLS {
    let folder = peer.map { joined($0) }.flatMap { Folder.exists($0.file("node.crt")) ? $0 : nil } ?? self
    return ClientTLS(
      certificate: folder.file("node.crt"), key: folder.file("node.key"), authorities: folder.file("ca.crt"), name: peer
    )
  }

  package var joinedNames: [String] {
    ((try? Folder.names(file("joined"))) ?? []).filter {
      TrailName.isValid($0) && Folder.exists(joined($0).file("node.crt"))
    }
  }

  /// Returns the certificate that this node got from a node that it has joined; nil if there is none.
  package func joinedCertificate(_ hub: String) -> PeerCertificate? { try? joined(hub).certificate("node.crt").facts }

  /// Returns the SHA-256 of the listener's public key in lower-case hexadecimal.
  package func keyDigest() throws -> String { hexadecimal(try certificate("node.crt").keyDigest) }

  func joined(_ hub: String) -> PeerFolder { PeerFolder(path: file("joined/\(hub)")) }

  init(path: String) { self.path = path }

  // MARK: The authority

  /// Creates the missing files of this node's authority and listener.
  ///
  /// - Parameter host: One more name or address at which peers dial this node.
  package func prepare(node: String, host: String?, now: Int64) throws {
    try Folder.create(path)
    try locked {
      try settle()
      let (hasKey, hasCertificate) = (Folder.exists(file("ca.key")), Folder.exists(file("ca.crt")))
      guard hasKey == hasCertificate else {
        throw CairnError(
          .stateForeign, "\(path) holds only one of ca.crt and ca.key, so it is not the authority of this node",
          hint: "move the file away, or restore the other one", remedy: .badInput)
      }
      if !hasKey {
        // The list comes before the authority, which says that there is one.
        if try FileStamp.look(at: file("revoked")) == nil { try beginRevoked() }
        let (authority, key) = try Self.authority(of: node, now: now)
        try replace("ca", [authority], key: key)
      }
      if !Folder.exists(file("node.crt")) {
        try replaceListener(node: node, names: [node] + (host.map { [$0] } ?? []), key: PrivateKey(), now: now)
      }
      try keepRevoked()
    }
  }

  func issue(_ terms: CertificateTerms, _ request: CertificateRequest) throws -> Certificate {
    try Certificate.issue(terms, for: request, by: try certificate("ca.crt"), key: try key("ca.key"))
  }

  func certificate(_ name: String) throws -> Certificate {
    try read(name, "certificate") { try Certificate(pem: $0) }
  }

  func certificates(_ name: String) throws -> [Certificate] {
    try read(name, "certificate") { try Certificate.all(pem: $0) }
  }

  func key(_ name: String) throws -> PrivateKey { try read(name, "private key") { try PrivateKey(pem: $0) } }

  private func read<T>(_ name: String, _ what: String, _ parse: (String) throws -> T) throws -> T {
    let text: String
    do throws(FileError) { text = try File.text(file(name)) } catch {
      throw CairnError(
        .stateUnwritable, "cannot read the \(what) in \(file(name)): \(error)",
        hint: "run the command as root or as the user of the daemon; see which users may read the file ('ls -l')",
        remedy: .badInput)
    }
    do { return try parse(text) } catch {
      throw CairnError(
        .stateForeign, "\(file(name)) holds no \(what): \(error)",
        hint: "restore the file from a backup, or move the folder \(path) away and let all peers join again",
        remedy: .badInput)
    }
  }

  package static let day: Int64 = 86_400_000_000
  static let year = 365 * day
}
