import Changes
import Endpoints
import SQLiteKit
import SystemKit
import Trails

/// Puts a snapshot that was fetched in the place of the file that programs read.
///
///     let swap = SnapshotSwap(SnapshotPlace("/srv/prices.db"))
///     try swap.apply()   // throws database-busy while a program has the old file open
package struct SnapshotSwap {
  package enum State: String, Sendable {
    /// There is neither a file that programs read, nor one that was fetched.
    case none
    /// The file that programs read is the last one that was fetched.
    case current
    /// A file that was fetched can be applied.
    case pending
  }

  private let place: SnapshotPlace
  private static let magic = Array("SQLite format 3\0".utf8)

  package init(_ place: SnapshotPlace) { self.place = place }

  package var state: State { place.isPending ? .pending : place.isThere ? .current : .none }

  /// The path of the file that the state is about; nil if there is none.
  package var file: String? {
    switch state {
    case .none: nil
    case .current: place.path
    case .pending: place.pendingPath
    }
  }

  /// Reads what a snapshot says of itself; nil if the file is no snapshot of Cairn.
  package static func note(of path: String) throws -> SnapshotNote? {
    do { return try SnapshotNote.read(from: Ends.open(path, mode: .readOnly, checksOwn: false)) } catch let error
      as SQLiteError
    { throw error.asCairnError }
  }

  /// Replaces the file that programs read by the pending one.
  ///
  /// - Parameter force: Whether the file is replaced even if it is not a snapshot, or if a program has it open. The
  ///   program then goes on with the old file until it opens it again; what it writes is lost.
  /// - Throws: `usage` if there is no pending file. `database-damaged` if its SHA-256 is wrong; the file is then removed.
  ///   `database-busy` while a program has the old file open. `target-differs` if the old file is not a snapshot.
  package func apply(
    force: Bool = false, _ progress: (_ done: UInt64, _ total: UInt64) throws -> Void = { _, _ in }
  ) throws -> SnapshotNote {
    do { return try place.locked { try replace(force: force, progress) } } catch let error as FileError {
      throw error.asCairnError(doing: "apply a snapshot")
    }
  }

  private func replace(
    force: Bool, _ progress: (_ done: UInt64, _ total: UInt64) throws -> Void
  ) throws -> SnapshotNote {
    guard place.isPending, let sum = SnapshotPlace.sum(of: place.pendingPath) else {
      throw CairnError(
        .usage, "no snapshot is pending for \(place.path)", hint: "run 'cairn snapshot fetch' first",
        remedy: .badInput)
    }
    try SideFiles.checkAreMissing(beside: place.pendingPath, "snapshot")
    try verify(sum, progress)
    guard let note = try Self.note(of: place.pendingPath) else { throw foreign }
    let old = force ? nil : try old.take()
    // A log or a journal of the old file would be taken for one of the new file.
    if old == nil { try SideFiles.remove(beside: place.path) }
    // The connection to the old file holds its lock until the new file has the name.
    try withExtendedLifetime(old) { try rename(sum) }
    return note
  }

  private func rename(_ sum: String) throws {
    try SnapshotPlace.store(sum, of: place.path)
    try Folder.rename(place.pendingPath, to: place.path)
    try Folder.sync(Folder.parent(of: place.path))
    try? Folder.remove(SnapshotPlace.sumPath(of: place.pendingPath))
  }

  private func verify(_ sum: String, _ progress: (_ done: UInt64, _ total: UInt64) throws -> Void) throws {
    let file = try File(place.pendingPath, .read)
    guard try FileSum.of(file, progress).sum.hasSameBytes(as: sum) else {
      try SnapshotPlace.remove(place.pendingPath)
      throw CairnError(
        .databaseDamaged, "the pending snapshot of \(place.path) is damaged, and was removed",
        hint: "run 'cairn snapshot fetch' again")
    }
    let head = UnsafeMutableRawBufferPointer.allocate(byteCount: 20, alignment: 1)
    defer { head.deallocate() }
    let count = try file.read(into: head, at: 0)
    // In WAL mode, opening the file would leave files beside it.
    guard count == 20, head.prefix(16).elementsEqual(Self.magic), head[18] == 1, head[19] == 1 else { throw foreign }
  }

  private var foreign: CairnError {
    CairnError(
      .stateForeign, "the pending file of \(place.path) is not a snapshot of Cairn",
      hint: "remove \(place.pendingPath), and fetch the snapshot again", remedy: .badInput)
  }

  // MARK: The old file

  private var old: ReplacedSnapshot {
    ReplacedSnapshot(
      place.path,
      ifBusy: "end the program or its connections, and run again; --force replaces the file under them",
      ifForeign: "check the path; --force replaces the file, and its rows are lost")
  }
}
