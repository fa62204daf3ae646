import Applying
import Changes
import Endpoints
import Glibc
import Mapping
import PostgresKit
import SQLiteKit
import SystemKit
import Trails

/// Makes a database as another one was at a moment, from the trail of its capture.
///
/// A new SQLite file gets its name when it is complete. A PostgreSQL database must be empty.
///
///     let restore = try Restore(folder: folder, to: .before(transaction: 812), into: url)
///     try restore.run(stop: StopSignal())
package struct Restore: Sendable {
  package let folder: String
  package let target: DatabaseURL
  package let trail: TrailName
  /// The last transaction that is applied.
  package let last: RestorePlan.Transaction
  /// The first transaction that is left out; nil if the trail ends with ``last``.
  package let next: RestorePlan.Transaction?
  /// The mapping of names from SQLite to PostgreSQL.
  package var names = NamePolicy.fold
  package let progress = ApplyProgress()

  /// The name of the SQLite file while it is not complete.
  private var unfinishedPath: String? { if case .sqlite(let path) = target { path + ".cairn-restore" } else { nil } }

  /// Reads the trail to the moment, and checks the target. Writes nothing.
  ///
  /// - Throws: `trail-purged` if the trail's beginning was purged. `target-differs` if the target is not empty.
  ///   `unsupported` if the trail does not have all rows of the moment. `usage` if the trail has no such moment.
  package init(folder: String, to moment: RestoreMoment, into target: DatabaseURL) throws {
    (self.folder, self.target) = (folder, target)
    let info = try Trail.info(folder: folder)
    trail = info.name
    try Self.checkIsEmpty(target)
    guard info.firstPosition.segment == 1 else {
      let since = info.segments.first.map { " of \(UTCTime($0.created))" } ?? ""
      throw CairnError(
        .trailPurged, "the beginning of trail \(info.name) is purged; it begins at \(info.firstPosition)\(since)",
        hint: "a restore needs the trail from its first copy on: set 'keep' in [trail.NAME] before the next one",
        remedy: .badInput, context: ["trail": info.name.description])
    }
    let plan: RestorePlan
    (plan, last) = try Self.read(folder, info, moment)
    next = plan.next
    for (table, copied) in plan.doubtful {
      progress.note(
        "table \(table) may lack changes: its copy of \(UTCTime(copied.commitTime)), in transaction \(copied.number), made up for lost ones; compare its rows before you use them"
      )
    }
  }

  private static func read(
    _ folder: String, _ info: TrailInfo, _ moment: RestoreMoment
  ) throws -> (plan: RestorePlan, last: RestorePlan.Transaction) {
    let reader = try TrailReader.open(folder: folder, at: nil)
    var plan = RestorePlan(moment)
    while let record = try reader.next(), plan.take(record, at: reader.position, { reader.schema($0) }) { Pulse.beat() }
    guard let last = plan.last else {
      let first = plan.next.map { ", which begins at \($0.begin), \(UTCTime($0.commitTime))" } ?? ", which is empty"
      throw CairnError(
        .usage, "the moment is before the first transaction of trail \(info.name)\(first)",
        hint: "name a later moment; 'cairn trail show' lists the transactions", remedy: .badInput)
    }
    try check(moment, plan, last, info)
    guard plan.feeders.isEmpty else {
      throw CairnError(
        .unsupported,
        "trail \(info.name) lacks rows of its database: those of \(plan.feeders.sorted().joined(separator: ", "))",
        hint: "restore each of these trails into a database of its own, or capture with applied = \"include\"",
        remedy: .badInput, context: ["trail": info.name.description])
    }
    guard plan.unfinished.isEmpty else {
      let tables = plan.unfinished.prefix(5).joined(separator: ", ") + (plan.unfinished.count > 5 ? ", …" : "")
      throw CairnError(
        .unsupported, "a copy of \(tables) had not ended at that moment, transaction \(last.number)",
        hint: plan.whole.map {
          "the last moment with all rows is after transaction \($0.number), \(UTCTime($0.commitTime))"
        }
          ?? "name a moment after the first copy",
        remedy: .badInput, context: ["trail": info.name.description])
    }
    while let record = try reader.next() {
      Pulse.beat()
      plan.takeLater(record, at: reader.position) { reader.schema($0) }
    }
    return (plan, last)
  }

  private static func check(
    _ moment: RestoreMoment, _ plan: RestorePlan, _ last: RestorePlan.Transaction, _ info: TrailInfo
  ) throws {
    let next = plan.next?.begin ?? info.end.position
    switch moment {
    case .time: return
    case .before(let number):
      guard number > last.number + 1 else { return }
      throw CairnError(
        .usage, "trail \(info.name) ends with transaction \(last.number)",
        hint: "name a transaction up to \(last.number + 1)", remedy: .badInput)
    case .position(let position):
      guard position != next else { return }
      throw CairnError(
        .usage, "no transaction of trail \(info.name) begins at \(position)",
        hint: "the nearest ones are \(last.begin) and \(next)", remedy: .badInput)
    }
  }

  private static func checkIsEmpty(_ target: DatabaseURL) throws {
    let found: String?
    switch target {
    case .sqlite(let path):
      try Folder.checkIsNotShared(onTheWayTo: path, "restored database")
      try SideFiles.checkAreMissing(beside: path, "restored database")
      found = Folder.hasEntry(path) ? "the file exists" : nil
    case .postgres(let uri):
      found = try PostgresConnection(uri).first(
        """
        SELECT c.oid::regclass::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
        WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') AND n.nspname !~ '^pg_' AND n.nspname <> 'information_schema'
          AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.classid = 'pg_class'::regclass AND d.objid = c.oid
            AND d.deptype = 'e')
        LIMIT 1
        """
      ).map { "it has \($0)" }
    }
    guard let found else { return }
    throw CairnError(
      .targetDiffers, "the database \(target.place) is not empty: \(found)",
      hint: "restore into a new file or a new database, and compare or move it then", remedy: .badInput)
  }

  // MARK: Applying

  /// Applies the trail up to the moment, and removes from the target what apply added.
  ///
  /// - Throws: The errors of apply. An SQLite file that is not complete stays beside the target until the next restore.
  package func run(stop: StopSignal) throws {
    var options = ApplyOptions()
    options.names = names
    options.ddl = .follow
    options.lastTransaction = last.number
    options.noteLeftOut = { [progress] in progress.note("table \($0.name) is left out: \($0.reason(""))") }
    let drain = StopSignal()
    drain.set()
    let place = unfinishedPath.map { DatabaseURL.sqlite(path: $0) } ?? target
    let unfinished = try unfinishedPath.map { try Self.takeOver($0) }
    defer { withExtendedLifetime(unfinished) {} }
    try ApplyRun(place, trail: trail, folder: folder, options: options)
      .run(stop: stop, drain: drain, progress: progress)
    if stop.isSet { return }
    _ = try Detaching.run(place)
    guard let unfinished, let path = unfinishedPath, case .sqlite(let end) = target else { return }
    do {
      let database = try Ends.open(path, mode: .readWrite, checksOwn: false)
      try database.execute("PRAGMA journal_mode = DELETE")
    }
    try unfinished.sync()
    try Self.checkIsEmpty(target)
    try Folder.rename(path, new: end)
    try Folder.sync(Folder.parent(of: end))
  }

  /// Creates a file for the rows, which only the present user may read until that user decides otherwise. Removes what
  /// an ended restore has left.
  private static func takeOver(_ path: String) throws -> File {
    let isBusy = CairnError(
      .busy, "another process restores into \(path)", hint: "wait until it has ended", remedy: .retry)
    do {
      if let left = FileIdentity(path: path, followsLink: false), left == FileIdentity(path: path) {
        // The lock is kept until the file is gone, so that no other restore takes it meanwhile.
        let file = try File(path, .readWrite)
        guard try file.tryLock(), try file.isInPlace else { throw isBusy }
        try withExtendedLifetime(file) { try Folder.remove(path) }
      } else if Folder.hasEntry(path) {
        try Folder.remove(path)
      }
      let file = try File(path, .create, permissions: 0o600)
      guard try file.tryLock() else { throw isBusy }
      try SideFiles.remove(beside: path)
      return file
    } catch let error as FileError where error.code == EEXIST {
      throw isBusy
    } catch let error as FileError {
      guard error.isMissing else { throw error.asCairnError(doing: "restore a database") }
      throw CairnError(
        .databaseMissing, "the folder of \(path) does not exist", hint: "create it, or correct --into",
        remedy: .badInput)
    }
  }
}
