import Glibc
import SystemKit

/// The time and the disk space that one statement may take.
struct StatementLimit {
  private static let lookMilliseconds: Int64 = 20

  // In ms of a monotonic clock.
  private let deadline: Int64
  /// The folders into which the statement writes, with the free bytes at which the statement has to end.
  private let rooms: [(folder: String, floor: Int64)]
  private var looksAt: Int64 = 0

  /// Creates a limit for a statement that begins now.
  ///
  /// - Parameter file: The database into which the statement writes.
  init(milliseconds: Int64, diskBytes: Int64?, file: String) {
    deadline = Clock.monotonicMilliseconds + milliseconds
    let folders = diskBytes == nil ? [] : [Folder.parent(of: file), Database.temporaryFolder]
    rooms = folders.compactMap { folder in Folder.freeBytes(folder).map { (folder, $0 - (diskBytes ?? 0)) } }
  }

  mutating func isReached() -> Bool {
    let now = Clock.monotonicMilliseconds
    guard now < deadline else { return true }
    guard now >= looksAt else { return false }
    looksAt = now + Self.lookMilliseconds
    return rooms.contains { room in Folder.freeBytes(room.folder).map { $0 < room.floor } ?? false }
  }
}

extension Database {
  /// The folder in which SQLite makes temporary files.
  ///
  /// Source: https://www.sqlite.org/tempfiles.html, section 5
  package static var temporaryFolder: String {
    let named = ["SQLITE_TMPDIR", "TMPDIR"].compactMap { (name: String) in getenv(name).map { String(cString: $0) } }
    return (named + ["/var/tmp", "/usr/tmp", "/tmp"]).first { access($0, W_OK | X_OK) == 0 } ?? "."
  }
}
