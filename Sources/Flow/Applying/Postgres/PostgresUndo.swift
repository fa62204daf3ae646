import Changes
import PostgresKit

/// The statements of an undo in a PostgreSQL database.
final class PostgresUndo: UndoDatabase {
  private static let patience = "SET LOCAL lock_timeout = 5000"

  private let connection: PostgresConnection
  /// The types of the columns of each table, for casts of parameters.
  private var types: [NameKey: [String]] = [:]

  init(_ connection: PostgresConnection) { self.connection = connection }

  var place: String { connection.place }
  var rowLock: String { " FOR UPDATE" }
  var orAbort: String { "" }
  var overriding: String { " OVERRIDING SYSTEM VALUE" }

  /// Locks the table, and checks that none of its triggers and functions belongs to an untrusted role: they run with
  /// the rights of this session.
  func hold(_ schema: TableSchema) throws {
    let table = name(of: schema)
    try connection.execute(Self.patience)
    // The application's own triggers may read views. A rollback ends the permission.
    try connection.allowViews()
    try connection.execute("LOCK TABLE \(table) IN ROW EXCLUSIVE MODE")
    try OwnersCode.lockReferencing(table, connection)
    try OwnersCode.read(table, fires: "AO", connection).check(schema.fullName, place: connection.place) { _ in false }
    // Policies apply as they do to an application; their code has just been looked at.
    try connection.execute("SET LOCAL row_security = on")
    let rows = try connection.query(
      """
      SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute
      WHERE attrelid = to_regclass($1) AND attnum > 0 AND NOT attisdropped
      """, [table])
    let types = Dictionary(rows.map { (NameKey($0[0] ?? ""), $0[1] ?? "") }) { $1 }
    self.types[table.nameKey] = schema.columns.map { types[NameKey($0.name)] ?? "text" }
  }

  func name(of schema: TableSchema) -> String { schema.postgresName }

  func parameter(_ number: Int, _ column: Int, of schema: TableSchema) -> String {
    guard let types = types[name(of: schema).nameKey] else { return "$\(number)" }
    return "$\(number)::\(types[column])"
  }

  func equality(_ number: Int, _ column: Int, of schema: TableSchema) -> String {
    // Some types have no equality operator.
    "\(schema.columns[column].name.quotedName)::text IS NOT DISTINCT FROM (\(parameter(number, column, of: schema)))::text"
  }

  func rowPlace(in schema: TableSchema) -> String { "tableoid, ctid" }

  func query(_ sql: String, _ values: [Value]) throws -> [[Value]] {
    try connection.query(sql, values.map(\.postgresInput)).map { row in
      row.map { $0.map { .exact(Array($0.utf8)) } ?? .null }
    }
  }

  @discardableResult func execute(_ sql: String, _ values: [Value]) throws -> Int64 {
    try connection.run(sql, values.map(\.postgresInput))
  }

  func transaction<Result>(_ body: () throws -> Result) throws -> Result { try connection.transaction { try body() } }

  func refusal(_ error: any Error) -> String? {
    guard let error = error as? PostgresError,
      error.isConstraint || error.isBadValue || ["P0001", "428C9"].contains(error.sqlState)
    else { return nil }
    return error.message
  }
}

extension TableSchema {
  fileprivate var postgresName: String { "\((namespace.isEmpty ? "public" : namespace).quotedName).\(name.quotedName)" }
}

extension UndoRun {
  /// - Parameter schemas: All tables of the database as they are now.
  package init(_ connection: PostgresConnection, schemas: [TableSchema]) {
    self.init(PostgresUndo(connection), schemas: schemas)
  }
}
