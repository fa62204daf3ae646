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

  func parameter(_ number: Int) -> String { "?\(number)" }

  func parameter(_ number: Int, _ column: Int, of schema: TableSchema) -> String { parameter(number) }

  func references(to parent: TableSchema, among schemas: [TableSchema]) -> [UndoReference] {
    schemas.flatMap { child in
      child.foreignKeys.filter { $0.table.sqliteKey == parent.name.sqliteKey }.map { key in
        UndoReference(
          child: child.fullName, table: name(of: child), columns: key.columns.map { (child.columns[$0].name, "") },
          references: key.references.isEmpty
            ? parent.key
            : key.references.compactMap { name in
              parent.columns.firstIndex { $0.name.sqliteKey == name.sqliteKey }
            }, onDelete: key.onDelete, onUpdate: key.onUpdate)
      }
    }
  }

  func equality(_ number: Int, _ column: Int, of schema: TableSchema) -> String {
    let name = schema.columns[column].name.quotedName
    // 1 and 1.0 are different values that compare as equal.
    return "\(name) COLLATE BINARY IS ?\(number) AND typeof(\(name)) = typeof(?\(number))"
  }

  func rowPlace(in schema: TableSchema) -> String {
    let taken = Set(schema.columns.map { $0.name.sqliteKey })
    return ["rowid", "_rowid_", "oid"].first { !taken.contains($0.nameKey) } ?? "rowid"
  }

  func query(_ sql: String, _ values: [Value]) throws -> [[Value]] { try database.query(sql, values) }

  @discardableResult func execute(_ sql: String, _ values: [Value]) throws -> Int64 {
    try database.run(sql, values)
    return database.changes
  }

  func transaction<Result>(_ body: () throws -> Result) throws -> Result { try database.transaction { try body() } }

  func refusal(_ error: any Error) -> String? {
    guard let error = error as? SQLiteError, error.isConstraint else { return nil }
    return error.message
  }
}

extension UndoRun {
  /// - Parameter schemas: All tables of the database as they are now.
  package init(_ database: Database, schemas: [TableSchema]) throws {
    self.init(try SQLiteUndo(database), schemas: schemas)
  }
}
