import Changes
import Mapping

/// A decision of this node about a conflict, for all nodes. It is open until it is written as a separate change.
///
/// The target stores open decisions in `cairn_decision` (SQLite) or `cairn.decision` (PostgreSQL).
struct OpenDecision {
  var namespace: String
  var table: String
  var key: ConflictRow
  /// The row that the table must still have when the decision is written; nil: no row. If the table's row differs, an
  /// application has changed it, and the decision is dropped.
  var settled: ConflictRow?
  var decided: ConflictRow?

  static let columnNames = ["schema_name", "table_name", "key", "settled", "decided"]
  static let columns = columnNames.joined(separator: ", ")

  var texts: [String?] { [namespace, table, key.json, settled?.json, decided?.json] }

  init(namespace: String, table: String, key: ConflictRow, settled: ConflictRow?, decided: ConflictRow?) {
    (self.namespace, self.table, self.key, self.settled, self.decided) = (namespace, table, key, settled, decided)
  }

  init?(_ texts: [String?]) {
    guard texts.count == 5, let table = texts[1], let key = texts[2].flatMap({ ConflictRow(json: $0) }) else {
      return nil
    }
    let rows = texts[3...].map { $0.map { ConflictRow(json: $0) } }
    guard !rows.contains(where: { if case .some(nil) = $0 { true } else { false } }) else { return nil }
    self.init(
      namespace: texts[0] ?? "", table: table, key: key, settled: rows[0].flatMap(\.self),
      decided: rows[1].flatMap(\.self))
  }

  func turned(within scope: TargetScope) -> OverriddenRow {
    OverriddenRow(namespace: namespace, table: table, key: key, settled: settled, scope: scope) { why in
      CairnError(.conflictStale, "the row of table \(table), key \(key.shown), \(why)", hint: "", remedy: .badInput)
    }
  }
}

/// The result of writing open decisions.
enum DecisionOutcome {
  case done
  case locked
  /// The database refuses to write a decision. The value is a message for operators.
  case refused(String)

  /// The reason why a target refused to write the row of a decision.
  enum Refusal {
    case locked
    case refused(String)
  }

  var isLocked: Bool { if case .locked = self { true } else { false } }

  fileprivate static func refused(_ decision: OpenDecision, _ why: String) -> Self {
    .refused(
      "table \(decision.table), row \(decision.key.shown): this node decides the conflict for all nodes, but its database refuses the row (\(why)); write the row yourself, or fix the constraint and restart the apply"
    )
  }
}

/// The open decisions of a target. Not thread-safe.
struct Decisions {
  private static let name = "decision"
  private let state: any StateDatabase

  init(_ state: some StateDatabase) { self.state = state }

  private var table: String { state.table(Self.name) }

  func install() throws { try state.createKeyed(Self.name, OpenDecision.columnNames) }

  func isEmpty() throws -> Bool { try state.rows("SELECT 1 FROM \(table) LIMIT 1").isEmpty }

  /// Stores an open decision. Replaces an earlier decision about the same row.
  ///
  /// - Parameter keepsEarlier: Whether an earlier decision keeps its chosen row. Then only the row that the decision
  ///   expects in the table is updated.
  func note(_ decision: OpenDecision, keepsEarlier: Bool) throws {
    try state.run(
      """
      INSERT INTO \(table)(\(OpenDecision.columns)) VALUES (\(state.marks(OpenDecision.columnNames.count)))
      ON CONFLICT (\(state.rowKey))
        DO UPDATE SET settled = excluded.settled\(keepsEarlier ? "" : ", decided = excluded.decided")
      """, decision.texts)
  }

  /// Deletes the open decision about a row.
  ///
  /// - Parameter namespace: PostgreSQL: the schema of the row's table; empty in SQLite.
  /// - Returns: Whether there was such a decision.
  @discardableResult
  func forget(_ namespace: String, _ table: String, _ key: ConflictRow) throws -> Bool {
    try state.run(
      "DELETE FROM \(self.table) WHERE schema_name = ? AND table_name = ? AND key = ?", [namespace, table, key.json])
      > 0
  }

  /// Writes the rows of all open decisions, each in its own transaction, with triggers enabled. Stops at a row that is
  /// locked, and skips a row that the database refuses.
  ///
  /// - Parameter scope: The tables that the apply may write.
  func make(within scope: TargetScope) throws -> DecisionOutcome {
    var outcome = DecisionOutcome.done
    // Decisions that were written are deleted; those that the database refused are skipped.
    var passed = 0
    while true {
      let page = try state.rows(
        "SELECT \(OpenDecision.columns) FROM \(table) ORDER BY \(state.rowKey) LIMIT \(Self.pageRows) OFFSET \(passed)")
      for texts in page {
        guard let decision = OpenDecision(texts) else {
          passed += 1
          continue
        }
        do {
          let isGone = try state.transaction {
            do { try state.turn(decision.turned(within: scope), to: decision.decided) } catch let error as CairnError
              where error.code == .conflictStale
            {}
            return try forget(decision.namespace, decision.table, decision.key)
          }
          // A program that writes to the file can write a row that no statement of Cairn finds again.
          if !isGone { passed += 1 }
        } catch {
          passed += 1
          switch state.refusal(error) {
          case .locked: return .locked
          case .refused(let why): outcome = .refused(decision, why)
          case nil: throw error
          }
        }
      }
      if page.count < Self.pageRows { return outcome }
    }
  }

  /// The maximum number of open decisions in memory.
  private static let pageRows = 500
}
