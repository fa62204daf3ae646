import Changes
import NetKit
import SystemKit
import Synchronization

/// The revoked certificates, from the file `revoked`. A line with `name` revokes a peer's certificates whose validity
/// begins at the given time (seconds since 1970 UTC) or earlier. A line with a SHA-256 revokes that certificate of the
/// named peer. If the file cannot be read, all certificates count as revoked.
///
/// ```
/// name store-042 1767225600
/// 91d0…c4 store-007 1767225600000000
/// ```
package final class RevokedPeers: Sendable {
  struct List: Equatable, Sendable {
    var fingerprints: Set<String> = []
    // By peer name: the peer's certificates that were issued until this second since 1970 UTC are revoked.
    var through: [NameKey: Int64] = [:]

    func contains(_ certificate: PeerCertificate) -> Bool {
      fingerprints.contains(certificate.fingerprint)
        || through[certificate.commonName].map { certificate.notBefore / 1_000_000 <= $0 } ?? false
    }
  }

  /// The reason why the list of revoked certificates is unknown. Every certificate then counts as revoked.
  package struct Unknown: Error, Equatable, Sendable {
    package let reason: String
  }

  private enum Known: Equatable {
    case list(List)
    case unknown(Unknown)
  }

  private struct State {
    var stamp: FileStamp?
    var known: Known?
    var wasThere = false
  }

  private static let bytesMax = 512 << 20

  private let path: String
  private let isKept: @Sendable () -> Bool
  private let state = Mutex(State())

  /// Creates a list that reads the file at a path.
  ///
  /// - Parameter isKept: Whether this node keeps a list, so that the file must exist.
  package init(_ path: String, isKept: @escaping @Sendable () -> Bool) { (self.path, self.isKept) = (path, isKept) }

  package func contains(_ certificate: PeerCertificate) -> Bool {
    switch known {
    case .list(let list): list.contains(certificate)
    case .unknown: true
    }
  }

  /// The reason why the list could not be read; nil if it could. With a reason, every certificate counts as revoked.
  package var problem: Unknown? {
    if case .unknown(let unknown) = known { unknown } else { nil }
  }

  private var known: Known {
    state.withLock { state in
      let stamp: FileStamp?
      do throws(FileError) { stamp = try FileStamp.look(at: path) } catch {
        return .unknown(Unknown(reason: "\(error)"))
      }
      guard let stamp else {
        if state.wasThere || isKept() { return .unknown(Unknown(reason: "\(path) is missing")) }
        return .list(List())
      }
      state.wasThere = true
      if let known = state.known, stamp == state.stamp { return known }
      do {
        let known = Known.list(try Self.list(try Self.text(path), path))
        (state.known, state.stamp) = (known, stamp)
        return known
      } catch let unknown as Unknown {
        (state.known, state.stamp) = (.unknown(unknown), stamp)
        return .unknown(unknown)
      } catch { return .unknown(Unknown(reason: "\(error)")) }
    }
  }

  private static func text(_ path: String) throws(FileError) -> String { try File.text(path, bytesMax: bytesMax) }

  private static func list(_ text: String, _ path: String) throws -> List {
    var list = List()
    for (index, line) in text.utf8.split(separator: 0x0a, omittingEmptySubsequences: false).enumerated() {
      let words = line.split(separator: 0x20).map { String(decoding: $0, as: UTF8.self) }
      guard let first = words.first, !first.hasPrefix("#") else { continue }
      if words.count == 3, first == "name", let second = Int64(words[2]) {
        list.through[words[1]] = max(second, list.through[words[1]] ?? .min)
      } else if JoinLine.isHex(first, 64) {
        list.fingerprints.insert(first.asciiLowercased)
      } else {
        throw Unknown(reason: "line \(index + 1) of \(path) is not understood")
      }
    }
    return list
  }

  // MARK: Changing it

  /// Returns the time, in seconds since 1970 UTC, from the line that revokes the certificates of a name; nil if there
  /// is no such line.
  static func through(_ name: String, _ path: String) throws -> Int64? {
    guard try FileStamp.look(at: path) != nil else { return nil }
    return try list(try text(path), path).through[name]
  }

  /// Revokes the certificates of a name whose validity begins at `second` (seconds since 1970 UTC) or earlier.
  ///
  /// - Throws: If the present list cannot be read completely. The file is not changed then.
  static func add(_ name: String, through second: Int64, to path: String) throws {
    let before = try text(path)
    let known = try list(before, path)
    guard known.through[name] ?? .min < second else { return }
    let kept = before.split(at: "\n").filter { line in
      let words = line.split(at: " ")
      return
        !(words.count == 3 && words[1].hasSameBytes(as: name)
        && (words[0] == "name" || JoinLine.isHex(words[0], 64)))
    }
    try File.replace(
      path, text: (kept + ["name \(name) \(second)"]).joined(separator: "\n") + "\n", permissions: 0o644)
  }
}
