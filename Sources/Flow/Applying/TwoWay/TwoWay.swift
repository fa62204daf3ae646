import Changes
import Conflicts
import PostgresKit
import SQLiteKit
import Synchronization
import SystemKit
import Trails
import Versions

/// The state that all applies of one database share, if the database is captured too and replication is two-way.
package final class TwoWay: Sendable {
  /// Returns the rules for conflicts that a trail brings to a table of the target. The table is given by its plain
  /// name, with its columns in their order.
  package typealias RuleBook =
    @Sendable (_ trail: TrailName, _ table: String, _ columns: [String]) throws -> ConflictRules

  /// The way to find local commits that the own trail does not hold yet.
  package enum LocalCommits: Sendable {
    /// SQLite: shows the journal's rows after a source position of the own trail, in apply's transaction. False: there
    /// are too many of them to look at.
    case journal(@Sendable (Database, [UInt8], (TableSchema, [Value]) throws -> Void) throws -> Bool)
    /// PostgreSQL: waits until capture has passed all commits.
    case stream(CaptureStream)
  }

  /// The trail into which the database is captured.
  package let own: TrailName
  /// The folders of the own trail and of the applied trails, by the name of the trail.
  private let folders: [String: String]
  private let peers: [TrailName]
  /// The tables that each apply takes, by its trail. Rows of other tables are no versions of rows here.
  private let admitted: [String: AdmittedTables]
  private let captured: TablePatterns
  /// Whether rows that tables held before they were captured are copied into the own trail.
  private let copiesRows: Bool
  package let window: VersionWindow
  /// The first names of tables that were renamed.
  let roots = TableRoots()
  /// The last changes made here by applies that took the name of a table or column away.
  let arrivedSteps = Mutex(ColumnSteps())
  let rules: RuleBook
  let local: LocalCommits
  /// The lead that a peer's clock may have over ours, in µs.
  let skewMicrosecondsMax: Int64
  /// The memory for rows that are settled when their transaction ends, in bytes; above that, they go to a temporary
  /// file.
  let deferredBytesMax: Int
  /// The most bytes of one trail's rows that wait for unique values. Each judgement reads these rows, in the target's
  /// transaction.
  let waitingBytesMax: Int64
  /// The most bytes of all rows that wait for unique values.
  var allWaitingBytesMax: Int64 { waitingBytesMax * Int64(folders.count) }
  private let turn: ApplyTurn
  /// The lock that keeps applies from writing while capture reads rows for a copy. Applies take it as the writer. Nil
  /// if the database is not captured meanwhile.
  private let turns: AlternatingLock?
  private let candidates = Mutex(true)
  private let waiting = Mutex<[String: Int]>([:])
  private let decisions = Mutex(true)
  private let applied = Mutex<[String: UInt64]>([:])
  private let held = Mutex<[String: UInt64]>([:])
  private let returned = Mutex(ReturnsFromWaiting())
  /// The detection that no application has committed, for PostgreSQL.
  let quiet = Mutex(QuietServer())
  private let shapes = Mutex(0)
  private let isPrepared = Mutex(false)
  private let isSpoilt = Mutex(false)
  private let isRetired = Mutex(false)

  /// Makes the shared state. `captured`: the tables captured into the own trail; `copiesRows`: with the rows that they
  /// held. `before`: the state that the applies shared until now. It is retired: an apply that still has it gets no
  /// turn any more, and the new state knows what that apply has committed.
  package init(
    own: (name: TrailName, folder: String), applied: [(name: TrailName, folder: String, tables: AdmittedTables)],
    captured: TablePatterns,
    copiesRows: Bool = false, local: LocalCommits, turns: AlternatingLock? = nil,
    skewMicrosecondsMax: Int64 = 60_000_000, deferredBytesMax: Int = 16 << 20, waitingBytesMax: Int64 = 64 << 20,
    after before: TwoWay? = nil, rules: @escaping RuleBook
  ) {
    self.own = own.name
    let places = [own] + applied.map { (name: $0.name, folder: $0.folder) }
    folders = Dictionary(places.map { ($0.name.description, $0.folder) }) { first, _ in first }
    admitted = Dictionary(applied.map { ($0.name.description, $0.tables) }) { first, _ in first }
    peers = applied.map(\.name)
    (self.captured, self.copiesRows) = (captured, copiesRows)
    window = VersionWindow(own: own.name, ownFolder: own.folder)
    for trail in applied { window.addPeer(trail.name, folder: trail.folder) }
    (self.local, self.turns, self.skewMicrosecondsMax, self.rules) = (local, turns, skewMicrosecondsMax, rules)
    (self.deferredBytesMax, self.waitingBytesMax) = (deferredBytesMax, waitingBytesMax)
    turn = before?.turn ?? ApplyTurn()
    before?.isRetired.withLock { $0 = true }
  }

  /// Returns whether rows written to a table here go into the own trail. All other tables are one-way.
  func captures(_ namespace: String, _ name: String) -> Bool {
    namespace.isEmpty ? captured.includes(name) : captured.includes(namespace: namespace, name: name)
  }

  /// Returns whether rows of a table may still have to be copied into the own trail, so that no other node knows them.
  func isToBeCopied(_ table: String) -> Bool { copiesRows && !window.isWhole(table) }

  /// Returns which rows of a trail may be versions of rows here; nil: all of them, as for the own trail.
  func admittedRows(of origin: String) -> AdmittedRows? {
    if origin.hasSameBytes(as: own.description) { return nil }
    let engine: Engine = if case .journal = local { .sqlite } else { .postgres }
    return AdmittedRows(admitted[origin], in: engine)
  }

  func folder(of origin: String) throws -> String {
    if let folder = folders[origin] { return folder }
    throw CairnError(
      .trailMissing, "a version of a row is in trail \(origin), which is not applied here",
      hint: "put the [apply.NAME] of that trail back into the conf: a row that both ends wrote needs all trails")
  }

  /// Whether the shared state can be used. False after an error that may have left the window incomplete.
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

  /// Throws `busy` if another trail than the one with this id was read under the same name.
  func check(_ trail: TrailName, _ id: TrailID) throws { try window.identify(trail, id) }

  /// Reads the trails into the window, once: the first apply does it. `hasUniqueValues`: whether rows may clash in
  /// unique values besides their keys. `reach`: returns the place up to which a trail has been applied.
  func prepare(
    _ names: RowNames, hasUniqueValues: () throws -> Bool, candidates: () throws -> [String: Int],
    returned: () throws -> [StoredReturns.Entry], reach: (TrailName) throws -> Reach
  ) throws {
    try isPrepared.withLock { isPrepared in
      if isPrepared { return }
      names.roots = roots
      // Commits of applies with the retired value are read below: none of them has a turn now, or gets one again.
      while !turn.take() {
        Pulse.beat()
        Clock.sleep(milliseconds: 1)
      }
      defer { turn.end() }
      if try hasUniqueValues() { window.keepLasts() }
      note(waiting: try candidates())
      // The ids come first: versions that are read next name the trails that their authors knew.
      let ids = trailIDs()
      for (trail, id) in ids { try window.identify(trail, id) }
      // The held transactions count before the first trail is read. If a trail was begun again, transactions applied
      // from its predecessor do not count.
      let reached = try peers.map { trail in
        let reach = try reach(trail)
        let isOther = reach.id.flatMap { known in ids[trail].map { $0 != known } } ?? false
        return (trail: trail, reach: isOther ? Reach() : reach)
      }
      for (trail, reach) in reached { hold(trail, through: reach.held) }
      func readPeers(again: Bool) throws {
        for (trail, reach) in reached {
          let admitted = admittedRows(of: trail.description)
          try window.read(trail, through: reach.number, again: again) { schema, change in
            admitted?.includes(schema) == false ? [] : try names.namesAndReferences(schema, change, from: admitted)
          }
        }
      }
      try readPeers(again: false)
      for (trail, reach) in reached { note(applied: reach.number, of: trail) }
      if try readsOwn {
        // Only the own trail shows which tables were renamed here: changes of other trails were perhaps never made.
        // Rows that were read under a former name are named again.
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

  /// Returns the ids of the trails that exist. A trail that cannot be read is left out: its apply reports the error.
  private func trailIDs() -> [TrailName: TrailID] {
    var ids: [TrailName: TrailID] = [:]
    for trail in [own] + peers {
      if let folder = folders[trail.description], let id = try? Trail.id(folder: folder) { ids[trail] = id }
    }
    return ids
  }

  /// Whether the own trail is read before anything is changed. Versions of other nodes can then be forgotten, and apply
  /// knows which of two rows is later. If much of the own trail is unread, it is read for peers that may be silent.
  var readsOwn: Bool {
    get throws { try !window.isOwnOnly || window.keepsLasts || mayHaveCandidates || window.hasMuchUnread }
  }

  // MARK: One apply decides at a time

  /// Waits until no other apply has a group under way and no copy is read. Returns false if `stop` was set first.
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

  /// Runs `body` while no other apply has a group under way; nil if `stop` was set first. `body` must wait for nothing,
  /// as all applies of the database wait with it.
  func inTurn<T>(_ stop: StopSignal, _ body: () throws -> T) throws -> T? {
    guard try enter(stop) else { return nil }
    defer { leave() }
    return try body()
  }

  /// Repeats `attempt` until it returns true; returns false if `stop` was set first. Two-way, each attempt has its
  /// turn. An attempt can set what to wait for: apply waits after its turn, because other applies wait for the turn.
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

  /// Gives capture time to take local commits, while nothing is locked. `count`: the number of waits in a row so far.
  func waitForCapture(_ stop: StopSignal, _ count: Int) throws {
    switch local {
    case .stream(let stream): _ = try stream.pass(stop, false)
    case .journal: _ = stop.wait(milliseconds: Int32(2 << min(count, 8)))
    }
  }

  /// Returns whether an error says that a row is not as the trail has it, so that it is settled from its versions.
  static func isOfRow(_ error: CairnError) -> Bool { [.rowMissing, .rowDiffers, .rowExists].contains(error.code) }

  /// Whether rows may wait for unique values of other rows. Only the apply that has the turn reads or sets this.
  var mayHaveCandidates: Bool {
    get { candidates.withLock { $0 } }
    set { candidates.withLock { $0 = newValue } }
  }

  /// The number of rows that wait for a unique value, by table, as of the last commit.
  package var waitingRows: [String: Int] { waiting.withLock { $0 } }

  /// Stores the numbers of waiting rows by table. Called by the apply that has the turn, after its commit.
  func note(waiting counts: [String: Int]) {
    waiting.withLock { $0 = counts }
    mayHaveCandidates = !counts.isEmpty
  }

  /// Whether this node may have decided rows without having written the decisions yet.
  var mayHaveDecisions: Bool {
    get { decisions.withLock { $0 } }
    set { decisions.withLock { $0 = newValue } }
  }

  /// The number of schema changes that applies have carried out.
  var shapeCount: Int { shapes.withLock { $0 } }
  func noteShapes() { shapes.withLock { $0 += 1 } }

  // MARK: What has been applied

  /// Records committed changes by which tables or columns lost their names.
  func note(arrived steps: [ColumnStep]) {
    guard !steps.isEmpty else { return }
    arrivedSteps.withLock { $0.take(steps) }
  }

  /// Returns whether a schema change comes back: the database has it from its own trail, or from a trail that is
  /// applied here. Its tables may have changed since, so it is not made again.
  func isEcho(_ ddl: DDL) -> Bool { folders[ddl.applied] != nil }

  /// The last transaction that the database has of each applied trail, by the trail's name.
  var appliedNumbers: [String: UInt64] { applied.withLock { $0 } }

  func note(applied number: UInt64, of trail: TrailName) {
    applied.withLock { $0[trail.description] = number }
  }

  /// The place up to which a trail has been applied.
  struct Reach {
    /// The id of the trail; nil: nothing of the trail has been applied.
    var id: TrailID?
    /// The number of the last transaction of this trail that the database has applied.
    var number: UInt64 = 0
    /// The last transaction before the first one that waits or is in quarantine; nil: nothing waits.
    var held: UInt64?
  }

  /// Records that transactions after `number` may be applied out of order: some tables have them, suspended ones do
  /// not. Nil: none are. See ``VersionWindow/hold(_:through:)``.
  func hold(_ trail: TrailName, through number: UInt64?) {
    window.hold(trail, through: number)
    held.withLock { $0[trail.description] = number }
  }

  /// Returns whether the author of a transaction knew changes that suspended tables lack here. `seen`: what it knew.
  func knowsHeld(_ seen: [String: UInt64]) -> Bool {
    held.withLock { held in seen.contains { known in held[known.key].map { $0 < known.value } ?? false } }
  }

  /// Notes that a row which waited for a unique value came back, when transaction `number` of a trail was applied.
  ///
  /// - Returns: The entries to store with the row.
  func noteReturn(of row: ContestedRow, by trail: TrailName, _ number: UInt64) -> [StoredReturns.Entry] {
    var known = appliedNumbers
    known[trail.description] = max(number, known[trail.description] ?? 0)
    let isFull = returned.withLock { $0.note(row.keyed, behind: known) }
    var ids: [TrailID: UInt64] = [:]
    for (trail, number) in known { window.id(of: trail).map { ids[$0] = number } }
    let entry = StoredReturns.Entry(row: row, known: ids)
    return isFull ? [.init(row: nil, known: ids), entry] : [entry]
  }

  /// Records that the own trail has been read up to everything that applications wrote here before.
  ///
  /// - Returns: The transaction to store with the rows that came back before; nil if none is needed.
  func noteCaptured() -> UInt64? {
    let reached = window.ownReach.number
    return returned.withLock { list in
      defer { list.noteCaptured(own.description, through: reached) }
      return list.hasOpen ? reached + 1 : nil
    }
  }

  /// Returns whether a row that came back here may still wait at the author of a transaction. `seen`: what it knew.
  func mayWait(_ row: KeyedRow, at author: TrailName, seen: [String: UInt64]) -> Bool {
    returned.withLock { $0.mayWait(row, at: author.description, seen: seen) }
  }

  /// Returns whether the author of a transaction knew changes of an applied trail that have not come here yet. `seen`:
  /// what it knew of the trails here. It may also know a trail that was begun again, unknown here.
  func isAhead(_ header: TransactionHeader, seen: [String: UInt64]) -> Bool {
    applied.withLock { applied in
      header.dependencies.contains { known in
        applied[known.origin].map { $0 < seen[known.origin] ?? .max } ?? false
      }
    }
  }
}

/// The turn to write a group, shared by the applies of one database.
final class ApplyTurn: Sendable {
  private let isTaken = Mutex(false)

  /// Takes the turn. Returns false if another apply has it.
  func take() -> Bool {
    isTaken.withLock { isTaken in
      defer { isTaken = true }
      return !isTaken
    }
  }

  func end() { isTaken.withLock { $0 = false } }
}

/// The result of an apply's turn, which says what the apply waits for afterwards.
enum TurnEnd {
  /// The apply waits for nothing. False: there was nothing to apply.
  case moved(Bool)
  /// The apply waits until the clock of this transaction is no longer ahead.
  case heldBack(TransactionHeader)
  /// The apply waits until capture has taken the local commits.
  case overtaken
}

/// The error for a local commit to a row of the group that the own trail does not hold yet. The group is rolled back,
/// and applied again when capture has the commit.
struct LocalAhead: Error {}
