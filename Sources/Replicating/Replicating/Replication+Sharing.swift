import Applying
import Capturing
import Changes
import Endpoints
import SQLiteKit
import Synchronization
import SystemKit
import Trails

// Several replications from one SQLite file share one capture and its trail (docs/decisions/0043). The replication that
// gets the lock of the trail's writer captures the file. The others read the trail, and try regularly to get the lock.
extension Replication {
  /// Returns the notices about the two databases that an operator gets at each start.
  static func notices(_ source: DatabaseURL, _ target: DatabaseURL, _ options: Options) -> [String] {
    let captured = options.isTwoWay ? [source, target] : [source]
    let isUnaudited = options.auditBytesPerSecond == nil && captured.contains { $0.engine == .sqlite }
    return [source, target].compactMap(\.trustNotice) + (isUnaudited ? [SQLiteCapture.unseenNotice] : [])
  }

  private static let pollMilliseconds: Int32 = 250
  /// The interval, in milliseconds, at which the list of the trail's readers is read again even if it seems unchanged.
  private static let listMilliseconds: Int64 = 30_000

  // MARK: Before anything is written

  /// Finds the trail of another replication that already captures the source.
  ///
  /// - Parameter freesWrites: Whether to remove triggers that refuse writes, because an application dropped their tables.
  /// - Throws: `source-captured` if that trail cannot be shared.
  func findCapture(_ from: SourceDatabase, freesWrites: Bool = false) throws {
    if freesWrites, case .sqlite(let database) = from.handle {
      try Journal(database).checkTables(isStarting: true)
    }
    guard case .sqlite(let database) = from.handle, let owner = try Journal(database).owner(),
      !owner.place.hasSameBytes(as: statePath)
    else { return }
    // The trail may belong to a replication between the same databases whose state has another name; capture checks
    // that.
    guard options.joinsCapture else { return }
    guard back == nil else {
      throw CairnError(
        .sourceCaptured,
        "\(source.place) is already captured for another replication, whose state is in \(owner.place), and --two-way does not share its capture",
        hint:
          "end that replication first: 'cairn detach \(source.shown)'; or run cairnd with a capture of each database"
      )
    }
    let found = try CaptureHome(joining: owner.place, trail: owner.trail, of: source)
    home.withLock { $0 = found }
  }

  /// Adds this replication to the list of the trail's readers. Returns true if it was not in the list before.
  func enroll(_ to: TargetDatabase) throws -> Bool {
    guard let readers else { return try checkIsAlone() }
    let others = try readers.others(than: statePath)
    let relays = relays.load(ordering: .acquiring)
    if let other = others.first(where: { $0.relays.map { $0 != relays } ?? false }) {
      throw CairnError(
        .sourceCaptured,
        "\(source.place) is captured for \(other.target) too, and only one of the two targets also sends its rows back to the source, so they need different trails",
        hint: "run one cairnd node for each target", remedy: .badInput)
    }
    if !others.isEmpty {
      captureProgress.tell("trail \(readers.home.trail) in \(readers.home.place) is also read for \(Self.list(others))")
    }
    var reader = TrailReaders.Reader(state: statePath, target: target.place)
    (reader.tables, reader.relays) = (options.tables, relays)
    // A target that was created again, or restored from a backup, needs more of the trail than before.
    let known = try to.checkpoint(of: readers.home.trail)
    reader.segment = known.map(\.position.segment) ?? 0
    return try readers.enroll(reader)
  }

  /// Throws `source-captured` if another replication reads the trail of the SQLite source. Two-way replication needs a
  /// trail of its own.
  /// - Returns: Always false.
  private func checkIsAlone() throws -> Bool {
    guard source.engine == .sqlite else { return false }
    let readers = TrailReaders(home.withLock { $0 }, source: source.place)
    guard let other = try readers.others(than: statePath).first else { return false }
    throw CairnError(
      .sourceCaptured,
      "\(source.place) is captured for \(other.target) too, and --two-way does not share its capture",
      hint:
        "end the other replication with 'cairn detach --reader \(other.target.shellWord) --state \(statePath.shellWord)', or leave --two-way out",
      remedy: .badInput)
  }

  private static func list(_ readers: [TrailReaders.Reader]) -> String {
    readers.map(\.target).joined(separator: ", ")
  }

  /// Requests a refresh of the tables that `--tables` has added since the last run, because this target lacks their
  /// rows.
  func askForAdded(_ from: SourceDatabase, _ to: TargetDatabase, _ info: TrailInfo, before: TablePatterns?) throws {
    guard let readers, case .sqlite(let database) = from.handle, let before, !before.covers(options.tables) else {
      return
    }
    let added = try Journal(database).orphans().filter { options.tables.includes($0) && !before.includes($0) }
    guard !added.isEmpty else { return }
    // The target's rows of a table that was replicated before and then left out are outdated. No change fits them
    // before the next copy.
    let known = Set(try to.tableNames(of: trail).map(\.sqliteKey))
    let isOld = added.contains { known.contains($0.sqliteKey) }
    let areNames = added.allSatisfy { name in !name.utf8.contains { ",*?!\n".utf8.contains($0) } }
    try readers.ask(isOld || !areNames ? options.tables : TablePatterns(added), for: statePath)
    // Note the position too, so that `--existing` still decides about rows that the target held before.
    let asked = CopyRequest.Asked(info)
    try request.note(asked, of: info.id)
    self.asked.withLock { $0 = asked }
    if isOld { copiesAgain.store(true, ordering: .releasing) }
  }

  // MARK: Capture

  /// Whether this replication ended because another one began to capture the source after ``prepare()``. If started
  /// again, it can join that capture.
  package var mayJoin: Bool { joinable.load(ordering: .acquiring) }

  /// Captures the source whenever no other process captures it, until the replication is stopped. With `--once`,
  /// returns when the trail has everything that was committed before the call.
  func capture(_ run: CaptureRun, _ readers: TrailReaders) throws {
    let journal = Journal(try Ends.open(sourcePath, mode: .readOnly))
    let last = try journal.owner() == nil ? 0 : journal.lastRow()
    var isReading = false
    var toldAt: Int64?
    while !stopSignal.isSet {
      if toldAt.map({ Clock.monotonicMilliseconds - $0 > 3_600_000 }) ?? true {
        toldAt = Clock.monotonicMilliseconds
        tellIdle(readers)
      }
      do {
        if try host(run, readers) { return }
        isReading = false
        continue
      } catch let error as CairnError where error.code == .trailBusy && Trail.exists(folder: folder) {
      } catch let error as CairnError where error.code == .sourceCaptured && options.joinsCapture {
        joinable.store(true, ordering: .releasing)
        // Apply must not begin with the trail of this replication, which stays empty.
        stop()
        throw error
      }
      if !isReading {
        isReading = true
        captureProgress.tell("another cairn captures \(source.place) into trail \(trail): this one reads it")
        readySignal.set()
      }
      readers.touch(statePath)
      // Read in this order: once a request is settled, the journal shows that its copy is still to be made.
      let isRequesting = try readers.hasRequest(of: statePath)
      if try isReached(journal, last), options.once, !isRequesting { return try endOnce() }
      _ = stopSignal.wait(milliseconds: Self.pollMilliseconds)
    }
  }

  /// Returns whether the trail has all journal rows up to `last`, and no table of this replication waits for a refresh.
  private func isReached(_ journal: Journal, _ last: Int64) throws -> Bool {
    do {
      let standing = try journal.standing(of: options.tables, through: last)
      captureProgress.noteStanding(tablesToCopy: standing.tablesToCopy, isCaughtUp: standing.isReached)
      return standing.isReached
    } catch let error as SQLiteError where error.isBusy { return false }
  }

  private var sourcePath: String { if case .sqlite(let path) = source { path } else { "" } }

  /// Captures the source until the replication ends. Returns false if capture must start again, because a reader of the
  /// trail now needs other tables, or has requested a refresh.
  /// - Throws: `trail-busy` if another process captures the source.
  private func host(_ run: CaptureRun, _ readers: TrailReaders) throws -> Bool {
    let turn = StopSignal()
    self.turn.withLock { $0 = turn }
    defer { self.turn.withLock { $0 = nil } }
    if stopSignal.isSet { return true }
    let taken = Mutex<(names: [String], tables: TablePatterns)>(([], options.tables))
    var run = run
    run.begin = { [source, options] in
      let requests = try readers.requests()
      for request in requests { try SourceDatabase(source).askForRefresh(of: request.tables) }
      let tables = TablePatterns(anyOf: [options.tables] + (try readers.all().map(\.tables)))
      taken.withLock { $0 = (requests.map(\.name), tables) }
      return tables
    }
    let ended = StopSignal()
    var watch: WorkerThread<Void>?
    var failure: CairnError?
    defer {
      ended.set()
      _ = watch?.join()
    }
    try run.run(stop: turn, untilCaughtUp: options.once, progress: captureProgress) {
      RelayedRows.note(run.relays, in: folder)
      let (names, tables) = taken.withLock { $0 }
      readers.settle(names)
      readySignal.set()
      do throws(CairnError) {
        watch = try WorkerThread { [self] in
          var seen: (stamp: FileStamp?, at: Int64) = (nil, 0)
          while !ended.wait(milliseconds: Self.pollMilliseconds) {
            let now = (stamp: readers.stamp, at: Clock.monotonicMilliseconds)
            if now.stamp == seen.stamp, now.at - seen.at < Self.listMilliseconds { continue }
            seen = now
            readers.touch(statePath)
            if !needsSame(readers, tables) { return turn.set() }
          }
        }
      } catch {
        // Without this thread, new readers of the trail would wait for their tables.
        failure = error
        turn.set()
      }
    }
    if let failure { throw failure }
    return stopSignal.isSet || !turn.isSet
  }

  /// Returns whether the readers together still need exactly the captured tables, and none has requested a refresh.
  /// Returns true if the list of readers cannot be read.
  private func needsSame(_ readers: TrailReaders, _ tables: TablePatterns) -> Bool {
    do {
      let now = TablePatterns(anyOf: [options.tables] + (try readers.all().map(\.tables)))
      return try now == tables && readers.requests().isEmpty
    } catch { return true }
  }

  /// Ends the replication when apply has reached the present end of the trail.
  private func endOnce() throws {
    let end = try Trail.info(folder: folder).end.position
    drainSignal.set()
    var reachedAt: Int64?
    while applying.load(ordering: .acquiring) > 0, !stopSignal.wait(milliseconds: 50) {
      guard applyProgress.snapshot.position >= end else { continue }
      let since = reachedAt ?? Clock.monotonicMilliseconds
      reachedAt = since
      if Clock.monotonicMilliseconds - since > 5000 { stopSignal.set() }
    }
  }

  private func tellIdle(_ readers: TrailReaders) {
    guard let info = try? Trail.info(folder: folder), let others = try? readers.others(than: statePath) else { return }
    for other in others {
      if let text = readers.notice(of: other, info, now: Clock.system.microseconds()) { captureProgress.tell(text) }
    }
  }

  // MARK: Apply

  func share(_ options: inout ApplyOptions, with readers: TrailReaders) {
    options.sourceTables = self.options.tables
    options.othersAskForCopies = { [statePath] in (try? !readers.others(than: statePath).isEmpty) ?? true }
    let book = Mutex<(noted: UInt64, lookedFor: UInt64, lookedAt: Int64)>((0, 0, 0))
    options.noteNeeded = { [statePath] position in
      try book.withLock { book in
        guard position.segment > book.noted else { return }
        try readers.note(position.segment, of: statePath)
        book.noted = position.segment
      }
    }
    options.alsoNeeded = { [statePath] in
      try book.withLock { book in
        // Apply asks after each commit, and deletes nothing unless the list has just been read.
        let now = Clock.monotonicMilliseconds
        if book.noted == book.lookedFor, now - book.lookedAt < 1000 { return Position(segment: 0, offset: 0) }
        (book.lookedFor, book.lookedAt) = (book.noted, now)
        return try readers.needs(besides: statePath)
      }
    }
  }
}
