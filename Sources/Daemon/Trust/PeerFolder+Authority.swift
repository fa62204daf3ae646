import Changes
import NetKit
import SystemKit

// The authority and the listener's certificate: how they are made, replaced and renewed.
extension PeerFolder {
  static let authorityLifetime = 10 * year
  static let listenerLifetime = year

  /// The results of `cairn peer rotate`.
  package struct Rotation: Equatable, Sendable {
    /// The SHA-256 of the new authority's certificate; nil if the authority was not replaced.
    package var authority: String?
    /// The SHA-256 of the listener's new public key; nil if the key was not replaced.
    package var listenerKey: String?
  }

  static func authority(of node: String, now: Int64) throws -> (Certificate, PrivateKey) {
    let key = try PrivateKey()
    // Each authority has another name, even if a node is set up again.
    let mark = hexadecimal(key.digest.prefix(4))
    let terms = CertificateTerms(
      commonName: "Cairn authority of \(node) \(mark)", purpose: .authority, notBefore: now - day,
      notAfter: now + authorityLifetime)
    return (try Certificate.selfSigned(terms, key: key), key)
  }

  /// Replaces the authority of this node, the key of its listener, or both. The old authority stays trusted until every
  /// peer has a new certificate.
  ///
  /// - Parameter dropsOld: Whether the old authority is dropped at once. Peers whose certificates it signed must then
  ///   join again.
  package func rotate(
    node: String, authority: Bool, listener: Bool, dropsOld: Bool, now: Int64
  ) throws -> Rotation {
    guard hasServer, Folder.exists(file("ca.key")) else {
      throw CairnError(
        .confMissing, "this node has no authority of its own in \(path)",
        hint: "run 'cairn peer invite NAME', which makes one",
        remedy: .badInput)
    }
    return try locked {
      try settle()
      var rotation = Rotation()
      if listener {
        // Signed by the authority that peers know.
        let names = try certificate("node.crt").names
        let key = try PrivateKey()
        try replaceListener(node: node, names: names.isEmpty ? [node] : names, key: key, now: now)
        rotation.listenerKey = hexadecimal(key.digest)
      }
      if authority {
        let old = try certificates("ca.crt")
        let (fresh, key) = try Self.authority(of: node, now: now)
        try replace("ca", [fresh] + old, key: key)
        rotation.authority = fresh.fingerprint
      }
      if dropsOld { try dropOldAuthorities(node: node, now: now) }
      return rotation
    }
  }

  /// Renews the listener's certificate when it is due, and drops old authorities that no peer needs any more.
  ///
  /// - Returns: The actions that were taken, in words; empty in most cases.
  package func upkeep(node: String, now: Int64) throws -> [String] {
    guard hasServer, Folder.exists(file("ca.key")) else { return [] }
    return try locked {
      try settle()
      try keepRevoked()
      var done: [String] = []
      let shown = try certificate("node.crt").facts
      let isOverlong = shown.notAfter - shown.notBefore > 2 * Self.listenerLifetime
      if isOverlong || Joining.isDue(notBefore: shown.notBefore, notAfter: shown.notAfter, now: now) {
        try replaceListener(node: node, names: certificate("node.crt").names, key: key("node.key"), now: now)
        done.append("the listener has a new certificate for the same key")
      }
      if try certificates("ca.crt").count > 1, try peersOfOldAuthorities(now: now).isEmpty {
        try dropOldAuthorities(node: node, now: now)
        done.append("every peer has a certificate of the new authority: the old one is no longer accepted")
      }
      return done
    }
  }

  /// The authorities that this node trusts, in `ca.crt`; the one that signs comes first. Empty if they cannot be read.
  package var authorities: [PeerCertificate] { ((try? certificates("ca.crt")) ?? []).map(\.facts) }

  /// The certificate that the listener shows; nil if its file cannot be read.
  package var listener: PeerCertificate? { try? certificate("node.crt").facts }

  /// Returns the names of the peers whose valid certificate an old authority has signed.
  package func peersOfOldAuthorities(now: Int64) throws -> [String] {
    let current = try certificate("ca.crt")
    return try IssuedCertificates(self).live(now: now).filter { !$0.isIssued(by: current) }.map(\.commonName)
  }

  private func dropOldAuthorities(node: String, now: Int64) throws {
    let current = try certificate("ca.crt")
    let shown = try certificate("node.crt")
    if !shown.isIssued(by: current) {
      try replaceListener(node: node, names: shown.names, key: key("node.key"), now: now)
    }
    try File.replace(file("ca.crt"), text: Self.marked([current]), permissions: 0o644)
  }

  func replaceListener(node: String, names: [String], key: PrivateKey, now: Int64) throws {
    let authority = try certificate("ca.crt")
    let terms = CertificateTerms(
      commonName: node, purpose: .server(names: names.isEmpty ? [node] : names), notBefore: now - Self.day,
      notAfter: min(now + Self.listenerLifetime, authority.notAfter))
    let issued = try issue(terms, try CertificateRequest(commonName: node, key: key))
    try replace("node", [issued], key: key)
  }

  // MARK: Files

  /// Replaces `NAME.crt` and `NAME.key`. After a crash, ``settle()`` completes or undoes the replacement.
  func replace(_ name: String, _ certificates: [Certificate], key: PrivateKey) throws {
    let text = name == "ca" ? Self.marked(certificates) : certificates.map(\.pem).joined()
    try File.replace(file("\(name).key.next"), text: key.pem, permissions: 0o600)
    try File.replace(file("\(name).crt"), text: text, permissions: 0o644)
    try settle()
  }

  /// Completes or undoes the replacement of a key, if a crash has interrupted the replacement.
  func settle() throws {
    for name in ["ca", "node"] where Folder.exists(file("\(name).key.next")) {
      let next = try? key("\(name).key.next")
      if let next, let shown = try? certificate("\(name).crt"), shown.keyDigest == next.digest {
        try Folder.rename(file("\(name).key.next"), to: file("\(name).key"))
      } else {
        try Folder.remove(file("\(name).key.next"))
      }
      try Folder.sync(path)
    }
  }

  /// Runs `body` while no other process changes the folder.
  func locked<T>(_ body: () throws -> T) throws -> T {
    let lock = try File(file("lock"), .openOrCreate, permissions: 0o600)
    for _ in 0..<500 {
      if try lock.tryLock() { return try withExtendedLifetime(lock) { try body() } }
      Clock.sleep(milliseconds: 20)
    }
    throw CairnError(
      .stateLocked, "another process has been changing \(path) for ten seconds",
      hint: "look for it with 'fuser \(file("lock"))', and try again", remedy: .retry)
  }

  // MARK: The list of revoked certificates

  // The mark is in ca.crt, because no peer can connect without that file.
  private static let mark = "# Cairn: this node keeps a list of revoked certificates; without it all are revoked.\n"
  // For a node without ca.crt, whose certificates come from the operator's own authority.
  private static let keptFile = "revoked.kept"

  private static func marked(_ certificates: [Certificate]) -> String {
    mark + certificates.map(\.pem).joined()
  }

  // Whether the list of revoked certificates must exist. Also true if that is unknown.
  var keepsRevoked: Bool {
    do {
      if try FileStamp.look(at: file(Self.keptFile)) != nil { return true }
      guard try FileStamp.look(at: file("ca.crt")) != nil else { return false }
      return try File.text(file("ca.crt")).utf8.starts(with: Self.mark.utf8)
    } catch { return true }
  }

  // Begins the list of revoked certificates on a node of a version without one.
  func keepRevoked() throws {
    guard !keepsRevoked else { return }
    if try FileStamp.look(at: file("revoked")) == nil { try beginRevoked() }
    if Folder.exists(file("ca.crt")) {
      try File.replace(file("ca.crt"), text: Self.marked(try certificates("ca.crt")), permissions: 0o644)
    } else {
      try File.replace(file(Self.keptFile), text: "see revoked\n", permissions: 0o644)
    }
  }

  func beginRevoked() throws { try File.replace(file("revoked"), text: "", permissions: 0o644) }
}
