import Changes
import Mapping
import Statements

/// A statement that was executed once more did not do what it did at the source: its group is rolled back, and done again
/// with its rows.
struct StatementDiffers: Error {
  let position: Position
  let text: String
  /// Why its rows are applied.
  let reason: String

  init(_ running: StatementDesk.Running, _ reason: String = StatementDesk.different) {
    (position, text, self.reason) = (running.position, running.text, reason)
  }
}

/// Decides which statements of a trail are executed once more, and sees that they do what they did at the source. One for
/// an apply, whatever becomes of its replays.
final class StatementDesk {
  /// Fewer rows are applied as fast by themselves.
  static let rowsMin: UInt64 = 1000
  /// Statements that are remembered since they did something else at the target.
  private static let differingMax = 1000

  /// A statement that was executed, or is now, while its changes are passed over.
  struct Running {
    let position: Position
    let text: String
    let table: String
    var digest = StatementDigest()
  }

  private enum State {
    case none
    /// It waits for its first change, with which its table is known.
    case offered(ExecutedStatement, Position)
    case running(Running)
  }

  let policy: ReplayPolicy
  private let progress: ApplyProgress
  private var state = State.none
  /// Changes of the statement that runs which were passed over, and the schema id of the last of them.
  private var passed: UInt64 = 0
  private var passedSchema: UInt64 = 0
  private var isRunning = false
  /// Where statements stand whose rows are to be applied.
  private var refused: [Position: String] = [:]
  /// Texts of statements that did something else, or that the target did not take, with the reason.
  private var differing: [NameKey: String] = [:]
  /// Of the group that is open.
  private var counts = StatementCounts()
  private var tables = SourceTables()

  /// Nil where rows are all that is wanted, or others write to them too.
  init?(_ options: ApplyOptions, _ progress: ApplyProgress) {
    guard options.replay != .rows, options.twoWay == nil else { return nil }
    (policy, self.progress) = (options.replay, progress)
  }

  // MARK: Along the trail

  /// A replay begins, from a border of transactions.
  func begin() {
    forget()
    counts = StatementCounts()
    tables.begin()
  }

  /// A statement begins.
  func offer(_ statement: StatementView, at position: Position) throws {
    try checkIdle()
    forget()
    if let reason = refused[position] { return counts.addRows(reason) }
    // Those that change the schema affect no row.
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

  /// The statement that waits to be decided upon, with the change that it begins with.
  func takeOffered() -> (ExecutedStatement, Position)? {
    guard case .offered(let statement, let position) = state else { return nil }
    state = .none
    return (statement, position)
  }

  /// Its changes are passed over from now on.
  func run(_ running: Running) {
    (state, isRunning) = (.running(running), true)
    (passed, passedSchema) = (0, 0)
  }

  /// The statement whose changes are passed over has been executed.
  func ran(_ digest: StatementDigest) {
    guard case .running(var running) = state else { return }
    running.digest = digest
    state = .running(running)
  }

  func refuse(_ reason: String) { counts.addRows(reason) }

  /// Whether a change is one of the statement that was executed. Throws ``StatementDiffers`` where it is of another table.
  func passes(_ change: ChangeView, _ reader: ApplyReader) throws -> Bool {
    guard isRunning else { return false }
    // A transaction stands in one segment, in which an id is one table.
    if change.schemaID != passedSchema {
      if case .running(let running) = state, reader.given(change.schemaID)?.name.nameKey != running.table.nameKey {
        throw StatementDiffers(running)
      }
      passedSchema = change.schemaID
    }
    passed += 1
    return true
  }

  /// Anything else while a statement's changes are passed over: it did more than it can do again.
  func checkIdle() throws {
    if case .running(let running) = state { throw StatementDiffers(running) }
  }

  /// The end of a statement. Throws ``StatementDiffers`` where it did something else here.
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

  /// The group is done again with the rows of a statement.
  func note(_ differs: StatementDiffers) {
    refused[differs.position] = differs.reason
    if differing.count >= Self.differingMax { differing.removeAll() }
    differing[differs.text] = differs.reason
  }

  /// A group was committed: nothing before this place is read again.
  func committed(through position: Position) {
    if !refused.isEmpty { refused = refused.filter { $0.key >= position } }
    guard counts != StatementCounts() else { return }
    let counts = counts
    self.counts = StatementCounts()
    progress.update { $0.statements.add(counts) }
  }

  // MARK: Tables

  /// A table of the source, by its name in lower case, as the trail has it here; nil where a rule makes another one of it.
  func source(_ name: String, _ reader: ApplyReader) -> TableSchema? {
    tables.note(segment: reader.position.segment) { id in
      reader.given(id).map { (table: $0, isAsItIs: reader.isAllowed(id) && reader.schema(id) == $0) }
    }
    return tables[name]
  }
}
