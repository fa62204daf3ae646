import Changes
import Mapping
import Statements

/// A repeated statement had another effect than at the source: its group is rolled back, and its rows are applied.
struct StatementDiffers: Error {
  let position: Position
  let text: String
  /// The reason why its rows are applied.
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
  /// The number of statements remembered because they had another effect at the target.
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
  /// The number of skipped changes of the running statement, and the schema id of the last one.
  private var passed: UInt64 = 0
  private var passedSchema: UInt64 = 0
  private var isRunning = false
  /// The places of statements whose rows are to be applied, with the reason.
  private var refused: [Position: String] = [:]
  /// The texts of statements that had another effect or that the target refused, with the reason.
  private var differing: [NameKey: String] = [:]
  /// The counts of the open group.
  private var counts = StatementCounts()
  private var tables = SourceTables()

  /// Nil if only rows are wanted, or if applications may write to them too.
  init?(_ options: ApplyOptions, _ progress: ApplyProgress) {
    guard options.replay != .rows, options.twoWay == nil else { return nil }
    (policy, self.progress) = (options.replay, progress)
  }

  // MARK: Along the trail

  /// Starts a replay, from a border of transactions.
  func begin() {
    forget()
    counts = StatementCounts()
    tables.begin()
  }

  /// Starts a statement.
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
    state = .offered(executed, position)
  }

  /// Removes and returns the statement that waits for a decision, when its first change comes.
  func takeOffered() -> (ExecutedStatement, Position)? {
    guard case .offered(let statement, let position) = state else { return nil }
    state = .none
    return (statement, position)
  }

  /// Starts skipping the changes of a statement.
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

  /// Returns whether a change belongs to the executed statement.
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

  /// Throws ``StatementDiffers`` if a statement's changes are being skipped: it did more than it can repeat.
  func checkIdle() throws {
    if case .running(let running) = state { throw StatementDiffers(running) }
  }

  /// Ends a statement.
  ///
  /// - Throws: ``StatementDiffers`` if it had another effect here.
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
  static let different = "they did something else at the target"

  /// Makes the next run of the group apply the rows of a statement.
  func note(_ differs: StatementDiffers) {
    refused[differs.position] = differs.reason
    if differing.count >= Self.differingMax { differing.removeAll() }
    differing[differs.text] = differs.reason
  }

  /// Records the commit of a group: nothing before this place is read again.
  func committed(through position: Position) {
    if !refused.isEmpty { refused = refused.filter { $0.key >= position } }
    guard counts != StatementCounts() else { return }
    let counts = counts
    self.counts = StatementCounts()
    progress.update { $0.statements.add(counts) }
  }

  // MARK: Tables

  /// Returns a table of the source by its name in lower case, as of this place; nil if a rule makes another table of
  /// it.
  func source(_ name: String, _ reader: ApplyReader) -> TableSchema? {
    tables.note(segment: reader.position.segment) { id in
      reader.given(id).map { (table: $0, isAsItIs: reader.isAllowed(id) && reader.schema(id) == $0) }
    }
    return tables[name]
  }
}
