import Changes
import Conflicts
import SQLiteKit
import Synchronization
import Trails

/// The versions that some node may not know yet, of all rows of one database: those of its own trail, and those of others
/// that were applied to it.
///
/// A change that comes is in conflict where the window holds a version of its row that it does not follow. All applies of
/// a database share one window; any thread may call. How to use it:
///
/// 1. ``addPeer(_:folder:)`` for every trail that is applied, then ``read(_:through:rowNames:)`` for each of them, and
///    ``catchUp(rowNames:)`` or, where that leaves ``isOwnOnly``, ``putOffCatchUp()``. Until all have been read an answer may
///    lack versions, and nothing is forgotten: see ``isComplete``.
/// 2. For each transaction that is applied: ``meet(_:of:at:)``; for each of its changes ``follow(_:_:)``, or
///    ``concurrent(_:with:seen:)`` and ``note(_:_:)``; ``commit(_:)`` when the target has committed, ``rollback(_:)`` when it
///    has not.
///
/// After an error the group is to be rolled back and done again; what could not be read is read again.
package final class VersionWindow: Sendable {
  package let own: TrailName
  private let ownTrail: OwnTrail
  private let state: Mutex<State>

  private struct State {
    var index: WindowIndex
    var folders: [TrailName: String] = [:]
    var reach = OwnReach(number: 0, sourcePosition: [], position: .start)
    var wholeTables = WholeTables()
    var columnSteps = ColumnSteps()
    /// A trail that was begun again since it was read.
    var begunAgain: TrailName?
  }

  /// Opens nothing yet. Past `spillRows` versions they are kept in a temporary file.
  package init(own: TrailName, ownFolder: String, spillRows: Int = 1_000_000) {
    self.own = own
    ownTrail = OwnTrail(ownFolder)
    state = Mutex(State(index: WindowIndex(own: own.description, spillRows: spillRows)))
  }

  /// A trail that is applied to the database. All of them are to be told before the first is read.
  package func addPeer(_ trail: TrailName, folder: String) {
    state.withLock {
      $0.folders[trail] = folder
      $0.index.add(trail.description)
    }
  }

  /// Notes the trail that stands under a name; throws `busy` if another one was read under it: what is here of that one says
  /// nothing of the new one, so another window is to be made.
  package func identify(_ trail: TrailName, _ id: TrailID) throws(CairnError) {
    let isSame = state.withLock { state in
      let isSame = state.index.identify(trail.description, id)
      if !isSame { state.begunAgain = trail }
      return isSame
    }
    if !isSame { try check() }
  }

  /// Throws `busy` if a trail was begun again since it was read.
  package func check() throws(CairnError) {
    guard let trail = state.withLock({ $0.begunAgain }) else { return }
    throw CairnError(
      .busy, "trail \(trail) was begun again since the applies to this database started",
      hint: "none is needed: they start again by themselves", remedy: .retry, context: ["trail": trail.description])
  }

  /// What the author of a transaction knew of the trails that are here, by their names.
  package func seen(_ header: TransactionHeader) -> [String: UInt64] { state.withLock { $0.index.seen(header) } }

  private func withState<T: Sendable>(_ body: (inout State) throws -> T) throws -> T {
    do { return try state.withLock { try body(&$0) } } catch let error as SQLiteError {
      throw error.asCairnError
    }
  }
}

// MARK: - Reading trails

extension VersionWindow {
  /// Reads the own trail on to its durable end, and learns what the own database knew of others. `rowNames` says which
  /// rows a change touches: none, one, or for a change of the key the row before and the row after. Returns how many
  /// transactions came.
  @discardableResult
  package func catchUp(rowNames: (TableSchema, ChangeView) throws -> ChangedRows) throws -> Int {
    let own = own.description
    guard
      let (count, reach) = try ownTrail.readOn(
        from: { self.firstNeeded(own) }, { try self.identify(self.own, $0) }, rowNames,
        { part, isEnd in
          try withState {
            try $0.index.take(part, of: own)
            $0.wholeTables.take(part)
            $0.columnSteps.take(part)
            if isEnd { $0.index.settle(own) }
          }
        })
    else {
      state.withLock { if $0.index.isIdentified(own) { $0.begunAgain = self.own } }
      try check()
      // Nothing has been captured yet.
      try withState { try $0.index.endReading(own, through: 0) }
      return 0
    }
    try withState {
      if $0.reach.number <= reach.number { $0.reach = reach }
      try $0.index.endReading(own, through: reach.number)
    }
    return count
  }

  /// Reads what was applied of a peer's trail before the start: through transaction `number`, as the database's checkpoint
  /// says, 0 where it has none.
  package func read(
    _ trail: TrailName, through number: UInt64,
    rowNames: (TableSchema, ChangeView) throws -> ChangedRows
  ) throws {
    let name = trail.description
    let from = firstNeeded(name)
    if number >= from, let folder = state.withLock({ $0.folders[trail] }) {
      var scan = try TrailScan(folder: folder, from: from)
      try identify(trail, scan.reader.id)
      _ = try scan.run(through: number, rowNames) { part, _ in
        var part = part
        part.header = try believed(part.header, of: trail, isApplied: true)
        try withState { [part] in try $0.index.take(part, of: name) }
      }
    }
    try withState { try $0.index.endReading(name, through: number) }
  }

  /// In place of the first ``catchUp(rowNames:)``, where no version of others is here: the own trail is read once one comes.
  package func putOffCatchUp() throws { try withState { try $0.index.endReading(own.description, through: 0) } }

  /// Whether no version of another origin is here. Then the own trail need not be read for transactions without changes, and
  /// never where all know it.
  package var isOwnOnly: Bool { state.withLock { $0.index.isOwnOnly } }

  /// Whether more of the own trail has not been read than a peer leaves that does its part.
  package var hasMuchUnread: Bool { get throws { try ownTrail.hasMuch(behind: firstNeeded(own.description)) } }

  private func firstNeeded(_ origin: String) -> UInt64 {
    state.withLock { $0.index.firstNeeded(origin) }
  }

  /// How many versions it holds.
  package var count: Int { state.withLock { $0.index.count } }
  /// Whether there are so many that they are in a file.
  package var isSpilled: Bool { state.withLock { $0.index.isSpilled } }

  /// Whether any of them is kept for a peer, which has not told that it knows all of them.
  package func isKept(for trail: TrailName) throws -> Bool {
    try withState { try $0.index.isKept(for: trail.description) }
  }

  /// Whether the own trail has the rows that a table held when it began; true as well where that cannot be told any more.
  package func isWhole(_ table: String) -> Bool { state.withLock { $0.wholeTables.contains(table) } }

  /// The changes of own tables by which columns lost their names, as far as the own trail has been read.
  package var columnSteps: [ColumnStep] { state.withLock { $0.columnSteps.all } }

  /// Whether all trails have been read.
  package var isComplete: Bool { state.withLock { $0.index.isRead } }

  /// The last transaction of the own trail that has been read, and the source's position by its last progress; empty
  /// where there was none.
  package var ownReach: (number: UInt64, sourcePosition: [UInt8]) {
    state.withLock { ($0.reach.number, $0.reach.sourcePosition) }
  }

  /// Nothing behind these places may be purged: versions stand there that may be asked for, or that have not been read.
  /// A peer's trail of which nothing is needed is not among them.
  package func needs() throws -> [TrailName: Position] {
    var (needs, skipped) = try withState { state -> ([TrailName: Position], (UInt64, Position)?) in
      var needs: [TrailName: Position] = [:]
      for trail in [own] + state.folders.keys {
        if !state.index.isRead(trail.description) {
          needs[trail] = .start
        } else if let oldest = try state.index.oldest(of: trail.description) {
          needs[trail] = oldest.begin
        } else if trail == own {
          needs[trail] = state.reach.position
        }
      }
      let reached = state.index.reached(own.description)
      return (needs, reached > state.reach.number ? (reached, state.reach.position) : nil)
    }
    if let (number, read) = skipped, let oldest = needs[own] {
      // All know what stands before it, and it has not been read.
      let begin = try ownTrail.start(of: number)
      needs[own] = oldest == read ? max(read, begin) : min(oldest, begin)
    }
    return needs
  }
}

// MARK: - Applying

extension VersionWindow {
  /// Returns a header without what it says of the own trail and cannot be: to believe that would take what is still to be
  /// written here for known.
  ///
  /// A dependency without an id is of an earlier version, and may mean a trail that was begun again since: it is left out.
  ///
  /// - Parameter isApplied: the transaction was applied before; then nothing is thrown.
  /// - Throws: `trail-forked` if the dependency is of the trail that is here.
  package func believed(_ header: TransactionHeader, of trail: TrailName, isApplied: Bool = false) throws
    -> TransactionHeader
  {
    var believed = header
    try believed.dependencies.removeAll { known in
      guard known.origin == own.description, let end = try ownTrail.end(before: known.number) else { return false }
      guard known.id != nil, !isApplied else { return true }
      guard known.id == end.id else { return false }
      throw CairnError(
        .trailForked,
        "transaction \(header.number) of trail \(trail) follows transaction \(known.number) of trail \(own), which ends here with \(end.lastTransaction)",
        hint:
          "if the state folder of this node is a copy of an older one, begin its trail again: 'cairn explain trail-forked'; else do not trust node \(trail.origin)",
        // After a power cut, the mark of the own trail may be an older one until capture has opened it.
        remedy: .retry, context: ["trail": trail.description])
    }
    return believed
  }

  /// Apply is about to apply a transaction: what its author knew. `begin`: where it stands in its trail.
  @discardableResult
  package func meet(_ header: TransactionHeader, of trail: TrailName, at begin: Position = .start) -> MetTransaction {
    state.withLock {
      let name = trail.description
      let seen = $0.index.seen(header)
      $0.index.learn(name, number: header.number, knew: header.dependencies)
      return MetTransaction(
        entry: WindowEntry(origin: $0.index.add(name), number: header.number, clock: header.clock, begin: begin),
        known: $0.index.known(name, header.number, seen: seen))
    }
  }

  /// Notes what the transaction makes of rows where that follows everything that is known of them; false where it does
  /// not for one of them, and nothing is noted. See ``note(_:_:)``.
  package func follow(_ rows: some Sequence<RowName> & Sendable, _ met: MetTransaction) throws -> Bool {
    try withState { try $0.index.follow(rows, met) }
  }

  /// False: there is no version of any row that the transaction does not follow.
  package func mayConcur(_ met: MetTransaction) -> Bool { state.withLock { $0.index.mayConcur(met) } }

  /// The versions of a row that `incoming` does not follow, by rising stamps; itself is not among them. None: no
  /// conflict. `seen`: the dependencies of its transaction.
  package func concurrent(_ row: RowName, with incoming: Stamp, seen: [String: UInt64]) throws
    -> [VersionPlace]
  {
    try withState { try $0.index.concurrent(row, with: incoming, seen: seen) }
  }

  /// All versions of a row, by rising stamps.
  package func versions(_ row: RowName) throws -> [VersionPlace] {
    try withState { try $0.index.versions(row) }
  }

  /// Of the versions of a row, but for those of the transactions `without`, and of those behind `reached` of their origins.
  package func fingerprint(_ row: RowName, upTo reached: [String: UInt64], without: [Stamp]) throws
    -> VersionFingerprint
  {
    try withState { try $0.index.fingerprint(row, upTo: reached, without: without) }
  }

  /// Has the last version of each row that is forgotten kept as long as an earlier one of any row is here. To be told before
  /// anything is read.
  package func keepLasts() { state.withLock { $0.index.keepLasts() } }
  package var keepsLasts: Bool { state.withLock { $0.index.lasts.areKept } }

  /// The last version of a row of which none is here any more. Nil: it is earlier than all that are here, or there was
  /// none, or ``keepLasts()`` was not called.
  package func lastForgotten(_ row: RowName) -> Stamp? { state.withLock { $0.index.lastForgotten(row) } }

  /// False: nobody has referred to any row of whom the author of a delete did not know.
  package func mayBeReferred(beside delete: Stamp, seen: [String: UInt64]) -> Bool {
    state.withLock { $0.index.mayBeReferred(beside: delete, seen: seen) }
  }

  /// Whether somebody referred to a row who did not know that it was deleted, and of whom that was not known where it was:
  /// then the delete does not count. `seen`: what the author of the delete knew.
  package func isReferred(_ row: RowName, beside delete: Stamp, seen: [String: UInt64]) throws -> Bool {
    try withState { try $0.index.isReferred(row, beside: delete, seen: seen) }
  }

  /// A version that apply writes. Others see it at once, whether the target commits it or not: it stands in its trail, and
  /// what is settled depends on the versions alone. To be noted while the target holds the lock of the row.
  package func note(_ row: RowName, _ place: VersionPlace) throws {
    try withState { try $0.index.note(row, place) }
  }

  /// The target has committed what was met of a trail; nothing of it comes again. Forgets what nobody needs any more.
  package func commit(_ trail: TrailName) throws {
    try withState {
      $0.index.settle(trail.description)
      try $0.index.sweep()
    }
  }

  /// The target has not committed: what was met of a trail since the last commit comes again.
  package func rollback(_ trail: TrailName) {
    state.withLock { $0.index.forgetMet(trail.description) }
  }

  /// Where one of a trail's tables waits, its changes behind transaction `number` come later than those of others: nothing
  /// counts as known at the trail's origin that it learnt after that. Nil: none waits. To be told before the commit that
  /// lets it wait, and at a start before anything is read.
  package func hold(_ trail: TrailName, through number: UInt64?) {
    state.withLock { $0.index.hold(trail.description, through: number) }
  }
}
