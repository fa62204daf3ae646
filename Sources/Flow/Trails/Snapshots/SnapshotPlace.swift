import Changes
import SystemKit

/// The paths of a snapshot at a device: the file that programs read, and the files beside it.
///
///     SnapshotPlace("/srv/prices.db").pendingPath   // "/srv/prices.db.pending"
package struct SnapshotPlace: Sendable {
  /// The file that programs read.
  package let path: String
  package init(_ path: String) { self.path = path }

  /// The part of a download that has arrived.
  package var partPath: String { path + ".part" }
  /// The download that is complete and verified.
  package var pendingPath: String { path + ".pending" }
  /// The SHA-256 of a file is in a file of this name, in the format of sha256sum(1).
  package static func sumPath(of path: String) -> String { path + ".sha256" }

  package var isPending: Bool { Folder.exists(pendingPath) }
  package var isThere: Bool { Folder.exists(path) }

  /// Returns the SHA-256 that is stored for a file; nil if there is none.
  package static func sum(of path: String) -> String? {
    guard let text = try? File.text(sumPath(of: path), bytesMax: 64 << 10) else { return nil }
    let sum = String(decoding: text.utf8.prefix(64), as: UTF8.self)
    return FileSum.isSum(sum) ? sum : nil
  }

  /// Stores the SHA-256 of a file, durably.
  ///
  /// - Parameter name: The name of the file in the line, if it is going to be another one.
  package static func store(_ sum: String, of path: String, as name: String? = nil) throws(FileError) {
    let line = "\(sum)  \(name ?? Folder.lastName(of: path))\n"
    try File.replace(sumPath(of: path), text: line, permissions: 0o644)
  }

  /// Removes a file and its SHA-256, if they are there.
  package static func remove(_ path: String) throws(FileError) {
    for name in [path, sumPath(of: path)] { do { try Folder.remove(name) } catch  where error.isMissing {} }
  }

  private static let lockMilliseconds: Int64 = 10_000

  /// Runs `body` while no other process changes which file is pending or current. The lock is one of the folder.
  ///
  /// - Throws: `busy` if another process has the lock for ten seconds.
  package func locked<T>(_ body: () throws -> T) throws -> T {
    let folder: File
    do { folder = try File(Folder.parent(of: path), .read) } catch {
      throw error.asCairnError(doing: "open the folder of \(path)")
    }
    let limit = Clock.monotonicMilliseconds + Self.lockMilliseconds
    while true {
      do { if try folder.tryLock() { break } } catch { throw error.asCairnError(doing: "lock the folder of \(path)") }
      guard Clock.monotonicMilliseconds < limit else {
        throw CairnError(
          .busy, "another process works in the folder of \(path)", hint: "wait until it has ended", remedy: .retry)
      }
      Clock.sleep(milliseconds: 20)
    }
    defer { try? folder.close() }
    return try body()
  }
}
