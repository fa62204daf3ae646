import Changes
import Mapping
import Statements
import SystemKit

/// The error for a statement whose effect at the target differs from that at the source.
///
/// The group is rolled back and applied again with the statement's rows.
struct StatementDiffers: Error {
  let position: Position
  let text: String
  let reason: String

  init(_ running: StatementSession.Running, _ reason: String = StatementSession.different) {
    (position, text, self.reason) = (running.position, running.text, reason)
  }
}

/// Decides which statements of the source apply executes at the target, instead of writing their rows.
///
/// Checks that such a statement has the same effect as at the source.
final class StatementSession {
  /// The minimum number of changed rows for which apply executes a statement of the source.
  static let rowsMin: UInt64 = 1000
  private static let differingMax = 1000
  /// The maximum disk space that one statement may take, in bytes.
  static let diskBytesMax: Int64 = 1 << 30
  /// The number of failures of executed statements after which no statement is executed for a minute.
  private static let failuresMax = 16
  /// The number of failures in one group after which the group gets rows only. Each failure repeats the group.
  private static let failuresInGroupMax = 3
  private static let pauseMilliseconds: Int64 = 60_000
  /// The time in ms for which no statement is executed after the process or the server ended during one.
  private static let pauseAfterEnd: Int64 = 3_600_000

  /// A statement that is executed at the target, while its changes in the trail are skipped.
  struct Running {
    let position: Position
    let text: String
    let table: String
    var digest = StatementDigest()
  }

  private enum State {
    case none
    /// The statement was read from the trail, but not yet its first change, which shows the table.
    case offered(ExecutedStatement, Position)
    case running(Running)
  }

  let policy: ReplayPolicy
  private let progress: ApplyProgress
  private var state = State.none
  private var passed: UInt64 = 0
  private var passedSchema: UInt64 = 0
  private var isRunning = false
  /// The statements that are not executed at the target, by their positions in the trail, with the reasons.
  private var refused: [Position: String] = [:]
  /// The statements that the target refused or whose effects differed, by the hashes of their texts, with the reasons.
  private var differing: [UInt64: String] = [:]
  private var failures = 0
  /// The number of failures since the last commit of a group.
  private var failuresInGroup = 0
  private var counts = StatementCounts()
  private var tables = SourceTables()
  private var time: StatementTime
  private let mark: StatementMark?

  /// Creates the object. Nil if the options exclude executing statements, or if replication is two-way.
  init?(_ options: ApplyOptions, _ progress: ApplyProgress) throws {
    guard options.replay != .rows, options.twoWay == nil else { return nil }
    (policy, self.progress) = (options.replay, progress)
    time = StatementTime(milliseconds: options.statements.milliseconds)
    mark = try options.statements.mark.map { try StatementMark($0) }
    guard let mark, mark.wasSet else { return }
    pauseAfterEnd("Cairn or the server ended while a statement of the trail was executed")
    try mark.set(false)
  }

  private func pauseAfterEnd(_ reason: String) {
    time.pause(milliseconds: Self.pauseAfterEnd, now: Clock.monotonicMilliseconds)
    progress.note("\(reason): for an hour, rows are applied instead of statements")
  }

  // MARK: Along the trail

  func begin() {
    forget()
    counts = StatementCounts()
    tables.begin()
  }

  /// Receives a statement from the trail. Decides whether apply may execute it at the target, and counts the reason if
  /// not.
  func offer(_ statement: StatementView, at position: Position) throws {
    try checkIdle()
    forget()
    if let reason = refused[position] { return counts.addRows(reason) }
    // Statements that change the schema affect no row.
    guard policy == .statements || statement.rowsAffected >= Self.rowsMin || statement.rowsAffected == 0 else {
      return counts.addRows(Self.few)
    }
    if let tooLong = Unreplayable.tooLong(statement) { return counts.addRows(tooLong.reason) }
    let executed = try statement.executed()
    if let reason = differing[Self.hash(executed.text)] { return counts.addRows(reason) }
    guard failuresInGroup < Self.failuresInGroupMax, !time.isOver(now: Clock.monotonicMilliseconds) else {
      return counts.addRows(Self.pause)
    }
    if executed.rowsAffected == 0, Unreplayable.isSchemaChange(executed.text) {
      return counts.addRows(Unreplayable.schemaChange.reason)
    }
    guard policy == .statements || executed.rowsAffected > 0 else { return counts.addRows(Self.few) }
    state = .offered(executed, position)
  }

  /// Returns the statement whose changes come next in the trail, with its position. Nil if there is none, or if it was
  /// already returned.
  func takeOffered() -> (ExecutedStatement, Position)? {
    guard case .offered(let statement, let position) = state else { return nil }
    state = .none
    return (statement, position)
  }

  func run(_ running: Running) {
    (state, isRunning) = (.running(running), true)
    (passed, passedSchema) = (0, 0)
  }

  func ran(_ digest: StatementDigest) {
    guard case .running(var running) = state else { return }
    running.digest = digest
    state = .running(running)
  }

  func refuse(_ reason: String) { counts.addRows(reason) }

  func millisecondsMax(_ statement: ExecutedStatement) -> Int64 { time.limit(rows: statement.rowsAffected) }

  /// Decides whether the target can execute a statement. The time counts as that of a statement without rows.
  ///
  /// - Parameter tables: As in ``Replayable/judge(_:for:tables:)``.
  func judge(_ statement: ExecutedStatement, for engine: Engine, tables: (String) -> StatementTable?) throws
    -> Replayable
  {
    let begun = try noteBegin()
    let decision = Replayable.judge(statement, for: engine, tables: tables)
    took(since: begun, nil)
    return decision
  }

  /// Notes that the execution of a statement begins. Returns the monotonic time in ms.
  func noteBegin() throws -> Int64 {
    try mark?.set(true)
    return Clock.monotonicMilliseconds
  }

  /// Notes that the decision about a statement, or its execution, has ended.
  ///
  /// - Parameter begun: The monotonic time in ms at which it began.
  /// - Parameter digest: The digest of the rows that the statement wrote; nil if there is none.
  func took(since begun: Int64, _ digest: StatementDigest?) {
    // A mark that stays only makes the next start pause the execution.
    try? mark?.set(false)
    let now = Clock.monotonicMilliseconds
    time.took(now - begun, rows: digest.map { $0.written + $0.gone } ?? 0, now: now)
  }

  /// Notes that a statement was stopped after `spent` ms, at its limit of time or disk space, so that its rows are
  /// written instead.
  func ranOut(_ statement: ExecutedStatement, after spent: Int64) {
    time.ranOut(after: spent, now: Clock.monotonicMilliseconds)
    remember(statement.text, Self.tooLong)
    progress.note(
      "a statement of the trail ran longer than \(millisecondsMax(statement) / 1000) s, or took 1 GiB of the disk, and was rolled back: its rows are applied instead, and no statement is executed for \(spent * 9 / 1000) s (\(statement.text.prefix(200)))"
    )
  }

  /// Returns whether to skip a change because it belongs to the executed statement.
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

  /// Throws ``StatementDiffers`` if a statement's changes are still being skipped.
  func checkIdle() throws {
    if case .running(let running) = state { throw StatementDiffers(running) }
  }

  /// Ends the present statement of the trail. If apply has executed it, compares its effects at source and target.
  ///
  /// - Throws: ``StatementDiffers`` if the effects differ.
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

  // Another text with the same hash is not executed as a statement either, which does no harm.
  private static func hash(_ text: String) -> UInt64 { Array(text.utf8).withUnsafeBytes { XXHash64.of($0) } }

  private func forget() { (state, isRunning) = (.none, false) }

  // MARK: Groups

  private static let few = "they wrote few rows"
  static let notTaken = "the target does not take them"
  static let tooLong = "they take too long at the target"
  private static let pause = "a statement took too long, ended the server, or many failed at the target, shortly before"
  static let different = "they did something else at the target"

  /// Notes that a statement had another effect at the target, so that its rows are written instead.
  func note(_ differs: StatementDiffers) {
    refused[differs.position] = differs.reason
    failed(differs.text, differs.reason)
  }

  /// Notes that a statement failed at the target. From then on, apply writes the rows of statements with the same text.
  func failed(_ text: String, _ reason: String) {
    failures += 1
    failuresInGroup += 1
    if failures >= Self.failuresMax {
      failures = 0
      time.pause(milliseconds: Self.pauseMilliseconds, now: Clock.monotonicMilliseconds)
    }
    remember(text, reason)
  }

  private func remember(_ text: String, _ reason: String) {
    if differing.count >= Self.differingMax { differing.removeAll() }
    differing[Self.hash(text)] = reason
  }

  /// Notes that the server ended or lost the connection while it executed a statement. It may have run out of memory by
  /// this statement.
  func serverEnded(during text: String) {
    failed(text, Self.notTaken)
    // A new connection may mean a new object.
    try? mark?.set(true)
    pauseAfterEnd("the server ended while it executed a statement of the trail (\(text.prefix(200)))")
  }

  /// Forgets refused statements before `position`, and adds the group's counts to apply's progress. Called after the
  /// commit of a group that ends at `position`.
  func committed(through position: Position) {
    failuresInGroup = 0
    if !refused.isEmpty { refused = refused.filter { $0.key >= position } }
    guard counts != StatementCounts() else { return }
    let counts = counts
    self.counts = StatementCounts()
    progress.update { $0.statements.add(counts) }
  }

  // MARK: Tables

  /// Returns the source's schema of a table at the present position of the trail. Nil if there is no such table, or if
  /// a rule changes it.
  ///
  /// - Parameter name: The table's name in lower case.
  func source(_ name: String, _ reader: ApplyReader) -> TableSchema? {
    tables.note(segment: reader.position.segment) { id in
      reader.given(id).map { (table: $0, isAsItIs: reader.isAllowed(id) && reader.schema(id) == $0) }
    }
    return tables[name]
  }
}
