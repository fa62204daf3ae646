import Changes
import Mapping
import Statements

/// A statement that was executed once more did not do what it did at the source: its group is rolled back, and done again
/// with its rows.
struct StatementDiffers: Error {
  let position: Position
  let text: String

  init(_ running: StatementDesk.Running) { (position, text) = (running.position, running.text) }
}

/// Decides which statements of a trail are executed once more, and sees that they do what they did at the source. One for
/// an apply, whatever becomes of its replays.
final class StatementDesk {
  /// Fewer rows are applied as fast by themselves.
  static let rowsMin: UInt64 = 1000
  /// Statements that are remembered since they did something else at the target.
  private static let differingMax = 1000

  /// A statement that was executed, while its changes are passed over.
  struct Running {
    let position: Position
    let text: String
    let table: String
    let digest: StatementDigest
    var changes: UInt64 = 0
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
  /// Where statements stand whose rows are to be applied.
  private var refused: [Position: String] = [:]
  /// Texts of statements that did something else.
  private var differing: Set<String> = []
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
    state = .none
    counts = StatementCounts()
    tables.begin()
  }

  /// A statement begins.
  func offer(_ statement: StatementView, at position: Position) throws {
    state = .none
    if let reason = refused[position] { return counts.addRows(reason) }
    guard policy == .statements || statement.rowsAffected >= Self.rowsMin else {
      return counts.addRows("they wrote few rows")
    }
    let executed = try statement.executed()
    guard !differing.contains(executed.text) else { return counts.addRows(Self.different) }
    state = .offered(executed, position)
  }

  /// The statement that waits to be decided upon, with the change that it begins with.
  func takeOffered() -> (ExecutedStatement, Position)? {
    guard case .offered(let statement, let position) = state else { return nil }
    state = .none
    return (statement, position)
  }

  var isIdle: Bool { if case .none = state { true } else { false } }
  var isRunning: Bool { if case .running = state { true } else { false } }

  func run(_ running: Running) { state = .running(running) }
  func refuse(_ reason: String) { counts.addRows(reason) }

  /// A change of the statement that was executed. Throws ``StatementDiffers`` where it is one of another table.
  func pass(_ change: ChangeView, of schema: TableSchema?) throws {
    guard case .running(var running) = state else { return }
    guard schema?.name == running.table else { throw StatementDiffers(running) }
    running.changes += 1
    state = .running(running)
  }

  /// Anything else while a statement's changes are passed over: it did more than it can do again.
  func checkIdle() throws {
    if case .running(let running) = state { throw StatementDiffers(running) }
  }

  /// The end of a statement. Throws ``StatementDiffers`` where it did something else here.
  func end(_ end: StatementEnd) throws {
    defer { state = .none }
    switch state {
    case .none: break
    case .offered: counts.addRows("they changed nothing")
    case .running(let running):
      guard running.changes == end.changes, running.digest == end.digest else {
        throw StatementDiffers(running)
      }
      counts.addReplayed()
    }
  }

  // MARK: Groups

  private static let different = "they did something else at the target"

  /// The group is done again with the rows of a statement.
  func note(_ differs: StatementDiffers) {
    refused[differs.position] = Self.different
    if differing.count >= Self.differingMax { differing.removeAll() }
    differing.insert(differs.text)
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
      reader.given(id).map { (table: $0, isAsItIs: reader.schema(id) == $0) }
    }
    return tables[name]
  }
}
