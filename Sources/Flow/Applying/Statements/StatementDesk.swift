import Changes
import Mapping
import Statements
import SystemKit

/// The error for a repeated statement that had another effect than at the source. Its group is rolled back, and its
/// rows are applied.
struct StatementDiffers: Error {
  let position: Position
  let text: String
  /// The reason why the statement's rows are applied.
  let reason: String

  init(_ running: StatementDesk.Running, _ reason: String = StatementDesk.different) {
    (position, text, self.reason) = (running.position, running.text, reason)
  }
}

/// Decides which statements of a trail are executed again, and checks that they have the same effect as at the source.
///
/// One instance serves an apply over all its replays.
final class StatementDesk {
  /// The least number of rows for which a statement is executed: fewer rows are applied as fast by themselves.
  static let rowsMin: UInt64 = 1000
  /// The most statements that are remembered because their effect at the target differed from that at the source.
  private static let differingMax = 1000

  /// A statement that was executed or is being executed, while its changes are skipped.
  struct Running {
    let position: Position
    let text: String
    let table: String
    var digest = StatementDigest()
  }

  private enum State {
    case none
    /// The statement waits for its first change, which shows its table.
    case offered(ExecutedStatement, Position)
    case running(Running)
  }

  let policy: ReplayPolicy
  private let progress: ApplyProgress
  private var state = State.none
  /// The number of skipped changes of the running statement. ``passedSchema`` is the schema id of the last one.
  private var passed: UInt64 = 0
  private var passedSchema: UInt64 = 0
  private var isRunning = false
  /// The places of statements whose rows are applied, with the reasons.
  private var refused: [Position: String] = [:]
  /// The texts of statements that the target refused, or whose effect there differed from that at the source, with the
  /// reasons.
  private var differing: [NameKey: String] = [:]
  /// The counts of statements in the open group.
  private var counts = StatementCounts()
  private var tables = SourceTables()
  private var time: StatementTime

  /// Creates the desk. Returns nil if the options want only rows, or if replication is two-way.
  init?(_ options: ApplyOptions, _ progress: ApplyProgress) {
    guard options.replay != .rows, options.twoWay == nil else { return nil }
    (policy, self.progress) = (options.replay, progress)
    time = StatementTime(milliseconds: options.statementMilliseconds)
  }

  // MARK: Along the trail

  /// Forgets everything about the open group, when a replay begins at a border of transactions.
  func begin() {
    forget()
    counts = StatementCounts()
    tables.begin()
  }

  /// Takes a statement of the trail: it is executed with its first change, or its rows are applied.
  func offer(_ statement: StatementView, at position: Position) throws {
    try checkIdle()
    forget()
    if let reason = refused[position] { return counts.addRows(reason) }
    // Statements that change the schema affect no row.
    guard policy == .statements || statement.rowsAffected >= Self.rowsMin || statement.rowsAffected == 0 else {
      return counts.addRows(Self.few)
    }
    let executed = try statement.executed()
    if executed.rowsAffected == 0, Unreplayable.isSchemaChange(executed.text) {
      return counts.addRows(Unreplayable.schemaChange.reason)
    }
    guard policy == .statements || executed.rowsAffected > 0 else { return counts.addRows(Self.few) }
    if let reason = differing[executed.text] { return counts.addRows(reason) }
    guard !time.isOver(now: Clock.monotonicMilliseconds) else { return counts.addRows(Self.pause) }
    state = .offered(executed, position)
  }

  /// Removes and returns the statement that was offered, when its first change comes; nil if none was.
  func takeOffered() -> (ExecutedStatement, Position)? {
    guard case .offered(let statement, let position) = state else { return nil }
    state = .none
    return (statement, position)
  }

  /// Starts skipping the changes of a statement that is executed.
  func run(_ running: Running) {
    (state, isRunning) = (.running(running), true)
    (passed, passedSchema) = (0, 0)
  }

  /// Records the digest of the executed statement whose changes are skipped.
  func ran(_ digest: StatementDigest) {
    guard case .running(var running) = state else { return }
    running.digest = digest
    state = .running(running)
  }

  func refuse(_ reason: String) { counts.addRows(reason) }

  /// Returns the time in which a statement must be executed, ms.
  func millisecondsMax(_ statement: ExecutedStatement) -> Int64 { time.limit(rows: statement.rowsAffected) }

  /// Records that a statement was undone because it took too long.
  func ranOut(_ statement: ExecutedStatement) {
    let limit = millisecondsMax(statement)
    time.ranOut(after: limit, now: Clock.monotonicMilliseconds)
    differing[statement.text] = Self.tooLong
    progress.note(
      "a statement of the trail ran longer than \(limit / 1000) s and was rolled back: its rows are applied instead, and no statement is executed for \(limit * 9 / 1000) s (\(statement.text.prefix(200)))"
    )
  }

  /// Returns whether a change belongs to the executed statement, so that it is skipped.
  ///
  /// - Throws: ``StatementDiffers`` if the change is of another table.
  func passes(_ change: ChangeView, _ reader: ApplyReader) throws -> Bool {
    guard isRunning else { return false }
    // A transaction lies in one segment, in which an id is one table.
    if change.schemaID != passedSchema {
      if case .running(let running) = state, reader.given(change.schemaID)?.name.nameKey != running.table.nameKey {
        throw StatementDiffers(running)
      }
      passedSchema = change.schemaID
    }
    passed += 1
    return true
  }

  /// Throws ``StatementDiffers`` if a statement's changes are being skipped: the next record is none of these.
  func checkIdle() throws {
    if case .running(let running) = state { throw StatementDiffers(running) }
  }

  /// Ends the statement that was begun last.
  ///
  /// - Throws: ``StatementDiffers`` if the statement had another effect here.
  func end(_ end: StatementEnd) throws {
    defer { forget() }
    switch state {
    case .none: break
    case .offered: counts.addRows("they changed nothing")
    case .running(let running):
      guard passed == end.changes, running.digest == end.digest else {
        throw StatementDiffers(running)
      }
      counts.addReplayed()
    }
  }

  private func forget() { (state, isRunning) = (.none, false) }

  // MARK: Groups

  private static let few = "they wrote few rows"
  static let notTaken = "the target does not take them"
  static let tooLong = "they take too long at the target"
  private static let pause = "a statement took too long shortly before"
  static let different = "they did something else at the target"

  /// Records that a statement's effect at the target differed from that at the source. When its group is applied again,
  /// the statement's rows are applied instead.
  func note(_ differs: StatementDiffers) {
    refused[differs.position] = differs.reason
    if differing.count >= Self.differingMax { differing.removeAll() }
    differing[differs.text] = differs.reason
  }

  /// Records the commit of a group through a place in the trail: nothing before that place is read again.
  func committed(through position: Position) {
    if !refused.isEmpty { refused = refused.filter { $0.key >= position } }
    guard counts != StatementCounts() else { return }
    let counts = counts
    self.counts = StatementCounts()
    progress.update { $0.statements.add(counts) }
  }

  // MARK: Tables

  /// Returns a table of the source as of this place, by its name in lower case. Nil if there is none, or if a rule
  /// makes another table of it.
  func source(_ name: String, _ reader: ApplyReader) -> TableSchema? {
    tables.note(segment: reader.position.segment) { id in
      reader.given(id).map { (table: $0, isAsItIs: reader.isAllowed(id) && reader.schema(id) == $0) }
    }
    return tables[name]
  }
}
