import Changes
import Mapping
import SQLiteKit

/// The columns that ALTER TABLE ADD COLUMN has added at the end of a table. A refresh needs to send only rows in which
/// an added column differs from its default.
struct AddedColumns {
  private let columns: [TableSchema.Column]
  private let first: Int
  /// The value of each added column in rows that existed before the ALTER TABLE.
  let defaults: [Value]

  /// Reads the added columns from index `first` on; nil if their defaults are not known.
  init?(_ schema: TableSchema, from first: Int) {
    guard first > 0, first < schema.columns.count, schema.original == nil,
      schema.flags.isDisjoint(with: [.wholeRow, .nullableKey]), schema.key.allSatisfy({ $0 < first }),
      let values = try? Self.defaults(schema, first), let mapping = try? TableMapping(schema, to: .postgres),
      zip(first..., values).allSatisfy({ mapping.takesDefault($1, column: $0) })
    else { return nil }
    columns = Array(schema.columns[first...])
    defaults = values
    self.first = first
  }

  /// Returns whether shape `new` only adds columns at the end of `old`; old columns may have other names. Valid only if
  /// Cairn's triggers stayed in place during the change.
  static func areAll(between old: TableSchema, and new: TableSchema) -> Bool {
    new.columns.count > old.columns.count && old.flags == new.flags && old.key == new.key && old.uniques == new.uniques
      && zip(old.columns, new.columns).allSatisfy { $0.declaredType == $1.declaredType && $0.isNotNull == $1.isNotNull }
  }

  /// Computes the defaults by running the same ALTER on a table in memory. Returns nil if rows from before and after
  /// the ALTER would get different values.
  ///
  /// - Throws: If SQLite rejects the ALTER, as for a default that is not a constant.
  private static func defaults(_ schema: TableSchema, _ first: Int) throws -> [Value]? {
    let trial = try Database(path: ":memory:", mode: .create)
    let key = "cairn_key"
    try trial.execute("CREATE TABLE t(\(key) INTEGER PRIMARY KEY)\(schema.flags.contains(.strict) ? " STRICT" : "")")
    try trial.execute("INSERT INTO t VALUES (1)")
    // The types and defaults in the file are untrusted input too.
    let (known, left) = schema.parsed
    guard left.isEmpty else { return nil }
    for column in known.columns[first...] {
      let value = column.defaultText.map { " DEFAULT \($0)" } ?? ""
      try trial.define(
        "ALTER TABLE t ADD COLUMN \(column.name.quotedName) \(column.declaredType)\(column.isNotNull ? " NOT NULL" : "")\(value)",
        tables: ["t"])
    }
    try trial.execute("INSERT INTO t(\(key)) VALUES (2)")
    let names = schema.columns[first...].map(\.name.quotedName).joined(separator: ",")
    let rows = try trial.query("SELECT \(names) FROM t ORDER BY \(key)")
    guard rows.count == 2, zip(rows[0], rows[1]).allSatisfy({ isSame($0, $1) }) else { return nil }
    return rows[0]
  }

  private static func isSame(_ one: Value, _ other: Value) -> Bool {
    if case .real(let a) = one, case .real(let b) = other { return a.bitPattern == b.bitPattern }
    return one == other
  }

  /// Returns whether an added column of this row differs from its default, so that the refresh must send the row.
  func isOther(_ row: Statement) -> Bool {
    defaults.enumerated().contains { !Self.isSame(row.value(first + $0), $1) }
  }

  /// The SQL condition for the rows that the refresh must send, with its parameters. The condition may select some
  /// further rows.
  var condition: (sql: String, parameters: [Value]) {
    var terms: [String] = []
    var parameters: [Value] = []
    for (column, value) in zip(columns, defaults) {
      let name = column.name.quotedName
      switch value {
      case .null: terms.append("\(name) IS NOT NULL")
      case .integer:
        terms.append("typeof(\(name)) <> 'integer' OR \(name) <> ?")
        parameters.append(value)
      case .real:
        // 0.0 and -0.0 are equal in SQL.
        terms.append("typeof(\(name)) <> 'real' OR \(name) <> ? OR \(name) = 0")
        parameters.append(value)
      case .text, .exact:
        terms.append("typeof(\(name)) <> 'text' OR \(name) <> ? COLLATE BINARY")
        parameters.append(value)
      case .blob:
        terms.append("typeof(\(name)) <> 'blob' OR \(name) <> ?")
        parameters.append(value)
      }
    }
    return ("(" + terms.balanced("OR") + ")", parameters)
  }
}
