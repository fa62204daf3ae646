import Changes
import Conflicts
import PostgresKit
import SQLiteKit
import Synchronization
import SystemKit
import Trails
import Versions

/// The state that all apply workers of a two-way database share.
/// Example: `TwoWay(own: (trail, folder), applied: [], captured: .init(), local: .stream(stream), rules: rules)`.
package final class TwoWay: Sendable {
  /// Returns the conflict rules of a table for changes of a trail. `table` is the table's plain name at the target.
  package typealias RuleBook =
    @Sendable (_ trail: TrailName, _ table: String, _ columns: [String]) throws -> ConflictRules

  /// The method by which apply finds commits of applications that this database's own trail does not have yet.
  package enum LocalCommits: Sendable {
    /// SQLite: passes the journal's rows after a source position to a function; returns false if they are too many.
    case journal(@Sendable (Database, [UInt8], (TableSchema, [Value]) throws -> Void) throws -> Bool)
    /// PostgreSQL: apply waits until capture has read everything that was committed before the wait began.
    case stream(CaptureStream)
  }

  package let own: TrailName
  /// The folders of this database's own trail and of the applied trails, by trail name.
  private let folders: [String: String]
  private let peers: [TrailName]
  /// The tables that each trail's apply writes, by trail name.
  private let admitted: [String: AdmittedTables]
  private let captured: TablePatterns
  private let copiesRows: Bool
  package let window: UnstableVersions
  let roots = TableRoots()
  /// The latest schema changes by which the applies of this database renamed or dropped tables or columns.
  let arrivedSteps = Mutex(ColumnSteps())
  let rules: RuleBook
  let local: LocalCommits
  let limits: Limits
  private let turn: ApplyTurn
  /// The lock that keeps apply from writing while capture reads rows for a refresh. Nil: no capture runs.
  private let turns: AlternatingLock?
  private let candidates = Mutex(true)
  private let waiting = Mutex<[NameKey: Int]>([:])
  private let decisions = Mutex(true)
  private let applied = Mutex<[String: UInt64]>([:])
  let held = Mutex(Holds())
  private let returned = Mutex(ReturnsFromWaiting())
  /// PostgreSQL: detects that only apply has committed since capture's last confirmation, so that apply need not wait.
  let quiet = Mutex(QuietServer())
  private let shapes = Mutex(0)
  private let isPrepared = Mutex(false)
  private let isSpoilt = Mutex(false)
  private let isRetired = Mutex(false)

  /// Creates the state that all apply workers of one two-way database share.
  ///
  /// - Parameter captured: The tables captured into this database's trail.
  /// - Parameter before: The former state. An apply that still uses the former state gets the error `busy`.
  package init(
    own: (name: TrailName, folder: String), applied: [(name: TrailName, folder: String, tables: AdmittedTables)],
    captured: TablePatterns,
    copiesRows: Bool = false, local: LocalCommits, turns: AlternatingLock? = nil,
    limits: Limits = Limits(), after before: TwoWay? = nil, rules: @escaping RuleBook
  ) {
    self.own = own.name
    let places = [own] + applied.map { (name: $0.name, folder: $0.folder) }
    folders = Dictionary(places.map { ($0.name.description, $0.folder) }) { first, _ in first }
    admitted = Dictionary(applied.map { ($0.name.description, $0.tables) }) { first, _ in first }
    peers = applied.map(\.name)
    (self.captured, self.copiesRows) = (captured, copiesRows)
    window = UnstableVersions(own: own.name, ownFolder: own.folder)
    for trail in applied { window.addPeer(trail.name, folder: trail.folder) }
    (self.local, self.turns, self.limits, self.rules) = (local, turns, limits, rules)
    turn = before?.turn ?? ApplyTurn()
    before?.isRetired.withLock { $0 = true }
  }

  func captures(_ namespace: String, _ name: String) -> Bool {
    namespace.isEmpty ? captured.includes(name) : captured.includes(namespace: namespace, name: name)
  }

  /// Returns whether a table may have rows that no refresh has put into this database's trail yet.
  func isToBeCopied(_ table: String) -> Bool { copiesRows && !window.isWhole(table) }

  /// Returns the filter for the rows that the apply of a trail writes here; nil for this database's own trail.
  func admittedRows(of origin: String) -> AdmittedRows? {
    if origin.hasSameBytes(as: own.description) { return nil }
    return AdmittedRows(admitted[origin], in: engine)
  }

  func folder(of origin: String) throws -> String {
    if let folder = folders[origin] { return folder }
    throw CairnError(
      .trailMissing, "a version of a row is in trail \(origin), which is not applied here",
      hint: "put the [apply.NAME] of that trail back into the conf: a row that both ends wrote needs all trails")
  }

  /// Whether the shared state can be used. False after an error that may have left the version window incomplete.
  package var isSound: Bool {
    guard isSpoilt.withLock({ !$0 }) else { return false }
    return (try? window.check()) != nil
  }

  func note(_ error: any Error) {
    guard let error = error as? CairnError else { return }
    let doubtful: [ErrorCode] = [
      .diskFull, .ioFailed, .databaseFull, .databaseFailed, .databaseDamaged, .trailDamaged, .checkpointForeign, .bug,
    ]
    if doubtful.contains(error.code) { isSpoilt.withLock { $0 = true } }
  }

  func check(_ trail: TrailName, _ id: TrailID) throws { try window.identify(trail, id) }

  /// Reads the trails into the version window. Only the first successful call does anything.
  ///
  /// - Parameter hasUniqueValues: Returns whether a table has unique values besides its key.
  /// - Parameter reach: Returns how far a trail has been applied.
  func prepare(
    _ names: RowNames, hasUniqueValues: () throws -> Bool, candidates: () throws -> [NameKey: Int],
    returned: () throws -> [StoredReturns.Entry], reach: (TrailName) throws -> Reach
  ) throws {
    try isPrepared.withLock { isPrepared in
      if isPrepared { return }
      names.roots = roots
      // Commits of applies with the former state are read below: none of them holds the lock now, or can take it again.
      while !turn.take() {
        Pulse.beat()
        Clock.sleep(milliseconds: 1)
      }
      defer { turn.end() }
      if try hasUniqueValues() { window.keepLasts() }
      note(waiting: try candidates())
      // The ids come first, as the versions that are read next name the trails that their authors knew.
      let ids = trailIDs()
      for (trail, id) in ids { try window.identify(trail, id) }
      // The missing rows of suspended tables must be known before the first trail is read. Those of a former trail
      // with that name do not count.
      let reached = try peers.map { trail in
        let reach = try reach(trail)
        let isOther = reach.id.flatMap { known in ids[trail].map { $0 != known } } ?? false
        return (trail: trail, reach: isOther ? Reach() : reach)
      }
      for (trail, reach) in reached { note(reach, of: trail) }
      func readPeers(again: Bool) throws {
        for (trail, reach) in reached {
          let admitted = admittedRows(of: trail.description)
          try window.read(trail, through: reach.number, again: again, skips: { self.lacks($0, $1, reach) }) {
            admitted?.includes($0) == false ? [] : try names.namesAndReferences($0, $1, from: admitted)
          }
        }
      }
      try readPeers(again: false)
      for (trail, reach) in reached { note(applied: reach.number, of: trail) }
      if try readsOwn {
        // Only this database's trail shows which tables were renamed here: changes of other trails were perhaps never
        // made. Rows that were read under a former name are named again.
        let count = roots.count
        try window.catchUp(rowNames: { try names.namesAndReferences($0, $1, from: nil) }, learn: names.learn)
        if roots.count != count { try readPeers(again: true) }
      } else {
        try window.putOffCatchUp()
      }
      let entries = try returned()
      self.returned.withLock { $0.load(entries, ids, own: own, reached: window.ownReach.number) }
      isPrepared = true
    }
  }

  /// Returns the ids of the trails that exist. Leaves out a trail that cannot be read, as its apply reports the error.
  private func trailIDs() -> [TrailName: TrailID] {
    var ids: [TrailName: TrailID] = [:]
    for trail in [own] + peers {
      if let folder = folders[trail.description], let id = try? Trail.id(folder: folder) { ids[trail] = id }
    }
    return ids
  }

  /// Whether apply must read this database's own trail when it starts, and at the begin of each group.
  var readsOwn: Bool {
    get throws { try !window.isOwnOnly || window.keepsLasts || mayHaveCandidates || window.hasMuchUnread }
  }

  // MARK: One apply decides at a time

  /// Takes the lock under which only one apply of the database at a time writes a group.
  ///
  /// Returns false if `stop` was set first.
  func enter(_ stop: StopSignal) throws -> Bool {
    while !stop.isSet {
      try window.check()
      if !isSound {
        throw CairnError(
          .ioFailed, "another apply to the same database could not read what both ends wrote",
          hint: "see the error of that apply; this one starts again", remedy: .retry)
      }
      if turn.take() {
        if !isRetired.withLock({ $0 }) {
          if turns?.tryLock(.writer) ?? true { return true }
          turn.end()
          Pulse.beat()
          Clock.sleep(milliseconds: 1)
          continue
        }
        turn.end()
        throw CairnError(
          .busy, "the applies to this database were changed by a reload while this one ran",
          hint: "nothing to do: all applies to this database start again", remedy: .retry)
      }
      Pulse.beat()
      Clock.sleep(milliseconds: 1)
    }
    return false
  }

  func leave() {
    turns?.unlock(.writer)
    turn.end()
  }

  /// Runs `body` while the apply has the turn to write; returns nil if `stop` was set first.
  ///
  /// `body` must not wait, because all apply workers of the database wait for the turn.
  func inTurn<T>(_ stop: StopSignal, _ body: () throws -> T) throws -> T? {
    guard try enter(stop) else { return nil }
    defer { leave() }
    return try body()
  }

  /// Repeats `attempt` until it returns true; returns false if `stop` was set first.
  ///
  /// In two-way replication, each attempt needs the turn to write. An attempt may set a function that waits after the
  /// turn.
  static func retryInTurns(
    _ shared: TwoWay?, _ stop: StopSignal, _ attempt: (inout (() throws -> Void)?) throws -> Bool
  ) throws -> Bool {
    while !stop.isSet {
      var wait: (() throws -> Void)?
      let isDone: Bool?
      if let shared { isDone = try shared.inTurn(stop) { try attempt(&wait) } } else { isDone = try attempt(&wait) }
      guard let isDone else { return false }
      if isDone { return true }
      try wait?()
    }
    return false
  }

  /// Waits without a lock: until capture has read the commits of applications (PostgreSQL), or 2 to 512 ms (SQLite).
  ///
  /// - Parameter count: The number of waits since apply's last commit.
  func waitForCapture(_ stop: StopSignal, _ count: Int) throws {
    switch local {
    case .stream(let stream): _ = try stream.pass(stop, false)
    case .journal: _ = stop.wait(milliseconds: Int32(2 << min(count, 8)))
    }
  }

  /// Returns whether an error says that a row differs from the trail. The row must then be resolved from its versions.
  static func isOfRow(_ error: CairnError) -> Bool { [.rowMissing, .rowDiffers, .rowExists].contains(error.code) }

  /// Whether there may be waiting rows. Used only by the apply that has the turn to write.
  var mayHaveCandidates: Bool {
    get { candidates.withLock { $0 } }
    set { candidates.withLock { $0 = newValue } }
  }

  package var waitingRows: [NameKey: Int] { waiting.withLock { $0 } }

  /// Stores the number of waiting rows by table. Called only by the apply that has the turn to write.
  func note(waiting counts: [NameKey: Int]) {
    waiting.withLock { $0 = counts }
    mayHaveCandidates = !counts.isEmpty
  }

  /// Whether there may be open decisions, which this node still has to write.
  var mayHaveDecisions: Bool {
    get { decisions.withLock { $0 } }
    set { decisions.withLock { $0 = newValue } }
  }

  /// The number of schema changes that all apply workers of this database have made since this object was created.
  var shapeCount: Int { shapes.withLock { $0 } }
  func noteShapes() { shapes.withLock { $0 += 1 } }

  // MARK: What has been applied

  func note(arrived steps: [ColumnStep]) {
    guard !steps.isEmpty else { return }
    arrivedSteps.withLock { $0.take(steps) }
  }

  /// Returns whether an apply made a schema change at the source from a trail that this database has too.
  func isEcho(_ ddl: DDL) -> Bool { isApplied(ddl.applied) }

  func isApplied(_ trail: String) -> Bool { folders[trail] != nil }

  /// The number of the last transaction of each trail that was applied to this database, by trail name.
  var appliedNumbers: [String: UInt64] { applied.withLock { $0 } }

  func note(applied number: UInt64, of trail: TrailName) {
    applied.withLock { $0[trail.description] = number }
  }

  /// Stores that the target may lack changes of a trail after transaction `number`; nil: it lacks none.
  func hold(_ trail: TrailName, through number: UInt64?) {
    window.hold(trail, through: number)
    held.withLock { $0.hold(trail, through: number) }
  }

  /// Returns whether a transaction's author knew changes that the target lacks.
  ///
  /// - Parameter seen: The last transaction of each trail that the author knew.
  func knowsHeld(_ seen: [String: UInt64]) -> Bool {
    held.withLock { held in seen.contains { held.isHeld($0.key, before: $0.value) } }
  }

  /// Notes that a waiting row is back in its table, since transaction `number` of a trail.
  ///
  /// - Returns: The entries to store in the target.
  func noteReturn(of row: ContestedRow, by trail: TrailName, _ number: UInt64) -> [StoredReturns.Entry] {
    var known = appliedNumbers
    known[trail.description] = max(number, known[trail.description] ?? 0)
    let isFull = returned.withLock { $0.note(row.keyed, behind: known) }
    var ids: [TrailID: UInt64] = [:]
    for (trail, number) in known { window.id(of: trail).map { ids[$0] = number } }
    let entry = StoredReturns.Entry(row: row, known: ids)
    return isFull ? [.init(row: nil, known: ids), entry] : [entry]
  }

  /// Notes that the version window has read everything that applications have committed so far in this database.
  ///
  /// - Returns: The transaction number to store with rows that came back before; nil if there is nothing to store.
  func noteCaptured() -> UInt64? {
    let reached = window.ownReach.number
    return returned.withLock { list in
      defer { list.noteCaptured(own.description, through: reached) }
      return list.hasOpen ? reached + 1 : nil
    }
  }

  /// Returns whether a row that is back in its table here may still be a waiting row at a node.
  ///
  /// - Parameter seen: The last transaction of each trail that the node knew.
  func mayWait(_ row: KeyedRow, at author: TrailName, seen: [String: UInt64]) -> Bool {
    returned.withLock { $0.mayWait(row, at: author.description, seen: seen) }
  }

  /// Returns whether a transaction's author knew changes of an applied trail that have not arrived here.
  ///
  /// - Parameter seen: The last transaction of each trail that the author knew.
  func isAhead(_ header: TransactionHeader, seen: [String: UInt64]) -> Bool {
    applied.withLock { applied in
      header.dependencies.contains { known in
        applied[known.origin].map { $0 < seen[known.origin] ?? .max } ?? false
      }
    }
  }
}

/// A lock that lets only one apply worker of a database at a time write a group.
final class ApplyTurn: Sendable {
  private let isTaken = Mutex(false)

  func take() -> Bool {
    isTaken.withLock { isTaken in
      defer { isTaken = true }
      return !isTaken
    }
  }

  func end() { isTaken.withLock { $0 = false } }
}

/// The result of an apply's attempt to write a group in its turn.
enum TurnEnd {
  /// The apply need not wait. The value is false if no transaction was available.
  case moved(Bool)
  /// The apply must wait until the clock of this transaction is no longer too far ahead.
  case heldBack(TransactionHeader)
  /// The apply must wait until capture has read commits of applications that wrote rows of the group.
  case overtaken
}

/// The error if an application has committed a change of a group's row that this database's trail lacks.
///
/// The group is rolled back, and applied again after capture has read the commit.
struct LocalAhead: Error {}
