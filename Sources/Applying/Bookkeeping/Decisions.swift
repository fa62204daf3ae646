import Changes
import Mapping

/// A row that this node is about to decide for all nodes. The decision is a change of its own, which capture
/// replicates; until then, the row is the latest version at every node.
///
/// The target keeps the decision from the commit that settles the row to the one that writes it: in `cairn_decision`
/// (SQLite) or `cairn.decision` (PostgreSQL).
struct OpenDecision {
  /// PostgreSQL: the schema of the table; empty in SQLite.
  var namespace: String
  var table: String
  var key: ConflictRow
  /// The row until then; nil: not there. If the present row differs, an application has written to it since, and knew
  /// of all this.
  var settled: ConflictRow?
  /// The decided row; nil: not there.
  var decided: ConflictRow?

  static let columnNames = ["schema_name", "table_name", "key", "settled", "decided"]
  static let columns = columnNames.joined(separator: ", ")

  var texts: [String?] { [namespace, table, key.json, settled?.json, decided?.json] }

  init(namespace: String, table: String, key: ConflictRow, settled: ConflictRow?, decided: ConflictRow?) {
    (self.namespace, self.table, self.key, self.settled, self.decided) = (namespace, table, key, settled, decided)
  }

  /// Nil if this version of cairn did not write the texts.
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

  func turned(within scope: TargetScope) -> TurnedRow {
    TurnedRow(namespace: namespace, table: table, key: key, settled: settled, scope: scope) { why in
      CairnError(.conflictStale, "the row of table \(table), key \(key.shown), \(why)", hint: "", remedy: .badInput)
    }
  }
}

/// The result of making decisions.
enum DecisionOutcome {
  case done
  /// A session holds a lock: apply tries again.
  case locked
  /// The database refuses a decision, with a message for operators. Apply tries again with the next decision, and at a
  /// start.
  case refused(String)

  /// Why a target did not take a row.
  enum Refusal {
    case locked
    case refused(String)
  }

  var isLocked: Bool { if case .locked = self { true } else { false } }

  fileprivate static func refused(_ decision: OpenDecision, _ why: String) -> Self {
    .refused(
      "table \(decision.table), row \(decision.key.shown): what this node decides for all others is refused here (\(why)), so it is not decided; write the row as it is to be, or mend the constraint and restart the apply"
    )
  }
}

/// The open decisions of a target: `cairn_decision` in SQLite, `cairn.decision` in PostgreSQL. For one thread.
struct Decisions {
  private static let name = "decision"
  private let state: any StateDatabase

  init(_ state: some StateDatabase) { self.state = state }

  private var table: String { state.table(Self.name) }

  func install() throws { try state.createKeyed(Self.name, OpenDecision.columnNames) }

  func isEmpty() throws -> Bool { try state.rows("SELECT 1 FROM \(table) LIMIT 1").isEmpty }

  /// - Parameter keepsEarlier: Whether an open decision about the same row keeps the row that was decided first.
  func note(_ decision: OpenDecision, keepsEarlier: Bool) throws {
    try state.run(
      """
      INSERT INTO \(table)(\(OpenDecision.columns)) VALUES (\(state.marks(OpenDecision.columnNames.count)))
      ON CONFLICT (\(state.rowKey))
        DO UPDATE SET settled = excluded.settled\(keepsEarlier ? "" : ", decided = excluded.decided")
      """, decision.texts)
  }

  /// - Parameter namespace: The schema of the table; empty in SQLite.
  func forget(_ namespace: String, _ table: String, _ key: ConflictRow) throws {
    try state.run(
      "DELETE FROM \(self.table) WHERE schema_name = ? AND table_name = ? AND key = ?", [namespace, table, key.json])
  }

  /// Writes the rows as an application would, each in a transaction of its own. In a session in which triggers fire.
  ///
  /// - Parameter scope: the tables that the apply may write: other roles and programs may write decisions too.
  func make(within scope: TargetScope) throws -> DecisionOutcome {
    var outcome = DecisionOutcome.done
    for texts in try state.rows("SELECT \(OpenDecision.columns) FROM \(table)") {
      guard let decision = OpenDecision(texts) else { continue }
      do {
        try state.transaction {
          do { try state.turn(decision.turned(within: scope), to: decision.decided) } catch let error as CairnError
            where error.code == .conflictStale
          {}
          try forget(decision.namespace, decision.table, decision.key)
        }
      } catch {
        switch state.refusal(error) {
        case .locked: return .locked
        case .refused(let why): outcome = .refused(decision, why)
        case nil: throw error
        }
      }
    }
    return outcome
  }
}
