import Applying
import Capturing
import Changes
import Glibc
import SQLiteKit
import Synchronization
import SystemKit
import Trails

/// One-way replication from one SQLite file to another: a capture and an apply, each on a thread of its own, which
/// meet only in the trail.
package final class Replication: Sendable {
  package struct Options: Sendable {
    package var tables = TablePatterns()
    package var state: String?
    package var existing: ExistingRows?
    package var once = false
    package var journalRows = Journal.defaultCapRows
    package init() {}
  }

  package let source: String
  package let target: String
  package let statePath: String
  package let trail: TrailName
  package let captureProgress: CaptureProgress
  package let applyProgress = ApplyProgress()
  private let options: Options
  private let stopSignal = StopSignal()
  private let drainSignal = StopSignal()
  private let readySignal = StopSignal()
  private let failure = Mutex<CairnError?>(nil)
  private let running = Atomic<Int>(2)

  package init(
    from: DatabaseURL, to: DatabaseURL, options: Options,
    notice: @escaping @Sendable (CaptureProgress.Notice) -> Void
  ) throws {
    source = FileIdentity.canonical(try from.sqlitePath())
    target = FileIdentity.canonical(try to.sqlitePath())
    self.options = options
    let state = options.state.map { $0.hasPrefix("/") ? $0 : FileIdentity.canonical("./" + $0) }
    statePath = state ?? StateFolder.defaultPath(from: source, to: target)
    trail = TrailName(origin: "local", name: StateFolder.sanitized(Folder.lastName(of: source)))
    captureProgress = CaptureProgress(notice: notice)
  }

  private var folder: String { statePath + "/" + trail.description }

  // MARK: Before anything is written

  /// Looks at both ends and at the state. Keep what it returns as long as the replication runs: it holds the lock.
  package func prepare() throws -> StateFolder {
    let (from, to) = try openEnds()
    let state = try StateFolder(statePath, from: source, to: target)
    if let to {
      if try Journal(to).owner() != nil {
        captureProgress.tell("the target is captured itself; rows that are applied to it do not go into that trail")
      }
      let known = try TargetState(to).checkpoint(of: trail)?.checkpoint.trail
      var hasCheckpoint = known != nil
      if let known, try !Folder.exists(folder) || Trail.info(folder: folder).id != known {
        // The target was fed from a trail that this state does not have.
        guard options.existing != nil else {
          throw CairnError(
            .checkpointForeign, "the target \(target) was fed from a trail \(trail) that is not in \(statePath)",
            hint: "use the --state of that replication, or copy everything again with --existing overwrite")
        }
        try TargetState(to).forgetCheckpoint(of: trail)
        hasCheckpoint = false
      }
      if !hasCheckpoint, options.existing == nil {
        try ExistingCheck(source: from, target: to, patterns: options.tables).run()
      }
      if hasCheckpoint, options.existing == .overwrite { try copyAgain(from, to) }
    }
    return state
  }

  /// Proves both ends, and that the target holds nothing else; writes nothing.
  package func checkTarget(_ patterns: TablePatterns) throws {
    let (from, to) = try openEnds()
    guard let to, try TargetState(to).checkpoint(of: trail) == nil else { return }
    try ExistingCheck(source: from, target: to, patterns: patterns).run()
  }

  private func openEnds() throws -> (Database, Database?) {
    let from = try Ends.open(source, mode: .readWrite)
    try Ends.checkTarget(target)
    guard FileIdentity(path: source) != FileIdentity(path: target), source != target else {
      throw CairnError(
        .sameDatabase, "source and target are the same database, \(source)", hint: "name another file behind --to",
        remedy: .badInput)
    }
    return (from, FileIdentity(path: target) == nil ? nil : try Ends.open(target, mode: .readWrite))
  }

  /// `--existing overwrite` for a replication that has begun: everything is copied once more.
  private func copyAgain(_ from: Database, _ to: Database) throws {
    try Journal(from).askForRefresh()
    try TargetState(to).expectRefreshOfAll()
  }

  // MARK: Running

  /// Starts both workers and returns at once. `changed` is called, on their threads, when one of them has ended.
  package func start(ended: @escaping @Sendable () -> Void) -> [WorkerThread<Void>] {
    [
      WorkerThread({ self.work { try self.capture() } }, finished: { self.end(ended) }),
      WorkerThread({ self.work { try self.apply() } }, finished: { self.end(ended) }),
    ]
  }

  package var isRunning: Bool { running.load(ordering: .acquiring) > 0 }
  package var error: CairnError? { failure.withLock { $0 } }

  /// Ends both at the next transaction border.
  package func stop() {
    stopSignal.set()
    // Apply waits for this one.
    drainSignal.set()
  }

  private func end(_ ended: @Sendable () -> Void) {
    running.subtract(1, ordering: .acquiringAndReleasing)
    ended()
  }

  private func work(_ body: () throws -> Void) {
    do { try body() } catch {
      let envelope =
        (error as? CairnError) ?? (error as? SQLiteError)?.asCairnError
        ?? (error as? FileError)?.asCairnError(doing: "replicate")
        ?? CairnError(.bug, "unexpected: \(error)", hint: "please report this", remedy: .bug)
      failure.withLock { $0 = $0 ?? envelope }
      stop()
    }
  }

  private func capture() throws {
    defer {
      drainSignal.set()
      readySignal.set()
    }
    let clock = Clock.system
    let writer = try TrailWriter.open(folder: folder, name: trail, now: { clock.microseconds() })
    if let cut = writer.recovery {
      captureProgress.tell("cut \(cut.bytes) bytes of an unfinished transaction off the trail at \(cut.position)")
    }
    var options = SQLiteCapture.Options()
    options.tables = self.options.tables
    options.journalCapRows = self.options.journalRows
    options.place = statePath
    do {
      let capture = try SQLiteCapture(
        path: source, trail: writer, options: options, clock: clock, progress: captureProgress)
      readySignal.set()
      try capture.run(stop: stopSignal, untilCaughtUp: self.options.once)
    } catch {
      try? writer.close()
      throw error
    }
    try writer.close()
  }

  private func apply() throws {
    while !readySignal.isSet { _ = readySignal.wait(milliseconds: 1000) }
    if stopSignal.isSet { return }
    var options = SQLiteApply.Options()
    options.existing = self.options.existing ?? .overwrite
    options.purgesTrail = true
    let apply = try SQLiteApply(
      path: target, trail: folder, name: trail, options: options, progress: applyProgress)
    try apply.run(stop: stopSignal, drain: drainSignal)
  }
}

/// Opens ends so that what is wrong with them is said in one line, before anything is written.
package enum Ends {
  /// Proves that the file is there, is a database, and can be written where `mode` asks for it.
  package static func open(_ path: String, mode: Database.Mode) throws -> Database {
    guard FileIdentity(path: path) != nil else {
      throw CairnError(
        .databaseMissing, "there is no database \(path)", hint: "check the path; a source must exist", remedy: .badInput
      )
    }
    do {
      let database = try Database(path: path, mode: mode)
      _ = try database.integer("SELECT count(*) FROM sqlite_master")
      if mode == .readWrite {
        guard access(path, W_OK) == 0, access(Folder.parent(of: path), W_OK) == 0 else { throw readOnly(path) }
        try database.execute("BEGIN IMMEDIATE; ROLLBACK")
      }
      return database
    } catch let error as SQLiteError {
      if error.primary == 14, access(path, R_OK) != 0 { throw readOnly(path) }
      throw error.asCairnError
    }
  }

  /// A target may be missing, its folder may not.
  package static func checkTarget(_ path: String) throws {
    if FileIdentity(path: path) != nil {
      if Folder.isFolder(path) {
        throw CairnError(
          .databaseNotADatabase, "\(path) is a folder", hint: "name the database file", remedy: .badInput)
      }
      return
    }
    let parent = Folder.parent(of: path)
    guard Folder.isFolder(parent) else {
      throw CairnError(
        .databaseMissing, "the folder of the target does not exist: \(parent)", hint: "create it first",
        remedy: .badInput)
    }
    guard access(parent, W_OK) == 0 else { throw readOnly(path) }
  }

  private static func readOnly(_ path: String) -> CairnError {
    CairnError(
      .databaseReadOnly, "database \(path) cannot be written by this user",
      hint: "give this user write access to the file and to its folder (for -wal and -shm)")
  }
}
