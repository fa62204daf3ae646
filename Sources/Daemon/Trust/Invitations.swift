import Changes
import CodecKit
import NetKit
import SystemKit

/// The invitations that this node has issued, each for the name of one node. In the folder `invites`, each has a file
/// named by the hash of its token.
///
///     let token = try Invitations(peers).make("till", expires: now + hour)
package struct Invitations: Sendable {
  package struct Invitation: Equatable, Sendable {
    package let name: String
    /// The time at which the invitation expires, in µs since 1970 UTC.
    package let expires: Int64
    fileprivate let file: String
  }

  private let folder: String

  package init(_ peers: PeerFolder) { folder = peers.file("invites") }

  /// Creates an invitation that expires at `expires` (µs since 1970 UTC). Returns its token in hexadecimal.
  package func make(_ name: String, expires: Int64) throws -> String {
    let token = hexadecimal(randomBytes(16))
    try Folder.create(folder)
    let text = JSONObject([("name", .text(name)), ("expires", .integer(expires))]).line + "\n"
    try File.replace("\(folder)/\(try Self.digest(token))", text: text, permissions: 0o600)
    return token
  }

  package func all() -> [Invitation] {
    ((try? Folder.names(folder)) ?? []).compactMap { read($0) }
  }

  /// Returns the invitation for a token, even if it has expired. The comparison takes constant time.
  func find(_ token: String) throws -> Invitation? {
    let wanted = Array(try Self.digest(token).utf8)
    var found: String?
    for name in (try? Folder.names(folder)) ?? [] {
      let bytes = Array(name.utf8)
      guard bytes.count == wanted.count else { continue }
      if zip(bytes, wanted).reduce(0, { $0 | ($1.0 ^ $1.1) }) == 0 { found = name }
    }
    return found.flatMap { read($0) }
  }

  /// Marks an invitation as used. Returns false if it was used before.
  func take(_ invitation: Invitation) throws -> Bool {
    do throws(FileError) {
      try Folder.remove("\(folder)/\(invitation.file)")
      try Folder.sync(folder)
      return true
    } catch {
      if error.isMissing { return false }
      throw error
    }
  }

  /// Withdraws all expired invitations; if `name` is not nil, also the other invitations for this name.
  ///
  /// - Returns: The number of withdrawn invitations for the name.
  package func withdraw(_ name: String?, now: Int64) throws -> Int {
    var count = 0
    for invitation in all() where invitation.name == name || invitation.expires < now {
      if try take(invitation), invitation.name == name { count += 1 }
    }
    return count
  }

  private func read(_ file: String) -> Invitation? {
    guard JoinLine.isHex(file, 64), let text = try? File.text("\(folder)/\(file)"),
      case .object(let object)? = try? JSONReader.read(text), let name = object.text("name"),
      let expires = object.integer("expires")
    else { return nil }
    return Invitation(name: name, expires: expires, file: file)
  }

  private static func digest(_ token: String) throws -> String {
    let hasher = try SHA256()
    hasher.update(Array(token.asciiLowercased.utf8))
    return hexadecimal(hasher.finalize())
  }
}
