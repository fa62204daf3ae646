import Changes
import Mapping
import SQLiteKit

/// Columns that ALTER TABLE ADD COLUMN has put behind those that a table had.
///
/// Rows that were there have the column's default, at the source as in every target that makes the same change. Only rows
/// that were written between the ALTER and our new triggers may have something else, so only rows in which a new column is
/// not exactly its default have to be sent.
struct AddedColumns {
  private let columns: [TableSchema.Column]
  private let first: Int
  /// What SQLite gives for each of them in a row that was there before.
  let defaults: [Value]

  /// Nil where that is in doubt: then the table is copied. `first` is the first of the new columns.
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

  /// Whether `new` is `old` with columns at its end, perhaps under other names. The triggers are in place, so that each
  /// column is the one that stood there.
  static func areAll(between old: TableSchema, and new: TableSchema) -> Bool {
    new.columns.count > old.columns.count && old.flags == new.flags && old.key == new.key && old.uniques == new.uniques
      && zip(old.columns, new.columns).allSatisfy { $0.declaredType == $1.declaredType && $0.isNotNull == $1.isNotNull }
  }

  /// Asks SQLite itself, by the same ALTER in a table of its own. It refuses a default that is not a constant; what it
  /// takes for a row that was there and for one that is new must be the same, as a target may build its table anew.
  private static func defaults(_ schema: TableSchema, _ first: Int) throws -> [Value]? {
    let trial = try Database(path: ":memory:", mode: .create)
    let key = "cairn_key"
    try trial.execute("CREATE TABLE t(\(key) INTEGER PRIMARY KEY)\(schema.flags.contains(.strict) ? " STRICT" : "")")
    try trial.execute("INSERT INTO t VALUES (1)")
    // A type or default of the file is input too.
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

  /// Whether the row at hand, read with all columns of the table, has to be sent.
  func isOther(_ row: Statement) -> Bool {
    defaults.enumerated().contains { !Self.isSame(row.value(first + $0), $1) }
  }

  /// True for all rows in which one of the columns is not its default, whatever its collation says, and perhaps for some
  /// others; with the values of its parameters.
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
