import Changes
import Conflicts
import PostgresKit
import SQLiteKit
import Synchronization
import SystemKit
import Trails
import Versions

/// What the applies of one database share, when the database is captured too and writes go both ways.
package final class TwoWay: Sendable {
  /// How conflicts that come with a trail are settled, in a table of the target by its plain name; its columns in their
  /// order.
  package typealias RuleBook =
    @Sendable (_ trail: TrailName, _ table: String, _ columns: [String]) throws -> ConflictRules

  /// Local commits that the own trail does not hold yet.
  package enum LocalCommits: Sendable {
    /// SQLite: shows the rows of the journal behind a source position of the own trail, inside apply's transaction.
    /// False: there are too many of them to be looked at.
    case journal(@Sendable (Database, [UInt8], (TableSchema, [Value]) throws -> Void) throws -> Bool)
    /// PostgreSQL.
    case stream(CaptureStream)
  }

  /// Of the trail into which the database is captured.
  package let own: TrailName
  /// Of the own trail and of those that are applied, by name.
  private let folders: [String: String]
  private let peers: [TrailName]
  private let captured: TablePatterns
  /// Whether what tables held before they were captured is copied into the own trail.
  private let copiesRows: Bool
  package let window: VersionWindow
  let rules: RuleBook
  let local: LocalCommits
  /// How far a peer's clock may be ahead of ours, µs.
  let skewMicrosecondsMax: Int64
  /// Rows of a transaction that are settled when it ends take this much memory, and then a temporary file.
  let deferredBytesMax: Int
  /// The most bytes of rows of one trail that wait for unique values: each judgement reads them, in the target's
  /// transaction.
  let waitingBytesMax: Int64
  private let turn: ApplyTurn
  /// Keeps groups apart from the reading of copies into the own trail; the applies are the writer. Nil if nothing is
  /// captured meanwhile.
  private let turns: AlternatingLock?
  private let candidates = Mutex(true)
  private let waiting = Mutex<[String: Int]>([:])
  private let decisions = Mutex(true)
  private let applied = Mutex<[String: UInt64]>([:])
  private let held = Mutex<[String: UInt64]>([:])
  private let returned = Mutex(ReturnsFromWaiting())
  /// Of PostgreSQL.
  let quiet = Mutex(QuietServer())
  private let shapes = Mutex(0)
  private let isPrepared = Mutex(false)
  private let isSpoilt = Mutex(false)
  private let isRetired = Mutex(false)

  /// `captured`: the tables of the database that go into the own trail; `copiesRows`: with what they held before. `before`:
  /// the one that the applies of the database shared until now. It is retired: an apply that still has it takes no turn
  /// any more, and what it has committed is known to the new one.
  package init(
    own: (name: TrailName, folder: String), applied: [(name: TrailName, folder: String)], captured: TablePatterns,
    copiesRows: Bool = false, local: LocalCommits, turns: AlternatingLock? = nil,
    skewMicrosecondsMax: Int64 = 60_000_000, deferredBytesMax: Int = 16 << 20, waitingBytesMax: Int64 = 64 << 20,
    after before: TwoWay? = nil, rules: @escaping RuleBook
  ) {
    self.own = own.name
    folders = Dictionary(([own] + applied).map { ($0.name.description, $0.folder) }) { first, _ in first }
    peers = applied.map(\.name)
    (self.captured, self.copiesRows) = (captured, copiesRows)
    window = VersionWindow(own: own.name, ownFolder: own.folder)
    for trail in applied { window.addPeer(trail.name, folder: trail.folder) }
    (self.local, self.turns, self.skewMicrosecondsMax, self.rules) = (local, turns, skewMicrosecondsMax, rules)
    (self.deferredBytesMax, self.waitingBytesMax) = (deferredBytesMax, waitingBytesMax)
    turn = before?.turn ?? ApplyTurn()
    before?.isRetired.withLock { $0 = true }
  }

  /// Whether what is written to a table here goes into the own trail; what comes to others comes one way.
  func captures(_ namespace: String, _ name: String) -> Bool {
    namespace.isEmpty ? captured.includes(name) : captured.includes(namespace: namespace, name: name)
  }

  /// Whether rows of a table may be copied into the own trail that nobody has heard of yet.
  func isToBeCopied(_ table: String) -> Bool { copiesRows && !window.isWhole(table) }

  func folder(of origin: String) throws -> String {
    if let folder = folders[origin] { return folder }
    throw CairnError(
      .trailMissing, "a version of a row stands in trail \(origin), which is not applied here",
      hint: "put the [apply] of that trail back into the conf: a row that both ends wrote is settled from all trails")
  }

  /// False after an error that may have been the window's, which then may lack something: another is to be made.
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

  /// An apply is about to read a trail. Throws `busy` if another one was read under its name.
  func check(_ trail: TrailName, _ id: TrailID) throws { try window.identify(trail, id) }

  /// Reads what stands in the trails, once: whichever apply comes first. `hasUniqueValues`: whether rows may clash in others
  /// than their keys. `reach`: how far a trail has been applied to the database.
  func prepare(
    _ names: RowNames, hasUniqueValues: () throws -> Bool, candidates: () throws -> [String: Int],
    reach: (TrailName) throws -> Reach
  ) throws {
    try isPrepared.withLock { isPrepared in
      if isPrepared { return }
      // What an apply commits that has the one of before is read below: none has a turn, and none gets one again.
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
      // What is held of any of them counts before the first is read. What was applied of a trail that was begun again since
      // is nothing of the new one.
      let reached = try peers.map { trail in
        let reach = try reach(trail)
        let isOther = reach.id.flatMap { known in ids[trail].map { $0 != known } } ?? false
        return (trail: trail, reach: isOther ? Reach() : reach)
      }
      for (trail, reach) in reached { hold(trail, through: reach.held) }
      for (trail, reach) in reached {
        try window.read(trail, through: reach.number, rowNames: names.namesAndReferences)
        note(applied: reach.number, of: trail)
      }
      if try readsOwn {
        try window.catchUp(rowNames: names.namesAndReferences)
      } else {
        try window.putOffCatchUp()
      }
      let known = appliedNumbers.merging([own.description: window.ownReach.number]) { $1 }
      returned.withLock { $0.begin(behind: known) }
      isPrepared = true
    }
  }

  /// Returns the ids of the trails that exist. The apply of a trail reports it if it cannot be read.
  private func trailIDs() -> [TrailName: TrailID] {
    var ids: [TrailName: TrailID] = [:]
    for trail in [own] + peers {
      if let folder = folders[trail.description], let id = try? Trail.id(folder: folder) { ids[trail] = id }
    }
    return ids
  }

  /// Whether the own trail is read before anything is changed. What is learnt from it lets versions of others be forgotten,
  /// and tells which of two rows is the later one; where much of it has not been read, a peer may be silent, for which that
  /// is to be counted.
  var readsOwn: Bool {
    get throws { try !window.isOwnOnly || window.keepsLasts || mayHaveCandidates || window.hasMuchUnread }
  }

  // MARK: One apply decides at a time

  /// Waits until no other apply has a group under way, and no copy is being read; false when `stop` was set first.
  func enter(_ stop: StopSignal) throws -> Bool {
    while !stop.isSet {
      try window.check()
      if !isSound {
        throw CairnError(
          .ioFailed, "what both ends wrote could not be read to its end by another apply to the same database",
          hint: "see its error; this one begins anew", remedy: .retry)
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
          hint: "none is needed: this apply starts again with the others", remedy: .retry)
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

  /// Runs `body` while no other apply has a group under way; nil when `stop` was set first. Nothing is to be waited for in
  /// it: all applies of the database wait with it.
  func inTurn<T>(_ stop: StopSignal, _ body: () throws -> T) throws -> T? {
    guard try enter(stop) else { return nil }
    defer { leave() }
    return try body()
  }

  /// Repeats `attempt` until it returns true; returns false if `stop` was set first. Each attempt of a two-way apply is a
  /// turn of its own. An attempt can set what to wait for: apply waits after its turn, because other applies wait for it.
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

  /// Gives capture the time to take what was committed locally, while nothing is locked. `count`: how often in a row.
  func waitForCapture(_ stop: StopSignal, _ count: Int) throws {
    switch local {
    case .stream(let stream): _ = try stream.pass(stop, false)
    case .journal: _ = stop.wait(milliseconds: Int32(2 << min(count, 8)))
    }
  }

  /// What a row has against being written as it comes: it is settled from its versions, then.
  static func isOfRow(_ error: CairnError) -> Bool { [.rowMissing, .rowDiffers, .rowExists].contains(error.code) }

  /// Whether rows may wait for a unique value that others have. To be asked, and set, by whom no other apply disturbs.
  var mayHaveCandidates: Bool {
    get { candidates.withLock { $0 } }
    set { candidates.withLock { $0 = newValue } }
  }

  /// The number of rows that wait for a unique value, by table, as of the last commit.
  package var waitingRows: [String: Int] { waiting.withLock { $0 } }

  /// To be called by an apply that has the turn, after its commit.
  func note(waiting counts: [String: Int]) {
    waiting.withLock { $0 = counts }
    mayHaveCandidates = !counts.isEmpty
  }

  /// Whether rows may wait for what this node decides of them.
  var mayHaveDecisions: Bool {
    get { decisions.withLock { $0 } }
    set { decisions.withLock { $0 = newValue } }
  }

  /// How often an apply has changed tables.
  var shapeCount: Int { shapes.withLock { $0 } }
  func noteShapes() { shapes.withLock { $0 += 1 } }

  // MARK: What has been applied

  /// Whether a change of a table is one that this database has by way of a trail: its own, or one that is applied here. The
  /// node that tells of it got it by an apply of that trail. Its tables may have changed since, so it is not made again.
  func isEcho(_ ddl: DDL) -> Bool { folders[ddl.applied] != nil }

  /// Of each trail that is applied, the last transaction that the database has.
  var appliedNumbers: [String: UInt64] { applied.withLock { $0 } }

  func note(applied number: UInt64, of trail: TrailName) {
    applied.withLock { $0[trail.description] = number }
  }

  /// How far a trail has been applied.
  struct Reach {
    /// The id of the trail.
    var id: TrailID?
    /// The last transaction that the database has.
    var number: UInt64 = 0
    /// The last one before which no table waits, and nothing is in quarantine; nil: that one.
    var held: UInt64?
  }

  /// Of a trail, what comes behind that transaction may have come out of its order: some tables have it, and others wait.
  /// See ``VersionWindow/hold(_:through:)``.
  func hold(_ trail: TrailName, through number: UInt64?) {
    window.hold(trail, through: number)
    held.withLock { $0[trail.description] = number }
  }

  /// Whether the author of a transaction knew what tables that wait here still lack. `seen`: what it knew.
  func knowsHeld(_ seen: [String: UInt64]) -> Bool {
    held.withLock { held in seen.contains { known in held[known.key].map { $0 < known.value } ?? false } }
  }

  /// A row that waited for a unique value came back, when transaction `number` of a trail was applied.
  func noteReturn(of row: KeyedRow, by trail: TrailName, _ number: UInt64) {
    var known = appliedNumbers
    known[trail.description] = max(number, known[trail.description] ?? 0)
    returned.withLock { $0.note(row, behind: known) }
  }

  /// All that programs wrote here before has been read in the own trail.
  func noteCaptured() {
    let reached = window.ownReach.number
    returned.withLock { $0.noteCaptured(own.description, through: reached) }
  }

  /// Whether a row that came back here may still wait where a transaction was made; `seen`: what its author knew.
  func mayWait(_ row: KeyedRow, at author: TrailName, seen: [String: UInt64]) -> Bool {
    returned.withLock { $0.mayWait(row, at: author.description, seen: seen) }
  }

  /// Whether the author of a transaction knew what has not come here yet, of a trail that does come here. `seen`: what it
  /// knew of the trails that are here; it may know a trail that was begun again, of which nothing is here.
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

  /// False where another one has it.
  func take() -> Bool {
    isTaken.withLock { isTaken in
      defer { isTaken = true }
      return !isTaken
    }
  }

  func end() { isTaken.withLock { $0 = false } }
}

/// The reason and the time for which an apply waits after its turn.
enum TurnEnd {
  /// Nothing; false: nothing was there to be applied.
  case moved(Bool)
  /// A transaction whose clock is ahead.
  case heldBack(TransactionHeader)
  /// Capture has to take what was committed locally.
  case overtaken
}

/// A local commit, which the own trail does not hold yet, is of a row that comes: the group is rolled back, and done again
/// when capture has it.
struct LocalAhead: Error {}
