import Changes
import Conflicts
import Mapping
import PostgresKit
import SystemKit
import Trails

/// The connection over which a replay writes a trail to its target, and the group's transaction there.
final class PostgresSession {
  let connection: PostgresConnection
  let name: TrailName
  let options: ApplyOptions
  let clock: Clock
  let progress: ApplyProgress
  let reader: ApplyReader
  /// Whether statements are sent one at a time, so that each answer is known before the next statement.
  let isCareful: Bool
  let state: PostgresApplyState
  let sink: PostgresSink
  let own: OwnStatements
  /// The transaction number in the applied note of this group. Nil before the group's transaction begins at the target.
  private(set) var head: UInt64?
  /// The number of the group, counted by this replay.
  private(set) var group: UInt64 = 0
  /// The last transaction of the trail that the target has.
  var applied: UInt64
  var sequences = SequenceUpkeep()
  /// The conflicts that were logged since the last commit.
  var conflicts = 0
  /// For each table of this group that runs code which an untrusted role may change: the check that the code is
  /// unchanged.
  private var watched: [OwnersWatch] = []
  private var checked = GroupChecks()

  init(
    _ connection: PostgresConnection, _ name: TrailName, _ options: ApplyOptions, _ clock: Clock,
    _ progress: ApplyProgress, _ reader: ApplyReader, applied: UInt64, isCareful: Bool
  ) {
    (self.connection, self.name, self.options) = (connection, name, options)
    (self.clock, self.progress, self.reader, self.isCareful) = (clock, progress, reader, isCareful)
    self.applied = applied
    state = PostgresApplyState(connection, of: name)
    sink = PostgresSink(connection)
    own = OwnStatements(PostgresStateDatabase(connection: connection))
  }

  var proof: OwnersProof { OwnersProof(connection: connection, options: options) }

  // MARK: The transaction

  /// Prepares for a group whose transaction begins later.
  func openGroup() { head = nil }

  /// Begins the target's transaction for a group, and writes the group's applied note into it. By the note, capture
  /// recognizes apply's transaction.
  ///
  /// - Parameter number: The transaction in the note; 0 if the group has no changes.
  func begin(_ note: AppliedNote, as number: UInt64) throws {
    head = number
    group += 1
    watched.removeAll(keepingCapacity: true)
    checked = GroupChecks()
    try sink.queue(own.begin)
    try sink.queue(own.message, [note.text])
  }

  /// Prepares for a transaction that begins without a sink, besides the groups.
  func beginAlone() { checked = GroupChecks() }

  func log(_ record: ConflictRecord) throws {
    try sink.queue(own.noteConflict, ConflictColumns.texts(record))
    conflicts += 1
  }

  /// In the group's transaction, deletes conflicts older than 30 days from the conflict log. Does so at most once an
  /// hour, and only if the group logged conflicts.
  func pruneConflicts(_ pruning: ConflictPruning) throws {
    guard conflicts > 0, let before = pruning.due(clock) else { return }
    try sink.settle()
    _ = try ConflictLog(connection).prune(before: before)
  }

  // MARK: Code and rights of tables

  /// Returns whether ``look(_:)`` must be called before the group's next row of a table.
  func isDue(_ watch: OwnersWatch) -> Bool { head != nil && watch.isDue(in: group) }

  /// Queues the check that a table's code is unchanged. Called once per group, before its first row of the table.
  func look(_ watch: OwnersWatch) throws {
    try watch.look(in: group, sink)
    watched.append(watch)
    // A fault is then known to be of this table.
    if isCareful { try sink.settle() }
  }

  /// Queues the check, for tables with code of untrusted roles, that their names still mean the checked tables.
  ///
  /// - Parameter tables: The open tables. Other ones have been altered or dropped since.
  func proveWatched(_ tables: some Sequence<PostgresApplyTable>) throws {
    guard !watched.isEmpty else { return }
    let known = Set(tables.compactMap { $0.watch.map(ObjectIdentifier.init) })
    for watch in watched where known.contains(ObjectIdentifier(watch)) { try watch.prove(sink) }
  }

  /// Returns whether waiting rows may be written to a table. False if the write would run code of an untrusted role, or
  /// if apply lacks a right.
  func mayJudge(in target: PostgresTargetTable) throws -> Bool {
    let name = NameKey(target.qualifiedName)
    if let known = checked.judgeable[name] { return known }
    var isTrusted = true
    do {
      try TableRights.check(target, named: "\(target.schema).\(target.name)", connection)
      _ = try proof.code(of: target, "\(target.schema).\(target.name)", isWrittenNow: true)
    } catch let error as CairnError where [.ownersCode, .privilegeMissing].contains(error.code) {
      isTrusted = false
      progress.note("rows that wait for a unique value cannot be written yet: \(error.message)")
    }
    checked.judgeable[name] = isTrusted
    return isTrusted
  }

  /// Returns whether the rights for the resolution of a table's conflicts must be checked: once per group.
  func areRightsDue(on table: PostgresApplyTable) -> Bool {
    checked.entitled.insert(NameKey(table.target.qualifiedName)).inserted
  }

  // MARK: The end

  func keepUpIdentities(isLast: Bool) throws { try sequences.keepUp(connection, isLast: isLast) }

  func abandon() { sink.abandon() }
}
