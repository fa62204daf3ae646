import Changes
import Conflicts
import SQLiteKit
import Synchronization
import Trails

/// The row versions of one database that some node may not know yet. They come from the database's own trail, and from
/// the trails of peers that are applied to it.
///
/// An incoming change is in conflict if the window has a version of its row that the author of the change did not know.
/// All apply workers of a database share one window, and any thread may call it. How to use it:
///
/// 1. At the start: ``addPeer(_:folder:)`` for every trail that is applied. Then ``read(_:through:rowNames:)`` for
///    each, and ``catchUp(rowNames:)``, or ``putOffCatchUp()`` if ``isOwnOnly``. Until all trails have been read,
///    answers may lack versions and the window forgets nothing: see ``isComplete``.
/// 2. For each incoming transaction: ``meet(_:of:at:)``. For each of its changes: ``follow(_:_:)``, or
///    ``concurrent(_:with:seen:)`` and ``note(_:_:)``. At the end: ``commit(_:)`` after the target has committed, or
///    ``rollback(_:)`` if it has not.
///
/// After an error, roll the group back and apply it again. If a trail could not be read, the window then reads it
/// again.
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
    /// The name of a trail that a new trail has replaced since the window read it; nil if there is none.
    var begunAgain: TrailName?
  }

  /// Creates an empty window; opens no file. Above `spillRows` versions, the window keeps them in a temporary file.
  package init(own: TrailName, ownFolder: String, spillRows: Int = 1_000_000) {
    self.own = own
    ownTrail = OwnTrail(ownFolder)
    state = Mutex(State(index: WindowIndex(own: own.description, spillRows: spillRows)))
  }

  /// Adds a trail of a peer that is applied to the database. Add all such trails before the first one is read.
  package func addPeer(_ trail: TrailName, folder: String) {
    state.withLock {
      $0.folders[trail] = folder
      $0.index.add(trail.description)
    }
  }

  /// Stores the id of a trail by its name. Throws `busy` if the window has read another trail of this name. The
  /// versions of that trail do not count for the new one, so a new window is needed.
  package func identify(_ trail: TrailName, _ id: TrailID) throws(CairnError) {
    let isSame = state.withLock { state in
      let isSame = state.index.identify(trail.description, id)
      if !isSame { state.begunAgain = trail }
      return isSame
    }
    if !isSame { try check() }
  }

  /// Returns the id of the trail with a name; nil if the window has not read that trail.
  package func id(of trail: String) -> TrailID? { state.withLock { $0.index.id(of: trail) } }

  /// Throws `busy` if a trail was replaced by a new one since the window read it.
  package func check() throws(CairnError) {
    guard let trail = state.withLock({ $0.begunAgain }) else { return }
    throw CairnError(
      .busy, "trail \(trail) was replaced by a new one since the applies to this database started",
      hint: "nothing to do: the applies start again by themselves", remedy: .retry,
      context: ["trail": trail.description])
  }

  /// Returns which transactions the author of a transaction knew, from the transaction's header: for each trail, by
  /// name, the last one. Header entries without a trail id, or about another trail of the same name, are left out.
  /// Trails that are not in the window are included.
  package func seen(_ header: TransactionHeader) -> [String: UInt64] { state.withLock { $0.index.seen(header) } }

  private func withState<T: Sendable>(_ body: (inout State) throws -> T) throws -> T {
    do { return try state.withLock { try body(&$0) } } catch let error as SQLiteError {
      throw error.asCairnError
    }
  }
}

// MARK: - Reading trails

extension VersionWindow {
  /// Continues to read the trail of this database's own capture, to its durable end. Returns the number of transactions
  /// read.
  ///
  /// `rowNames` returns the rows of a change: none, one, or the old and the new one if the key changed. `learn` is
  /// called at each schema change, before later rows are read, with the table before and after it.
  @discardableResult
  package func catchUp(
    rowNames: (TableSchema, ChangeView) throws -> ChangedRows,
    learn: (DDL, TableSchema?, TableSchema) -> Void = { _, _, _ in }
  ) throws -> Int {
    do { return try readOn(rowNames, learn) } catch is FalseClaim { return try readOn(rowNames, learn) }
  }

  /// The error of a false statement: another node stated that it knew a transaction of this database's own trail before
  /// the transaction was written.
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
  ///
  /// - Parameter number: The last transaction of that part, as the database's checkpoint says; 0 without a checkpoint.
  /// - Parameter again: Whether to read that part once more, because the names (hashes) of rows have changed.
  package func read(
    _ trail: TrailName, through number: UInt64, again: Bool = false,
    rowNames: (TableSchema, ChangeView) throws -> ChangedRows
  ) throws {
    let name = trail.description
    let from = again ? 1 : firstNeeded(name)
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

  /// Postpones the first ``catchUp(rowNames:)`` while the window has only versions of this database's own trail. That
  /// trail is read as soon as versions of other trails come.
  package func putOffCatchUp() throws { try withState { try $0.index.endReading(own.description, through: 0) } }

  /// Whether the window has only versions of this database's own trail. If so, incoming transactions that change no
  /// rows can be applied before that trail has been read.
  package var isOwnOnly: Bool { state.withLock { $0.index.isOwnOnly } }

  /// Whether at least 16 segments of this database's own trail follow the first transaction that the window has not
  /// read.
  package var hasMuchUnread: Bool { get throws { try ownTrail.hasMuch(behind: firstNeeded(own.description)) } }

  private func firstNeeded(_ origin: String) -> UInt64 {
    state.withLock { $0.index.firstNeeded(origin) }
  }

  /// The number of versions in the window.
  package var count: Int { state.withLock { $0.index.count } }
  /// Whether the window has so many versions that it keeps them in a temporary file instead of in memory.
  package var isSpilled: Bool { state.withLock { $0.index.isSpilled } }

  /// Returns whether the window keeps a version that the node of this trail has not yet reported to know.
  package func isKept(for trail: TrailName) throws -> Bool {
    try withState { try $0.index.isKept(for: trail.description) }
  }

  /// Returns whether this database's own trail has every row of a table, also rows older than the trail; true if that
  /// is unknown.
  package func isWhole(_ table: String) -> Bool { state.withLock { $0.wholeTables.contains(table) } }

  /// The schema changes in which columns or tables of the database lost their names. It has those in the part of this
  /// database's own trail that has been read.
  package var columnSteps: [ColumnStep] { state.withLock { $0.columnSteps.all } }

  /// Whether all trails have been read far enough: up to the state that the database had at the start of the process.
  package var isComplete: Bool { state.withLock { $0.index.isRead } }

  /// The number of the last transaction of this database's own trail that has been read. `sourcePosition` is the last
  /// position in the source that was read from the trail; empty if there was none.
  package var ownReach: (number: UInt64, sourcePosition: [UInt8]) {
    state.withLock { ($0.reach.number, $0.reach.sourcePosition) }
  }

  /// Returns, for each trail, the position from which on a purge must keep the trail. After that position are versions
  /// that are still needed, or parts that have not been read yet. A peer's trail that is not needed is not in the
  /// result.
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

// MARK: - Applying

extension VersionWindow {
  /// Returns the header of an incoming transaction without false statements about this database's own trail. A
  /// statement is false if the author claims to have known a transaction that this trail does not have yet.
  ///
  /// A false statement without a trail id is removed, because an earlier version of Cairn may have meant an older trail
  /// of this name. A false statement with the trail's id is an error.
  ///
  /// - Parameter isApplied: Whether the transaction was applied before. If so, false statements are removed, and no
  ///   error is thrown.
  /// - Throws: `trail-forked` for a false statement with the trail's id. `trail-damaged` if the clock is not later than
  ///   the clock of the previous transaction in `trail`: the window relies on ascending clocks.
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

  /// Stores which transactions of other trails the author of an incoming transaction knew. Call it before apply writes
  /// the transaction.
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

  /// Adds the versions that a transaction gave to rows, if its author knew all versions of these rows in the window.
  /// Returns false, and adds nothing, if the author did not know one of them. Added versions are visible at once, as
  /// with ``note(_:_:)``.
  package func follow(_ rows: some Sequence<RowName> & Sendable, _ met: MetTransaction) throws -> Bool {
    try withState { try $0.index.follow(rows, met) }
  }

  /// Returns whether the transaction may be in conflict. False is certain: its author knew every version in the window.
  /// True does not prove a conflict.
  package func mayConcur(_ met: MetTransaction) -> Bool { state.withLock { $0.index.mayConcur(met) } }

  /// Returns the versions of a row that the author of `incoming` did not know, except `incoming` itself. They are in
  /// the order of their stamps (clock and origin). If there are none, there is no conflict. `seen` is the result of
  /// ``seen(_:)`` for the transaction of `incoming`.
  package func concurrent(_ row: RowName, with incoming: Stamp, seen: [String: UInt64]) throws
    -> [VersionPlace]
  {
    try withState { try $0.index.concurrent(row, with: incoming, seen: seen) }
  }

  /// Returns all versions of a row, by ascending stamps (clock and origin).
  package func versions(_ row: RowName) throws -> [VersionPlace] {
    try withState { try $0.index.versions(row) }
  }

  /// Returns a hash of the set of a row's versions, except those in `without`. `reached` has a transaction number for
  /// each trail; versions with higher numbers are left out.
  package func fingerprint(_ row: RowName, upTo reached: [String: UInt64], without: [Stamp]) throws
    -> VersionFingerprint
  {
    try withState { try $0.index.fingerprint(row, upTo: reached, without: without) }
  }

  /// Makes the window keep the last write of each row whose versions it has forgotten. A last write is kept as long as
  /// the window has an earlier version of any row. Call it before any trail is read.
  package func keepLasts() { state.withLock { $0.index.keepLasts() } }
  package var keepsLasts: Bool { state.withLock { $0.index.lasts.areKept } }

  /// Returns the last write of a row that has no versions left in the window. Nil if there was no write, if the write
  /// is earlier than all versions in the window, or if ``keepLasts()`` was not called.
  package func lastForgotten(_ row: RowName) -> Stamp? { state.withLock { $0.index.lastForgotten(row) } }

  /// Returns whether a reference in the window (a foreign key of another row) may be concurrent with a delete. False if
  /// the author of the delete knew all references.
  package func mayBeReferred(beside delete: Stamp, seen: [String: UInt64]) -> Bool {
    state.withLock { $0.index.mayBeReferred(beside: delete, seen: seen) }
  }

  /// Returns whether a row has a reference (a foreign key of another row) that is concurrent with a delete of the row:
  /// neither author knew the other's transaction. If so, the row is not deleted. `seen` has, for each trail, the last
  /// of its transactions that the author of the delete knew.
  package func isReferred(_ row: RowName, beside delete: Stamp, seen: [String: UInt64]) throws -> Bool {
    try withState { try $0.index.isReferred(row, beside: delete, seen: seen) }
  }

  /// Returns the places of the references for which ``isReferred(_:beside:seen:)`` returns true.
  package func references(to row: RowName, beside delete: Stamp, seen: [String: UInt64]) throws -> [VersionPlace] {
    try withState { try $0.index.references(to: row, beside: delete, seen: seen) }
  }

  /// Adds a version that apply is about to write; call it while the target holds the lock of the row. Other apply
  /// workers see the version at once, even if the target does not commit: conflicts are resolved from versions alone.
  package func note(_ row: RowName, _ place: VersionPlace) throws {
    try withState { try $0.index.note(row, place) }
  }

  /// Marks as committed the transactions of a trail that apply has processed since its last commit. Forgets versions
  /// that no query needs.
  package func commit(_ trail: TrailName) throws {
    try withState {
      $0.index.settle(trail.description)
      try $0.index.sweep()
    }
  }

  /// Forgets which transactions of a trail its apply has processed since its last commit. The target has rolled back,
  /// so apply will process them again.
  package func rollback(_ trail: TrailName) {
    state.withLock { $0.index.forgetMet(trail.description) }
  }

  /// Sets the last transaction of a peer's trail that shows which versions the peer knows. Use it while a table of the
  /// trail is suspended; nil removes this limit. Call it before the commit that suspends the table, and at a start
  /// before any trail is read.
  package func hold(_ trail: TrailName, through number: UInt64?) {
    state.withLock { $0.index.hold(trail.description, through: number) }
  }
}
