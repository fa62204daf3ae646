import Applying
import Capturing
import Changes
import Endpoints
import SQLiteKit
import SystemKit
import Trails
import Transforming

/// Makes an SQLite file with the rows of a database at one moment, without anything of Cairn except ``SnapshotNote``.
///
/// Writers of a source in WAL mode do not wait. The new file gets its name when it is complete, and its SHA-256 beside
/// it. Files that an ended run has left are removed by the next one.
///
///     let made = try Snapshot(of: url, to: "/srv/erp-now.db").make()
///     made.sha256   // "9f86d081884c7d65…", also in /srv/erp-now.db.sha256
package struct Snapshot: Sendable {
  /// A snapshot that is complete.
  package struct Made: Sendable {
    package var bytes: UInt64
    /// 64 hexadecimal digits.
    package var sha256: String
    package var note: SnapshotNote
    /// Sentences about the snapshot that the operator should know.
    package var notices: [String]
  }

  package let source: DatabaseURL
  package let path: String
  /// The tables to take, by patterns of their names; nil: all.
  package var tables: TablePatterns?
  /// The condition of the rows to take, in all tables; nil: all.
  @ByBytes package var condition: String?
  /// The trail of the apply whose tables are taken; nil: the tables of the database.
  package var trail: TrailName?
  /// The folders that may have the trail of the source's capture. Nil: the place that the source names, if it is
  /// private to the user of this process.
  package var captureFolders: [String]?
  /// Whether an earlier snapshot of this name is replaced.
  package var replaces = false
  package var clock = Clock.system
  /// Gets the bytes that are done and to do. It ends the work by an error.
  package var progress: @Sendable (_ done: UInt64, _ total: UInt64) throws -> Void = { _, _ in }

  package init(of source: DatabaseURL, to path: String) { (self.source, self.path) = (source, path) }

  private var copyPath: String { path + ".cairn-snapshot" }
  private var packedPath: String { path + ".cairn-packed" }

  /// Makes the snapshot.
  ///
  /// - Throws: `unsupported` for a PostgreSQL database. `target-differs` if the file exists and is not to be replaced,
  ///   or a log or journal of an earlier file is beside it. `database-busy` while a program has the file open that is to be
  ///   replaced. `busy` if another process makes it. `disk-full`; `state-unwritable`; the errors of the source.
  package func make() throws -> Made {
    guard case .sqlite(let database) = source else {
      throw CairnError(
        .unsupported, "a snapshot is made from an SQLite file, and \(source.place) is a PostgreSQL database",
        hint: "let an apply write its trail into an SQLite file, and name that apply", remedy: .badInput)
    }
    try checkPlace(database)
    do {
      let lock = try takeOver()
      defer { withExtendedLifetime(lock) { try? removeLeft() } }
      return try make(from: database)
    } catch let error as FileError {
      throw error.asCairnError(doing: "write the snapshot \(path)")
    } catch let error as SQLiteError where error.path.hasPrefix(copyPath) || error.path.hasPrefix(packedPath) {
      throw writeError(error)
    } catch let error as SQLiteError {
      throw error.asCairnError
    }
  }

  // MARK: Places

  private func checkPlace(_ database: String) throws {
    guard FileIdentity(path: database) != nil else {
      throw CairnError(
        .databaseMissing, "there is no database \(database)", hint: "check the path; the source must exist",
        remedy: .badInput)
    }
    let folder = Folder.parent(of: path)
    guard Folder.isFolder(folder) else {
      throw CairnError(
        .databaseMissing, "the folder of the snapshot does not exist: \(folder)", hint: "create the folder first",
        remedy: .badInput)
    }
    try Folder.checkIsNotShared(onTheWayTo: path, "snapshot")
    guard let there = FileIdentity(path: path) else { return try SideFiles.checkAreMissing(beside: path, "snapshot") }
    if there == FileIdentity(path: database) { throw Ends.same(database) }
    guard replaces else {
      throw CairnError(
        .targetDiffers, "the file \(path) exists", hint: "name a new file, or add --replace", remedy: .badInput)
    }
    _ = try old.take()
  }

  /// The earlier snapshot of this name.
  private var old: ReplacedSnapshot {
    ReplacedSnapshot(
      path, ifBusy: "end the program or its connections, and run again", ifForeign: "name another file, or remove it")
  }

  /// Creates the file of the copy with a lock, after removing what an ended run has left.
  private func takeOver() throws -> File {
    if FileIdentity(path: copyPath, followsLink: false) != nil {
      do {
        let left = try File(copyPath, .readWrite)
        guard try left.tryLock() else { throw isBeingMade }
        try removeLeft()
      } catch let error as FileError where error.isMissing { try removeLeft() }
    }
    try removeLeft()
    do {
      // Until it is stripped, it has the rows that are not taken.
      let file = try File(copyPath, .create, permissions: 0o600)
      guard try file.tryLock() else { throw isBeingMade }
      return file
    } catch let error as FileError where Folder.exists(copyPath) && error.operation == "open" { throw isBeingMade }
  }

  private var isBeingMade: CairnError {
    CairnError(
      .busy, "another process makes the snapshot \(path)", hint: "wait until it has ended", remedy: .retry)
  }

  private func removeLeft() throws(FileError) {
    for name in [packedPath, copyPath] {
      try SideFiles.remove(beside: name)
      do { try Folder.remove(name) } catch  where error.isMissing {}
    }
  }

  private func writeError(_ error: SQLiteError) -> CairnError {
    let error = error.asCairnError
    guard error.code == .databaseFull else { return error }
    return CairnError(
      .diskFull, "cannot write the snapshot \(path): its disk is full",
      hint: "free twice the size of the database on the file system of \(Folder.parent(of: path)), and run again",
      context: ["path": path])
  }

  // MARK: Making

  private func make(from database: String) throws -> Made {
    var notices: [String] = []
    var madeAt: Int64 = 0
    try SideFiles.checkAreMissing(beside: copyPath, "snapshot")
    let copy = try PageCopy.open(copyPath)
    let info: TrailInfo?
    do {
      let origin = try OwnTables.openChecked(database, isReader: true)
      if try origin.text("PRAGMA journal_mode")?.asciiLowercased != "wal" {
        notices.append("\(database) is not in WAL mode: its writers wait while it is copied")
      }
      // The trail before the moment: all of its rows are in the copy.
      info = try ownTrail(of: origin)
      try origin.transaction("BEGIN") {
        _ = try origin.integer("SELECT count(*) FROM sqlite_master")
        madeAt = clock.microseconds()
        let page = UInt64(clamping: try origin.integer("PRAGMA page_size") ?? 4096)
        try PageCopy.run(from: origin, to: copy) { done, total in try progress(done * page, total * page * 3) }
      }
    }
    try copy.executeScript("PRAGMA journal_mode = DELETE; PRAGMA synchronous = OFF")
    try copy.checkOwnTables()
    let positions = try SnapshotPosition.found(in: copy, info)
    notices += try heldTables(in: copy)
    let names = try strip(copy)
    if positions.isEmpty {
      notices.append("\(database) is neither captured nor written by an apply: the snapshot has no position")
    }
    let note = SnapshotNote(madeAt: madeAt, tables: names, condition: condition, positions: positions)
    try note.write(to: copy)
    try SideFiles.checkAreMissing(beside: packedPath, "snapshot")
    try File(packedPath, .create).close()
    let size = UInt64(clamping: try FileRoom.size(of: copy))
    try progress(size, size * 3)
    do { try copy.run("VACUUM INTO ?", [.text(packedPath)]) } catch let error as SQLiteError { throw writeError(error) }
    let (sum, bytes) = try publish()
    return Made(bytes: bytes, sha256: sum, note: note, notices: notices)
  }

  /// Returns the trail of the source's capture; nil if the source is not captured, or if the trail cannot be read here.
  private func ownTrail(of origin: Database) throws -> TrailInfo? {
    guard let owner = try Journal(origin).owner(), !owner.place.isEmpty else { return nil }
    let folder =
      if let captureFolders {
        captureFolders.first { (try? Trail.end(folder: $0))?.id == owner.trail }
      } else {
        try? CaptureHome.folder(of: owner.trail, in: owner.place, source)
      }
    return folder.flatMap { try? Trail.info(folder: $0) }
  }

  private func heldTables(in copy: Database) throws -> [String] {
    guard let trail else { return [] }
    return try SQLiteApplyState(copy, of: trail).heldTables().map {
      "table \($0.place) is suspended: its rows are those from before its suspension"
    }
  }

  // MARK: Tables

  /// Removes everything of Cairn, and all tables and rows that are not taken. Returns the names of the tables that stay.
  private func strip(_ copy: Database) throws -> [String] {
    copy.setTriggersEnabled(false)
    let applied = try trail.map { Set(try SQLiteApplyState(copy, of: $0).targetNames().map(\.sqliteKey)) }
    try Journal(copy).detach()
    let all = try copy.transaction("BEGIN") { try copy.userTables() }
    let within = all.filter { applied?.contains($0.name.sqliteKey) ?? true }
    let taken = within.filter { tables?.includes($0.name) ?? true }
    try checkNames(within.map(\.name), taken.map(\.name))
    guard taken.count < all.count || condition != nil else { return taken.map(\.name) }
    let stored = taken.filter { !$0.schema.columns.isEmpty }
    try copy.transaction {
      for row in try copy.query("SELECT type, name FROM sqlite_master WHERE type IN ('view', 'trigger')") {
        try copy.execute("DROP \(row[0].string == "view" ? "VIEW" : "TRIGGER") IF EXISTS \(row[1].string.quotedName)")
      }
      let kept = Set(stored.map(\.name.sqliteKey))
      for table in all where !kept.contains(table.name.sqliteKey) {
        try copy.execute("DROP TABLE IF EXISTS \(table.name.quotedName)")
      }
      for table in stored { try keepRows(of: table, in: copy) }
      try forgetLeftOut(stored, in: copy)
    }
    return stored.map(\.name)
  }

  /// Removes what SQLite itself keeps about rows that are not taken: samples of their values, and their largest keys.
  ///
  /// Source: https://sqlite.org/fileformat2.html#internal_schema_objects
  private func forgetLeftOut(_ stored: [SQLiteTable], in copy: Database) throws {
    let own = try copy.query("SELECT name FROM sqlite_master WHERE type = 'table' AND name LIKE 'sqlite!_%' ESCAPE '!'")
      .map(\.[0].string)
    for name in own where name.asciiLowercased.hasPrefix("sqlite_stat") {
      try copy.execute("DELETE FROM \(name.quotedName)")
    }
    guard own.contains(where: { $0.asciiLowercased.hasSameBytes(as: "sqlite_sequence") }) else { return }
    let kept = Dictionary(stored.map { ($0.name.sqliteKey, $0) }) { first, _ in first }
    for row in try copy.query("SELECT rowid, name FROM sqlite_sequence") {
      guard let table = kept[row[1].string.sqliteKey], let key = table.rowidName else {
        try copy.run("DELETE FROM sqlite_sequence WHERE rowid = ?", [row[0]])
        continue
      }
      guard condition != nil else { continue }
      try copy.run(
        "UPDATE sqlite_sequence SET seq = (SELECT coalesce(max(\(key)), 0) FROM \(table.name.quotedName)) WHERE rowid = ?",
        [row[0]])
    }
  }

  private func checkNames(_ all: [String], _ taken: [String]) throws {
    if let wrong = tables?.unmatched(in: all).first(where: \.isMistake) {
      throw CairnError(
        .tableMissing, "there is no table '\(wrong.name)' in \(source.place)",
        hint: wrong.nearest.map { "did you mean '\($0)'?" } ?? "'cairn check --from \(source.shown)' lists them",
        remedy: .badInput)
    }
    guard taken.isEmpty else { return }
    throw CairnError(
      .noTables, "no table of \(source.place) is taken",
      hint: "check --tables, or wait for the first copy of the apply",
      remedy: .badInput)
  }

  private func keepRows(of table: SQLiteTable, in copy: Database) throws {
    guard let condition else { return }
    guard let read = RowCondition(condition, of: table.schema) else {
      throw CairnError(
        .usage, "the condition is not one expression: \(condition)",
        hint: "write one SQL expression, such as \"store = 7\"", remedy: .badInput)
    }
    do { try copy.execute("DELETE FROM \(table.name.quotedName) WHERE (\n\(read.text)\n) IS NOT TRUE") } catch let error
      as SQLiteError where error.primary == 1
    {
      throw CairnError(
        .usage, "the condition does not fit table \(table.name): \(error.message)",
        hint: "name the tables that have its columns with --tables", remedy: .badInput)
    }
  }

  // MARK: Publishing

  /// Makes the file durable, and gives it its name.
  private func publish() throws -> (sum: String, bytes: UInt64) {
    let file = try File(packedPath, .readWrite)
    try file.sync()
    let (sum, bytes) = try FileSum.of(file) { done, total in try progress(total * 2 + done, total * 3) }
    try file.close()
    // The connection to the old file holds its lock until the new file has the name.
    try withExtendedLifetime(replaces ? old.take() : nil) { try give(sum) }
    try Folder.sync(Folder.parent(of: path))
    return (sum, bytes)
  }

  /// Writes the SHA-256, and gives the file its name.
  private func give(_ sum: String) throws {
    try SideFiles.checkAreMissing(beside: path, "snapshot")
    do throws(FileError) { try SnapshotPlace.store(sum, of: path) } catch {
      try? Folder.remove(SnapshotPlace.sumPath(of: path) + ".new")
      throw error
    }
    do throws(FileError) {
      if replaces { try Folder.rename(packedPath, to: path) } else { try Folder.rename(packedPath, new: path) }
    } catch {
      if !replaces { try? Folder.remove(SnapshotPlace.sumPath(of: path)) }
      throw error
    }
  }
}
