import Changes
import Conflicts
import SQLiteKit
import Synchronization
import Trails

/// The row versions of one database that some node may not know yet. The versions come from the database's own trail,
/// and from the trails of peers that are applied to the database.
///
/// An incoming change is in conflict if the window has a version of its row that the author of the change did not know.
/// All apply workers of a database share one window, and any thread may call it. How to use it:
///
/// 1. At the start: ``addPeer(_:folder:)`` for every trail that is applied. Then ``read(_:through:rowNames:)`` for
/// each, and ``catchUp(rowNames:)``, or ``putOffCatchUp()`` if ``isOwnOnly``. Until ``isComplete``, results may lack
/// versions. 2. For each incoming transaction: ``meet(_:of:at:)``. For each of its changes: ``follow(_:_:)``, or
/// ``concurrent(_:with:seen:)`` and ``note(_:_:)``. At the end: ``commit(_:)`` after the target has committed, or
/// ``rollback(_:)`` if it has not.
///
/// After an error, roll the group back and apply it again.
///
///     let window = UnstableVersions(own: own, ownFolder: ownFolder)
///     window.addPeer(trail, folder: folder)
package final class UnstableVersions: Sendable {
  package let own: TrailName
  private let ownTrail: OwnTrail
  private let state: Mutex<State>

  private struct State {
    var index: WindowIndex
    var folders: [TrailName: String] = [:]
    var reach = OwnReach(number: 0, sourcePosition: [], position: .start)
    var wholeTables = WholeTables()
    var columnSteps = ColumnSteps()
    /// The trail that was replaced, or whose segments were removed, since the window read it; nil if there is none.
    var begunAgain: TrailName?
  }

  /// Creates an empty window. If it has more than `spillRows` versions, it keeps them in a temporary file.
  package init(own: TrailName, ownFolder: String, spillRows: Int = 1_000_000) {
    self.own = own
    ownTrail = OwnTrail(ownFolder)
    state = Mutex(State(index: WindowIndex(own: own.description, spillRows: spillRows)))
  }

  /// Adds a trail of a peer that is applied to the database. Add all trails before reading the first one.
  package func addPeer(_ trail: TrailName, folder: String) {
    state.withLock {
      $0.folders[trail] = folder
      $0.index.add(trail.description)
    }
  }

  /// Stores the id of a trail. Throws `busy` if the window has read a trail of this name with another id.
  package func identify(_ trail: TrailName, _ id: TrailID) throws(CairnError) {
    let isSame = state.withLock { state in
      let isSame = state.index.identify(trail.description, id)
      if !isSame { state.begunAgain = trail }
      return isSame
    }
    if !isSame { try check() }
  }

  /// Returns the id of the trail with this name; nil if it is unknown.
  package func id(of trail: String) -> TrailID? { state.withLock { $0.index.id(of: trail) } }

  /// Throws `busy` if a trail that the window has read was replaced by a new trail, or if its segments were removed.
  package func check() throws(CairnError) {
    guard let trail = state.withLock({ $0.begunAgain }) else { return }
    throw CairnError(
      .busy, "trail \(trail) was replaced, or its copy begun again, since the applies to this database started",
      hint: "nothing to do: the applies start again by themselves", remedy: .retry,
      context: ["trail": trail.description])
  }

  /// Notes that segments of a trail were removed, from which the window may have versions. Each later ``check()`` throws.
  package func noteRestarted(_ trail: TrailName) {
    state.withLock { state in
      if trail == own || state.folders[trail] != nil { state.begunAgain = trail }
    }
  }

  /// Returns, for each trail, by name, the last transaction that the author of a transaction knew. Header entries
  /// without a trail id, or with the id of a replaced trail, do not count.
  package func seen(_ header: TransactionHeader) -> [String: UInt64] { state.withLock { $0.index.seen(header) } }

  private func withState<T: Sendable>(_ body: (inout State) throws -> T) throws -> T {
    do { return try state.withLock { try body(&$0) } } catch let error as SQLiteError {
      throw error.asCairnError
    }
  }
}

// MARK: - Reading trails

extension UnstableVersions {
  /// Reads the next transactions of the trail of this database's own capture, to its durable end.
  /// - Parameter rowNames: Returns the row names of a change. If the change alters the key, the old row comes first.
  /// - Parameter learn: Called at each schema change, with the table before and after the change.
  /// - Returns: The number of transactions read.
  @discardableResult
  package func catchUp(
    rowNames: (TableSchema, ChangeView) throws -> ChangedRows,
    learn: (DDL, TableSchema?, TableSchema) -> Void = { _, _, _ in }
  ) throws -> Int {
    do { return try readOn(rowNames, learn) } catch is FalseClaim { return try readOn(rowNames, learn) }
  }

  /// The error if a node stated that it knew a transaction of this database before this database had made that
  /// transaction.
  private struct FalseClaim: Error {}

  private func readOn(
    _ rowNames: (TableSchema, ChangeView) throws -> ChangedRows, _ learn: (DDL, TableSchema?, TableSchema) -> Void
  ) throws -> Int {
    let own = own.description
    guard
      let (count, reach) = try ownTrail.readOn(
        from: { self.firstNeeded(own) }, { try self.identify(self.own, $0) }, rowNames, learn: learn,
        { part, isEnd in
          try withState {
            guard $0.index.confirmSkip(part.header) else { throw FalseClaim() }
            try $0.index.take(part, of: own)
            $0.wholeTables.take(part)
            $0.columnSteps.take(part.columnSteps)
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

  /// Reads the part of a peer's trail that was applied before this process started.
  /// - Parameter number: The last transaction of that part, from the checkpoint; 0 without a checkpoint.
  /// - Parameter again: Whether to read that part once more, because the row names have changed.
  /// - Parameter skips: Returns whether the database lacks a transaction's changes of a table.
  package func read(
    _ trail: TrailName, through number: UInt64, again: Bool = false,
    skips: (UInt64, TableSchema) -> Bool = { _, _ in false },
    rowNames: (TableSchema, ChangeView) throws -> ChangedRows
  ) throws {
    let name = trail.description
    let from = again ? 1 : firstNeeded(name)
    if number >= from, let folder = state.withLock({ $0.folders[trail] }) {
      var scan = try TrailScan(folder: folder, from: from)
      try identify(trail, scan.reader.id)
      _ = try scan.run(through: number, rowNames, skips: skips) { part, _ in
        var part = part
        part.header = try believed(part.header, of: trail, isApplied: true)
        try withState { [part] in try $0.index.take(part, of: name) }
      }
    }
    try withState { try $0.index.endReading(name, through: number) }
  }

  /// Postpones the first reading of this database's own trail until another trail has versions in the window.
  package func putOffCatchUp() throws { try withState { try $0.index.endReading(own.description, through: 0) } }

  /// Whether all versions in the window come from this database's own trail.
  package var isOwnOnly: Bool { state.withLock { $0.index.isOwnOnly } }

  /// Whether this database's own trail has at least 16 segments that the window has not read.
  package var hasMuchUnread: Bool { get throws { try ownTrail.hasMuch(behind: firstNeeded(own.description)) } }

  private func firstNeeded(_ origin: String) -> UInt64 {
    state.withLock { $0.index.firstNeeded(origin) }
  }

  /// The number of versions in the window.
  package var count: Int { state.withLock { $0.index.count } }
  /// Whether the versions are in a temporary file instead of in memory.
  package var isSpilled: Bool { state.withLock { $0.index.isSpilled } }

  /// Returns whether the window has a version that the node of `trail` may not know.
  package func isKept(for trail: TrailName) throws -> Bool {
    try withState { try $0.index.isKept(for: trail.description) }
  }

  /// Returns whether this database's own trail has every row of a table; true if that is unknown.
  package func isWhole(_ table: String) -> Bool { state.withLock { $0.wholeTables.contains(table) } }

  /// The schema changes that renamed or dropped tables or columns of the database, from this database's own trail.
  package var columnSteps: [ColumnStep] { state.withLock { $0.columnSteps.all } }

  /// Whether the window has read all trails up to the state of the database at the start of the process.
  package var isComplete: Bool { state.withLock { $0.index.isRead } }

  /// The last transaction that the window has read from this database's own trail, with the last position in the
  /// source; empty if there is none.
  package var ownReach: (number: UInt64, sourcePosition: [UInt8]) {
    state.withLock { ($0.reach.number, $0.reach.sourcePosition) }
  }

  /// Returns the position in each trail from which on the window needs the trail. A purge may delete only segments
  /// before this position. A trail that the window does not need is left out.
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
      // Every node knows the transactions before `number`, and they have not been read.
      let begin = try ownTrail.start(of: number)
      needs[own] = oldest == read ? max(read, begin) : min(oldest, begin)
    }
    return needs
  }
}

// MARK: - Own transactions that state less than their authors knew

extension UnstableVersions {
  /// Returns the transactions of this database's own trail, in their order, that do not state changes of `trail` that
  /// their authors had. Leaves out those that wait for suspended tables.
  package func understated(about trail: TrailName) -> [Understated] {
    state.withLock { $0.index.understated.all(about: $0.index.places[trail.description]) }
  }

  /// Notes that an own transaction was resolved again beside the changes of `trail`. Call this after the target has
  /// committed.
  /// - Parameter isWhole: False if rows of suspended tables are left. They are listed again when a table continues.
  package func noteResolved(_ transaction: Understated, about trail: TrailName, isWhole: Bool) {
    state.withLock {
      $0.index.understated.noteResolved(
        transaction.header.number, about: $0.index.places[trail.description], isWhole: isWhole)
    }
  }
}

// MARK: - Applying

extension UnstableVersions {
  /// Returns the header of an incoming transaction without false statements about this database's own trail. A
  /// statement is false if the author claims to know a transaction that this trail does not have yet.
  /// - Parameter isApplied: Whether the transaction was applied before. If so, a false statement causes no error.
  /// - Throws: `trail-forked` for a false statement with the trail's id. `trail-damaged` if the clock is not later than
  ///   the clock of the previous transaction.
  package func believed(_ header: TransactionHeader, of trail: TrailName, isApplied: Bool = false) throws
    -> TransactionHeader
  {
    if !isApplied, let before = state.withLock({ $0.index.clockNotBefore(header, of: trail.description) }) {
      throw CairnError(
        .trailDamaged,
        "transaction \(header.number) of trail \(trail) has the clock \(header.clock), which is not later than \(before), the clock of a transaction before it",
        hint: "Cairn writes no such trail: do not trust node \(trail.origin), or begin a new trail there",
        context: ["trail": trail.description])
    }
    var believed = header
    try believed.dependencies.removeAll { known in
      guard known.origin == own.description, let end = try ownTrail.end(before: known.number) else { return false }
      guard known.id != nil, !isApplied else { return true }
      guard known.id == end.id else { return false }
      throw CairnError(
        .trailForked,
        "transaction \(header.number) of trail \(trail) follows transaction \(known.number) of trail \(own), which ends here with \(end.lastTransaction)",
        hint:
          "if the state folder of this node was restored from an older copy, begin a new trail: 'cairn explain trail-forked'; else do not trust node \(trail.origin)",
        // After a power cut, the durable end of the own trail may be an older one until capture has opened the trail.
        remedy: .retry, context: ["trail": trail.description])
    }
    return believed
  }

  /// Stores which transactions the author of an incoming transaction knew. Call this before apply writes a row of the
  /// transaction.
  /// - Parameter begin: The position of the transaction's begin record.
  @discardableResult
  package func meet(_ header: TransactionHeader, of trail: TrailName, at begin: Position = .start) -> MetTransaction {
    state.withLock {
      let name = trail.description
      let seen = $0.index.seen(header)
      $0.index.learn(name, number: header.number, clock: header.clock, knew: header.dependencies)
      return MetTransaction(
        entry: WindowEntry(origin: $0.index.add(name), number: header.number, clock: header.clock, begin: begin),
        known: $0.index.known(name, header.number, seen: seen))
    }
  }

  /// Adds a transaction's versions of rows, if its author knew all other versions of these rows in the window. If not,
  /// returns false and adds nothing.
  package func follow(_ rows: some Sequence<RowName> & Sendable, _ met: MetTransaction) throws -> Bool {
    try withState { try $0.index.follow(rows, met) }
  }

  /// Returns false if the transaction's author knew every version in the window. True does not prove a conflict.
  package func mayConcur(_ met: MetTransaction) -> Bool { state.withLock { $0.index.mayConcur(met) } }

  /// Returns the versions of a row that the author of `incoming` did not know, by ascending stamps. An empty result
  /// means no conflict.
  /// - Parameter seen: For each trail, the last transaction that the author of `incoming` knew.
  package func concurrent(_ row: RowName, with incoming: VersionStamp, seen: [String: UInt64]) throws
    -> [VersionPlace]
  {
    try withState { try $0.index.concurrent(row, with: incoming, seen: seen) }
  }

  /// Returns all versions of a row, by ascending stamps.
  package func versions(_ row: RowName) throws -> [VersionPlace] {
    try withState { try $0.index.versions(row) }
  }

  /// Returns a hash of the set of a row's versions, except those in `without`.
  /// - Parameter reached: For each trail, the last transaction whose versions count.
  package func fingerprint(_ row: RowName, upTo reached: [String: UInt64], without: [VersionStamp]) throws
    -> VersionFingerprint
  {
    try withState { try $0.index.fingerprint(row, upTo: reached, without: without) }
  }

  /// Makes the window keep the stamp of the last write of each row whose versions it removes. Call this before any
  /// trail is read.
  package func keepLasts() { state.withLock { $0.index.keepLasts() } }
  package var keepsLasts: Bool { state.withLock { $0.index.lasts.areKept } }

  /// Returns the stamp of the last write of a row whose versions the window has removed; nil if it was not kept.
  package func lastForgotten(_ row: RowName) -> VersionStamp? { state.withLock { $0.index.lastForgotten(row) } }

  /// Returns false if the author of a delete knew every foreign key value in the window. True does not prove that a
  /// foreign key value refers to the deleted row.
  package func mayBeReferred(beside delete: VersionStamp, seen: [String: UInt64]) -> Bool {
    state.withLock { $0.index.mayBeReferred(beside: delete, seen: seen) }
  }

  /// Returns whether another transaction wrote a foreign key value that refers to a row, concurrently with a delete of
  /// the row. Concurrent means that neither author knew the other's transaction.
  /// - Parameter seen: For each trail, the last transaction that the author of the delete knew.
  package func isReferred(_ row: RowName, beside delete: VersionStamp, seen: [String: UInt64]) throws -> Bool {
    try withState { try $0.index.isReferred(row, beside: delete, seen: seen) }
  }

  /// Returns the places of the versions with a foreign key to a row that were written concurrently with its delete.
  package func references(to row: RowName, beside delete: VersionStamp, seen: [String: UInt64]) throws -> [VersionPlace]
  {
    try withState { try $0.index.references(to: row, beside: delete, seen: seen) }
  }

  /// Adds a version that apply is about to write. Call this while the target holds the lock of the row. Other apply
  /// workers see the version at once.
  package func note(_ row: RowName, _ place: VersionPlace) throws {
    try withState { try $0.index.note(row, place) }
  }

  /// Marks the transactions that apply has processed since its last commit as committed. Removes versions that every
  /// node knows. Call this after the target has committed.
  package func commit(_ trail: TrailName) throws {
    try withState {
      $0.index.settle(trail.description)
      try $0.index.sweep()
    }
  }

  /// Forgets which transactions apply has processed since its last commit. Call this after the target has rolled back.
  package func rollback(_ trail: TrailName) {
    state.withLock { $0.index.forgetMet(trail.description) }
  }

  /// Makes the window ignore what a peer's transactions after `number` state about the versions that the peer knows;
  /// nil ends this. Call this before a commit that suspends a table of the trail.
  package func hold(_ trail: TrailName, through number: UInt64?) {
    state.withLock { $0.index.hold(trail.description, through: number) }
  }
}
