import Changes
import Glibc
import SystemKit
import Synchronization

/// Fingerprints of certificates that count no more: the first word of each line of a file, which is read again when it
/// changes. A file that cannot be read revokes all.
package final class RevokedPeers: Sendable {
  private struct State {
    var stamp: Stamp?
    /// Nil: what stands in the file is not known.
    var fingerprints: Set<String>?
  }
  private struct Stamp: Equatable {
    let inode, size, seconds, nanoseconds: Int
  }

  private let path: String
  private let state = Mutex(State(stamp: nil, fingerprints: []))

  package init(_ path: String) { self.path = path }

  package func contains(_ fingerprint: String) -> Bool {
    state.withLock { state in
      let stamp = Self.stamp(path)
      if stamp != state.stamp || state.fingerprints == nil {
        state.stamp = stamp
        state.fingerprints = stamp == nil ? [] : (try? File.text(path)).map(Self.read)
      }
      return state.fingerprints?.contains(fingerprint) ?? true
    }
  }

  /// Adds certificates of a peer.
  package static func add(_ fingerprints: [String], of name: String, at now: Int64, to path: String) throws {
    let before = Folder.exists(path) ? try File.text(path) : ""
    let lines = fingerprints.map { "\($0) \(name) \(now)\n" }
    try File.replace(path, text: before + lines.joined(), permissions: 0o644)
  }

  private static func read(_ text: String) -> Set<String> {
    Set(text.split(separator: "\n").compactMap { $0.split(separator: " ").first.map(String.init) })
  }

  private static func stamp(_ path: String) -> Stamp? {
    var info = stat()
    guard stat(path, &info) == 0 else { return nil }
    return Stamp(
      inode: Int(info.st_ino), size: Int(info.st_size), seconds: info.st_mtim.tv_sec, nanoseconds: info.st_mtim.tv_nsec)
  }
}
