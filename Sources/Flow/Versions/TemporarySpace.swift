import Changes
import Glibc
import SQLiteKit
import Synchronization
import SystemKit

/// The disk space for the temporary files of all applies of this process. The files may take half of the space that
/// would be free without them. ``limit(_:)`` can lower this limit.
///
///     TemporarySpace.shared.limit(1 << 30)
///     try TemporarySpace.shared.take(1 << 20)   // throws `disk-budget` above the limit
package final class TemporarySpace: Sendable {
  package static let shared = TemporarySpace { Folder.freeBytes(Database.temporaryFolder) }

  private struct State {
    var limit: Int64?
    var used: Int64 = 0
  }

  private let state = Mutex(State())
  private let freeBytes: @Sendable () -> Int64?

  package init(freeBytes: @escaping @Sendable () -> Int64?) { self.freeBytes = freeBytes }

  package var used: Int64 { state.withLock { $0.used } }

  /// Sets the size limit for all temporary files together, in bytes; nil: only the free space limits them.
  package func limit(_ bytes: Int64?) { state.withLock { $0.limit = bytes } }

  /// Counts `bytes` more bytes as used by temporary files.
  ///
  /// - Throws: `disk-budget` if all temporary files together then exceed the limit. In that case, `bytes` is not
  ///   counted.
  package func take(_ bytes: Int64) throws {
    let free = freeBytes() ?? .max
    let isOver = state.withLock { state in
      let most = min(state.limit ?? .max, free.addingBounded(state.used) / 2)
      guard state.used.addingBounded(bytes) <= most else { return true }
      state.used += bytes
      return false
    }
    guard isOver else { return }
    throw CairnError(
      .diskBudget,
      "the temporary files of applies need more than a quarter of [limits] disk, or than half of the free space",
      hint:
        "raise [limits] disk, or free space in the folder for temporary files (SQLITE_TMPDIR, else /var/tmp); split the transaction, or check that all nodes can be reached",
      remedy: .retry)
  }

  package func giveBack(_ bytes: Int64) { state.withLock { $0.used -= bytes } }
}

/// The part of ``TemporarySpace`` that one temporary database has taken.
final class TemporaryShare {
  private static let step: Int64 = 1 << 20

  private let space: TemporarySpace
  private var taken: Int64 = 0
  private var bytes: Int64 = 0

  init(of space: TemporarySpace) { self.space = space }

  deinit { space.giveBack(taken) }

  /// Takes the space for a record of `count` bytes that is about to be written to `database`.
  ///
  /// - Throws: `disk-budget` if too little space is left.
  func makeRoom(for count: Int, in database: Database) throws {
    let more = Int64(count) + 100
    bytes += more
    guard bytes > taken else { return }
    // Pages of records that were removed are used again.
    let pages = try database.integer("PRAGMA page_count") ?? 0
    let pageBytes = try database.integer("PRAGMA page_size") ?? 4096
    bytes = pages * pageBytes + more
    guard bytes > taken else { return }
    let needed = (bytes / Self.step + 1) * Self.step - taken
    try space.take(needed)
    taken += needed
  }
}
