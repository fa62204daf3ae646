import Changes
import SQLiteKit

/// The statements of an undo in an SQLite file.
struct SQLiteUndo: UndoDatabase {
  let database: Database

  /// Makes the connection one like an application's: triggers fire, and foreign keys are checked.
  init(_ database: Database) throws {
    self.database = database
    // The application's own triggers fire here, and write to its full-text tables.
    database.trustSchema()
    try database.watchText()
    try database.execute("PRAGMA foreign_keys = ON")
  }

  var place: String { database.path }
  // A transaction that writes excludes all others that write.
  var rowLock: String { "" }
  var orAbort: String { " OR ABORT" }
  var overriding: String { "" }

  func hold(_ schema: TableSchema) {}

  func name(of schema: TableSchema) -> String { schema.name.quotedName }
  func rowsName(of schema: TableSchema) -> String { name(of: schema) }

  func parameter(_ number: Int, _ column: Int, of schema: TableSchema) -> String { "?\(number)" }

  /// The foreign keys of all tables, also of those that are not captured.
  func references(to parent: TableSchema) throws -> [UndoReference] {
    let rows = try database.query(
      """
      SELECT m.name, f.id, f."from", f."to", f.on_delete, f.on_update FROM sqlite_master AS m
        CROSS JOIN pragma_foreign_key_list(m.name) AS f
      WHERE m.type = 'table' AND f."table" = ?1 COLLATE NOCASE ORDER BY m.rowid, f.id, f.seq
      """, [.text(parent.name)])
    return Dictionary(grouping: rows) { $0.prefix(2) }.values.map { group in
      let child = group[0][0].string
      let references =
        group.allSatisfy { $0[3] == .null }
        ? parent.key
        : group.compactMap { row in parent.columns.firstIndex { $0.name.sqliteKey == row[3].string.sqliteKey } }
      return UndoReference(
        child: child, table: child.quotedName,
        conditions: zip(references, group).map { condition(parent.columns[$0], $1[2].string) },
        references: references, onDelete: group[0][4].string, onUpdate: group[0][5].string)
    }
  }

  /// Returns the comparison of the action of a foreign key. The collation of the column on the left counts.
  private func condition(_ key: TableSchema.Column, _ column: String) -> String {
    let (parent, child) = ("parent.\(key.name.quotedName)", "child.\(column.quotedName)")
    // In the action, a column without a type, or of type ANY, has no affinity, which `+` takes away here.
    return key.affinity == "BLOB" || key.declaredType.asciiUppercased == "ANY"
      ? "(\(parent) = \(child) OR +\(parent) = \(child))" : "\(parent) = \(child)"
  }

  func equality(_ number: Int, _ column: Int, of schema: TableSchema) -> String {
    let name = schema.columns[column].name.quotedName
    // 1 and 1.0 are different values that compare as equal.
    return "\(name) COLLATE BINARY IS ?\(number) AND typeof(\(name)) = typeof(?\(number))"
  }

  func rowPlace(in schema: TableSchema) throws -> String { try RowidName(of: schema.name, in: database).text }

  func query(_ sql: String, _ values: [Value]) throws -> [[Value]] { try database.query(sql, values) }
  func queryAllRows(_ sql: String, _ values: [Value]) throws -> [[Value]] { try query(sql, values) }

  @discardableResult func execute(_ sql: String, _ values: [Value]) throws -> Int64 {
    try database.run(sql, values)
    return database.changes
  }

  func transaction<Result>(_ body: () throws -> Result) throws -> Result { try database.transaction { try body() } }

  func refusal(_ error: any Error) -> String? {
    guard let error = error as? SQLiteError, error.isOfRow else { return nil }
    return error.message
  }
}

extension UndoRun {
  /// - Parameter schemas: All tables of the database as they are now.
  package init(_ database: Database, schemas: [TableSchema]) throws {
    self.init(try SQLiteUndo(database), schemas: schemas)
  }
}
