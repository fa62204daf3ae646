import Changes
import Mapping

@testable import Statements

/// Tables that statements of the tests know, and what they are in PostgreSQL.
enum Fixture {
  static let item = TableSchema(
    epoch: 1, engine: .sqlite, name: "Item",
    columns: [
      .init(name: "id", declaredType: "INTEGER", isNotNull: true, keyOrdinal: 1),
      .init(name: "name", declaredType: "TEXT"), .init(name: "stock", declaredType: "INTEGER", defaultText: "0"),
      .init(name: "weight", declaredType: "REAL"), .init(name: "price", declaredType: "DECIMAL(10,2)"),
      .init(name: "sold", declaredType: "BOOLEAN", defaultText: "0"), .init(name: "made", declaredType: "TIMESTAMP"),
      .init(name: "code", declaredType: "TEXT", collation: "NOCASE"), .init(name: "photo", declaredType: "BLOB"),
    ], createText: "CREATE TABLE Item(id INTEGER PRIMARY KEY)")
  static let sale = TableSchema(
    epoch: 1, engine: .sqlite, name: "sale",
    columns: [
      .init(name: "shop", declaredType: "INTEGER", isNotNull: true, keyOrdinal: 1),
      .init(name: "number", declaredType: "INTEGER", isNotNull: true, keyOrdinal: 2),
      .init(name: "item", declaredType: "INTEGER"), .init(name: "note", declaredType: "TEXT"),
      .init(name: "at", declaredType: "TEXT", defaultText: "CURRENT_TIMESTAMP"),
    ])
  static let person = TableSchema(
    epoch: 1, engine: .sqlite, name: "person", flags: .autoincrement,
    columns: [
      .init(name: "id", declaredType: "INTEGER", isNotNull: true, keyOrdinal: 1),
      .init(name: "mail", declaredType: "TEXT", isNotNull: true),
    ], uniques: [[1]])
  /// A table of SQLite whose primary key may be NULL.
  static let loose = TableSchema(
    epoch: 1, engine: .sqlite, name: "loose", flags: .nullableKey,
    columns: [.init(name: "id", declaredType: "TEXT", keyOrdinal: 1), .init(name: "note", declaredType: "TEXT")])

  static func tables(_ name: String, isGuarded: Bool = true) -> StatementTable? {
    guard let schema = [item, sale, person, loose].first(where: { $0.name.asciiLowercased == name }),
      let mapped = try? TableMapping(schema, to: .postgres).target
    else { return nil }
    let full = "\(mapped.namespace.quotedName).\(mapped.name.quotedName)"
    return StatementTable(
      schema, isGuarded: isGuarded,
      postgres: .init(
        name: full, rowsName: "ONLY \(full)",
        columns: mapped.columns.map { (name: $0.name, type: PostgresType($0)) }))
  }

  /// 2026-11-22 14:30:05.250.
  static let now: Int64 = 1_795_357_805_250_000

  static func judge(
    _ sql: String, _ parameters: [Value] = [], for engine: Engine, now: Int64? = now, isGuarded: Bool = true
  ) -> Replayable {
    let statement = ExecutedStatement(dialect: .sqlite, text: sql, parameters: parameters, rowsAffected: 1, now: now)
    return .judge(statement, for: engine, tables: { tables($0, isGuarded: isGuarded) })
  }

  /// Returns the statement that the target executes, without RETURNING; else the reason, after "no: ".
  static func told(
    _ sql: String, _ parameters: [Value] = [], for engine: Engine, now: Int64? = now, isGuarded: Bool = true
  ) -> String {
    switch judge(sql, parameters, for: engine, now: now, isGuarded: isGuarded) {
    case .yes(let plan):
      shown(String(plan.sql[..<(plan.sql.range(of: " RETURNING ") ?? plan.sql.endIndex)]), plan, engine)
    case .no(let reason): "no: \(reason)"
    }
  }

  /// The statement with its bound texts as literals.
  private static func shown(_ sql: String, _ plan: ReplayPlan, _ engine: Engine) -> String {
    guard engine == .postgres else { return sql }
    return plan.parameters.indices.reversed().reduce(sql) { sql, index in
      sql.replacing("$\(index + 1)", with: plan.parameters[index].string.postgresLiteral)
    }
  }
}

extension String {
  /// Returns the place at which a text begins that occurs once.
  func range(of text: String) -> String.Index? {
    var index = startIndex
    while index < endIndex {
      if self[index...].hasPrefix(text) { return index }
      index = self.index(after: index)
    }
    return nil
  }
}
