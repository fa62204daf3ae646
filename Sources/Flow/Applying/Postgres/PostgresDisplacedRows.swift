import Changes
import Conflicts
import PostgresKit

extension WaitingRows {
  package init(_ connection: PostgresConnection) throws { try self.init(of: PostgresDisplacedRows(connection)) }
}

/// The waiting rows of a PostgreSQL target. No other query may be in progress on the connection.
struct PostgresDisplacedRows: DisplacedRowStore {
  let connection: PostgresConnection
  private let attempt: (() throws -> Void) throws -> Void
  private let isTrusted: (PostgresTargetTable) throws -> Bool
  private let tables = Tables()

  init(
    _ connection: PostgresConnection, attempt: @escaping (() throws -> Void) throws -> Void = { try $0() },
    isTrusted: @escaping (PostgresTargetTable) throws -> Bool = { _ in true }
  ) {
    (self.connection, self.attempt, self.isTrusted) = (connection, attempt, isTrusted)
  }

  var state: any StateDatabase { PostgresStateDatabase(connection: connection) }

  /// Returns whether any table of the database has a unique index besides its primary key. Otherwise there cannot be
  /// waiting rows.
  func mayCome() throws -> Bool {
    try connection.first(
      """
      SELECT 1 FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid JOIN pg_namespace n ON n.oid = c.relnamespace
      WHERE i.indisunique AND NOT i.indisprimary AND n.nspname NOT IN ('cairn', 'cairn_ddl', 'information_schema') AND n.nspname NOT LIKE 'pg\\_%'
      LIMIT 1
      """) != nil
  }

  func hasTable(of row: ContestedRow) throws -> Bool { try table(of: row) != nil }

  func mayWrite(_ row: ContestedRow) throws -> Bool { try table(of: row).map(isTrusted) ?? true }

  func isThere(_ row: ContestedRow) throws -> Bool {
    guard let table = try table(of: row) else { return false }
    return try connection.first(
      "SELECT 1 FROM \(table.rowsName) WHERE \(keyed(row, table, from: 1))", Self.values(row.key)) != nil
  }

  func put(_ row: ContestedRow, insteadOf others: [ContestedRow]) throws -> Bool {
    guard let table = try table(of: row) else { return false }
    for other in others {
      // If a session has changed the row meanwhile, its change comes first.
      let there = try rows(
        of: table, like: other, "\(keyed(other, table, from: 1)) FOR UPDATE", Self.values(other.key))
      guard there.first?.row == other.row else { throw LocalAhead() }
    }
    let given = row.row.columns.filter { column in table.column(column.name).map { !$0.isGenerated } ?? false }
    let names = given.map(\.name.quotedName).joined(separator: ",")
    let marks = given.indices.map { "$\($0 + 1)" }.joined(separator: ",")
    do {
      try attempt {
        for other in others {
          try connection.run(
            "DELETE FROM \(table.rowsName) WHERE \(keyed(other, table, from: 1))", Self.values(other.key))
        }
        try connection.run(
          "INSERT INTO \(table.qualifiedName)(\(names)) OVERRIDING SYSTEM VALUE VALUES (\(marks))",
          given.map(\.value.postgresInput))
      }
      return true
    } catch let error as PostgresError where error.isConstraint { return false }
  }

  func table(of row: ContestedRow) throws -> PostgresTargetTable? {
    let name = "\(row.namespace.quotedName).\(row.table.quotedName)"
    if let known = tables.known[name] { return known }
    let table = try PostgresTargetTable.read(row.namespace, row.table, connection)
    tables.known[name] = .some(table)
    return table
  }

  private final class Tables { var known: [NameKey: PostgresTargetTable?] = [:] }

  func rows(
    of table: PostgresTargetTable, like row: ContestedRow, given: String = "", _ condition: String, _ values: [String?]
  ) throws -> [ContestedRow] {
    let columns = table.columns.filter { !$0.isGenerated }
    let texts = columns.map { "\($0.name.quotedName)::text" }.joined(separator: ",")
    return try connection.query("\(given) SELECT \(texts) FROM \(table.rowsName) WHERE \(condition)", values).map {
      texts in
      let values = zip(columns, texts).map { column, text in
        text.map { PostgresForm.value(Array($0.utf8), column.type) } ?? .null
      }
      let found = ConflictRow(columns.map(\.name), values)
      let key = ConflictRow(row.key.columns.map { .init($0.name, found[$0.name] ?? .null) })
      return ContestedRow(namespace: row.namespace, table: row.table, key: key, row: found)
    }
  }

  static func values(_ row: ConflictRow) -> [String?] { row.columns.map(\.value.postgresInput) }

  func keyed(_ row: ContestedRow, _ table: PostgresTargetTable, from first: Int) -> String {
    row.key.columns.enumerated().map { Self.term($1.name, table, first + $0) }.joined(separator: " AND ")
  }

  private static func term(_ name: String, _ table: PostgresTargetTable, _ place: Int) -> String {
    let column = table.column(name)
    return "\(name.quotedName) \(column?.equality ?? "=") $\(place)" + (column.map { "::\($0.castType)" } ?? "")
  }
}
