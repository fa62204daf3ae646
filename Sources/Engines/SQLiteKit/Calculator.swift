import CSQLite
import CShims
import Changes

/// Evaluates SQL expressions over the columns of one row, in an empty database in memory. Only expressions that a
/// generated column may have are allowed.
///
/// Source: https://sqlite.org/gencol.html
///
///     let sum = try Calculator(columns: [.init(name: "a", type: "INTEGER")], groups: [[("a + 1", false)]])
///     try sum.set([.integer(2)])
///     try sum.values(0) { index, value in print(value) }   // .integer(3)
package final class Calculator {
  /// A column that the expressions may use.
  ///
  ///     Calculator.Column(name: "price", type: "NUMERIC")
  package struct Column {
    package var name: String
    /// The declared type of the column, which determines its affinity.
    package var type: String
    /// The collation of the column: `BINARY`, `NOCASE` or `RTRIM`; empty for `BINARY`.
    package var collation: String
    package init(name: String, type: String, collation: String = "") {
      (self.name, self.type, self.collation) = (name, type, collation)
    }
  }

  private static let bytesMax: Int32 = 256 << 20
  private static let instructionsMax = 5_000_000

  private let database: Database
  private let limit = WorkLimit()
  private let write: Statement
  private let reads: [Statement]

  /// Prepares groups of expressions over the columns.
  ///
  /// - Parameter groups: The expressions. Those of a group are evaluated together; `isCondition` appends `IS TRUE`.
  /// - Throws: ``SQLiteError`` with SQLite's own message if a text is not an allowed expression.
  package init(columns: [Column], groups: [[(text: String, isCondition: Bool)]]) throws {
    database = try Database(path: ":memory:", mode: .create)
    // A name in double quotes that is no column is an error, not a text.
    _ = cairn_db_config_int(database.handle, Int32(SQLITE_DBCONFIG_DQS_DDL), 0)
    _ = cairn_db_config_int(database.handle, Int32(SQLITE_DBCONFIG_DQS_DML), 0)
    sqlite3_limit(database.handle, SQLITE_LIMIT_LENGTH, Self.bytesMax)
    limit.watch(database)
    let names = Set(columns.map { $0.name.sqliteKey })
    var prefix = "x"
    while names.contains(where: { $0.text.utf8.starts(with: prefix.utf8) }) { prefix += "_" }
    // WITHOUT ROWID, so an expression cannot read `rowid`.
    var lines = ["\(prefix) INTEGER PRIMARY KEY"]
    lines += columns.map { column in
      let collation =
        ["NOCASE", "RTRIM"].contains(column.collation.asciiUppercased) ? " COLLATE \(column.collation)" : ""
      return "\(column.name.quotedName) \(column.type.isEmpty ? "" : column.type.quotedName)\(collation)"
    }
    var number = 0
    var selected: [[String]] = []
    for group in groups {
      var terms: [String] = []
      for expression in group {
        let name = "\(prefix)\(number)"
        number += 1
        // The line break ends a comment that the text may end with.
        lines.append("\(name) AS (\(expression.text)\n)")
        terms.append(expression.isCondition ? "\(name) IS TRUE" : name)
      }
      selected.append(terms)
    }
    try database.execute("CREATE TABLE r(\(lines.joined(separator: ", "))) WITHOUT ROWID")
    let marks = columns.indices.map { "?\($0 + 1)" }
    let filled = [prefix] + columns.map(\.name.quotedName)
    write = try database.prepare(
      "REPLACE INTO r(\(filled.joined(separator: ", "))) VALUES (\((["1"] + marks).joined(separator: ", ")))")
    let made = database
    reads = try selected.map { terms in
      try made.prepare("SELECT \(terms.isEmpty ? "NULL" : terms.joined(separator: ", ")) FROM r")
    }
  }

  /// Sets the row for the expressions. The memory of the row's values must stay valid until the last evaluation.
  package func set(_ row: [ColumnView]) throws {
    limit.allow(Self.instructionsMax)
    for (index, value) in row.enumerated() { try write.bind(value, at: index + 1) }
    while try write.step() {}
  }

  /// Returns whether the first expression of the initializer's `groups[group]` is true for the current row.
  package func isTrue(_ group: Int) throws -> Bool {
    let statement = reads[group]
    limit.allow(Self.instructionsMax)
    defer { statement.reset() }
    return try statement.step() && statement.integer(0) == 1
  }

  /// Calls `body` with the index and value of each expression of a group. The values are valid during the call.
  package func values(_ group: Int, _ body: (Int, ColumnView) throws -> Void) throws {
    let statement = reads[group]
    limit.allow(Self.instructionsMax)
    defer { statement.reset() }
    guard try statement.step() else { return }
    for column in 0..<statement.columnCount { try body(column, statement.view(column)) }
  }
}
