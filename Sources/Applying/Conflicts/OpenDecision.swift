import Changes
import Mapping
import PostgresKit
import SQLiteKit

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

  static let columns = "schema_name, table_name, key, settled, decided"

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

  var isLocked: Bool { if case .locked = self { true } else { false } }

  fileprivate static func refused(_ decision: OpenDecision, _ why: String) -> Self {
    .refused(
      "table \(decision.table), row \(decision.key.shown): what this node decides for all others is refused here (\(why)), so it is not decided; write the row as it is to be, or mend the constraint and restart the apply"
    )
  }
}

/// The open decisions of an SQLite target.
struct SQLiteDecisions {
  let database: Database

  func install() throws {
    try database.execute(
      """
      CREATE TABLE IF NOT EXISTS cairn_decision(schema_name TEXT, table_name TEXT, key TEXT, settled TEXT, decided TEXT,
        PRIMARY KEY (table_name, key)) WITHOUT ROWID
      """)
  }

  func isEmpty() throws -> Bool { try database.integer("SELECT 1 FROM cairn_decision LIMIT 1") == nil }

  /// - Parameter keepsEarlier: Whether an open decision about the same row keeps the row that was decided first.
  func note(_ decision: OpenDecision, keepsEarlier: Bool) throws {
    try database.run(
      """
      INSERT INTO cairn_decision(\(OpenDecision.columns)) VALUES (?, ?, ?, ?, ?)
      ON CONFLICT DO UPDATE SET settled = excluded.settled\(keepsEarlier ? "" : ", decided = excluded.decided")
      """,
      decision.texts.map { $0.map { .text($0) } ?? .null })
  }

  func forget(_ table: String, _ key: ConflictRow) throws {
    try database.run("DELETE FROM cairn_decision WHERE table_name = ? AND key = ?", [.text(table), .text(key.json)])
  }

  /// Writes the rows as an application would, each in a transaction of its own. On a connection on which triggers fire.
  ///
  /// - Parameter scope: the tables that the apply may write: other roles and programs may write decisions too.
  func make(within scope: TargetScope) throws -> DecisionOutcome {
    var outcome = DecisionOutcome.done
    let rows = try database.query("SELECT \(OpenDecision.columns) FROM cairn_decision")
    for texts in rows {
      guard let decision = OpenDecision(texts.map { $0 == .null ? nil : $0.string }) else { continue }
      do {
        try database.transaction {
          do { try SQLiteTurnedRow(database, decision.turned(within: scope)).put(decision.decided) } catch let error
            as CairnError
            where error.code == .conflictStale
          {}
          try forget(decision.table, decision.key)
        }
      } catch let error as SQLiteError where error.isBusy { return .locked } catch let error as SQLiteError
        where error.isConstraint
      { outcome = .refused(decision, error.message) } catch let error as CairnError where error.code == .tableForbidden
      {
        outcome = .refused(decision, error.message)
      }
    }
    return outcome
  }
}

/// The open decisions of a PostgreSQL target.
struct PostgresDecisions {
  let connection: PostgresConnection

  func install() throws {
    try connection.execute(
      """
      CREATE TABLE IF NOT EXISTS cairn.decision(schema_name text, table_name text, key text, settled text, decided text,
        PRIMARY KEY (schema_name, table_name, key))
      """)
  }

  func isEmpty() throws -> Bool { try connection.first("SELECT 1 FROM cairn.decision LIMIT 1") == nil }

  /// - Parameter keepsEarlier: Whether an open decision about the same row keeps the row that was decided first.
  func note(_ decision: OpenDecision, keepsEarlier: Bool) throws {
    try connection.run(
      """
      INSERT INTO cairn.decision(\(OpenDecision.columns)) VALUES ($1, $2, $3, $4, $5)
      ON CONFLICT (schema_name, table_name, key)
        DO UPDATE SET settled = excluded.settled\(keepsEarlier ? "" : ", decided = excluded.decided")
      """, decision.texts)
  }

  func forget(_ namespace: String, _ table: String, _ key: ConflictRow) throws {
    try connection.run(
      "DELETE FROM cairn.decision WHERE schema_name = $1 AND table_name = $2 AND key = $3",
      [namespace, table, key.json])
  }

  /// Writes the rows as an application would, each in a transaction of its own. In a session in which triggers fire.
  ///
  /// - Parameter scope: the tables that the apply may write: other roles and programs may write decisions too.
  func make(within scope: TargetScope) throws -> DecisionOutcome {
    var outcome = DecisionOutcome.done
    for texts in try connection.query("SELECT \(OpenDecision.columns) FROM cairn.decision") {
      guard let decision = OpenDecision(texts) else { continue }
      do {
        try connection.transaction {
          do { try PostgresTurnedRow(connection, decision.turned(within: scope)).put(decision.decided) } catch let error
            as CairnError
            where error.code == .conflictStale
          {}
          try forget(decision.namespace, decision.table, decision.key)
        }
      } catch let error as PostgresError where error.isLockTimeout || error.isTransient {
        return .locked
      } catch let error as PostgresError where error.isOfRow {
        outcome = .refused(decision, error.message)
      } catch let error as CairnError where [.tableForbidden, .ownersCode].contains(error.code) {
        outcome = .refused(decision, error.message)
      }
    }
    return outcome
  }
}

extension PostgresError {
  /// Whether a constraint, a type, or a trigger of the application refuses the row.
  fileprivate var isOfRow: Bool { isConstraint || isBadValue || sqlState == "P0001" }
}
