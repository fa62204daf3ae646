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
  /// - Parameter force: Whether the file is replaced even if a program has it open. The program then goes on with the old
  ///   file until it opens it again; what it writes is lost.
  /// - Throws: `usage` if there is no pending file. `database-damaged` if its SHA-256 is wrong; the file is then removed.
  ///   `database-busy` while a program has the old file open.
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
    try verify(sum, progress)
    guard let note = try Self.note(of: place.pendingPath) else { throw foreign }
    let old = force ? nil : try takeOld()
    if old == nil { try removeSideFiles() }
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

  /// Locks the old file for this process alone, so that no program reads or writes it until it has another name. Returns
  /// the connection that holds the lock; nil if there is no old file.
  private func takeOld() throws -> Database? {
    guard place.isThere else { return nil }
    let processes = OpenFiles.processes(of: place.path)
    guard processes.isEmpty else {
      throw inUse("process \(processes.prefix(5).map(String.init).joined(separator: ", ")) has it open")
    }
    do {
      let old = try Ends.open(place.path, mode: .readWrite, checksOwn: false)
      old.setBusyTimeout(milliseconds: 0)
      // A connection in WAL mode keeps a lock for as long as it is open. Without others, the mode can be left, which
      // also moves everything from the log into the file.
      try old.execute("PRAGMA locking_mode = EXCLUSIVE")
      guard try old.text("PRAGMA journal_mode = DELETE")?.asciiLowercased == "delete" else {
        throw inUse("its log is in use")
      }
      try old.execute("BEGIN EXCLUSIVE")
      guard !["-wal", "-shm"].contains(where: { Folder.exists(place.path + $0) }) else {
        throw inUse("its log is in use")
      }
      return old
    } catch let error as SQLiteError {
      throw error.isBusy ? inUse(error.message) : error.asCairnError
    } catch let error as CairnError where error.code == .databaseBusy { throw inUse(error.message) }
  }

  private func inUse(_ how: String) -> CairnError {
    CairnError(
      .databaseBusy, "\(place.path) is in use, and was not replaced: \(how)",
      hint: "end the program or its connections, and run again; --force replaces the file under them", remedy: .retry)
  }

  /// Removes what belongs to the old file: a log or a journal would be taken for one of the new file.
  private func removeSideFiles() throws {
    for suffix in ["-wal", "-shm", "-journal"] where FileIdentity(path: place.path + suffix, followsLink: false) != nil
    {
      try Folder.remove(place.path + suffix)
    }
  }
}
