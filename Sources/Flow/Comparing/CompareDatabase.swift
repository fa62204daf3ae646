import Changes
import Mapping
import PostgresKit
import SQLiteKit
import Trails

/// An open database of a comparison, with its tables. Only the thread that opened the database may use it.
///
///     let source = try CompareDatabase(.sqlite(try Database(path: "shop.db", mode: .readOnly)))
package final class CompareDatabase {
  package enum Handle {
    case sqlite(Database)
    case postgres(PostgresConnection)
    case origin(OriginSource)
  }

  struct Table {
    let name: String
    let schema: TableSchema
    let refusal: String?
    /// Whether another session keeps the table locked, so that Cairn knows only the table's name.
    var isLocked = false
    /// Returns the table as one end of a comparison. The argument has the indexes of the compared columns.
    let end: ([Int]) -> TableEnd
  }

  package let handle: Handle
  package let engine: Engine
  let sortsByBytes: Bool
  /// Whether the database encodes text in UTF-8. True for a PostgreSQL source at another node.
  let isUTF8: Bool
  /// The tables of a source at another node, as that node describes them.
  private let told: [OriginTable]
  /// The SQLite tables that have a unique index with a descending column, which may be the index of the key.
  private var backwards: Set<NameKey> = []

  package init(_ handle: Handle) throws {
    self.handle = handle
    switch handle {
    case .sqlite(let database):
      try database.readEncoding()
      (engine, sortsByBytes, told) = (.sqlite, !database.isUTF16, [])
      isUTF8 = sortsByBytes
    case .origin(let origin):
      (engine, sortsByBytes, told) = try origin.tables()
      isUTF8 = sortsByBytes || engine == .postgres
      backwards = Set(told.filter(\.sortsBackwards).map { $0.schema.name.sqliteKey })
    case .postgres(let connection):
      (engine, told) = (.postgres, [])
      isUTF8 = try connection.first("SELECT current_setting('server_encoding')") == "UTF8"
      sortsByBytes =
        try isUTF8
        && connection.first(
          "SELECT datcollate IN ('C', 'POSIX') AND datlocprovider = 'c' FROM pg_database WHERE datname = current_database()"
        ) == "t"
    }
  }

  func tables(_ patterns: TablePatterns? = nil) throws -> [Table] {
    switch handle {
    case .sqlite(let database):
      return try database.transaction("BEGIN") {
        let tables = try database.userTables().filter { patterns?.includes($0.name) ?? true }
        let rows = try database.query(
          """
          SELECT m.name FROM sqlite_master AS m JOIN pragma_index_list(m.name) AS l JOIN pragma_index_xinfo(l.name) AS x
          WHERE m.type = 'table' AND l."unique" = 1 AND x.key = 1 AND x."desc" = 1
          """)
        backwards = Set(rows.map { $0[0].string.sqliteKey })
        return tables.map { table in
          Table(name: table.name, schema: table.schema, refusal: table.refusal) { columns in
            TableEnd(
              schema: table.schema, columns: columns, sqlName: table.name.quotedName, rowidName: table.rowidName)
          }
        }
      }
    case .postgres(let connection):
      let sortsByBytes = sortsByBytes
      let (tables, locked) = try connection.userTables(
        patience: "SET LOCAL lock_timeout = \(PostgresRowReader.patienceMilliseconds)")
      return (tables.map { ($0, false) } + locked.map { ($0, true) }).filter { patterns?.includes($0.0) ?? true }
        .map { table, isLocked in
          // Some properties make a table unfit for capture, but not for reading at the target.
          let refusal =
            isLocked
            ? "another session keeps it locked"
            : table.schema.columns.isEmpty
              ? table.refusal?.reason ?? "it has no column" : patterns == nil ? nil : table.refusal?.reason
          return Table(name: table.displayName, schema: table.schema, refusal: refusal, isLocked: isLocked) { columns in
            TableEnd(
              schema: table.schema, columns: columns, sqlName: table.sqlName, oid: table.oid,
              types: table.details.map(\.type), isPartitioned: table.isPartitioned, sortsByBytes: sortsByBytes)
          }
        }
    case .origin:
      let isSQLite = engine == .sqlite
      let sortsByBytes = sortsByBytes
      return told.filter { table in
        guard let patterns else { return true }
        return isSQLite ? patterns.includes(table.schema.name) : patterns.includes(table.schema)
      }.map { table in
        Table(name: table.name, schema: table.schema, refusal: table.refusal) { columns in
          TableEnd(
            schema: table.schema, columns: columns, sqlName: "", rowidName: table.rowidName,
            isPartitioned: table.isPartitioned, sortsByBytes: sortsByBytes)
        }
      }
    }
  }

  /// Returns whether an SQLite table has a unique index with a descending column, which may be the index of the key.
  func sortsBackwards(_ end: TableEnd) -> Bool { backwards.contains(end.schema.name.sqliteKey) }

  /// Returns the full names of the tables that Cairn created in this database. Nil if the database has no list of them,
  /// or is at another node.
  ///
  /// - Parameter trail: A trail of the replication. If the list has tables of this trail, tables that only other trails
  ///   write are left out.
  func createdTables(by trail: TrailName?) throws -> Set<NameKey>? {
    let trail = trail?.description ?? ""
    switch handle {
    case .sqlite(let database):
      guard try database.integer("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'cairn_table'") != nil
      else { return nil }
      let knowsTrails =
        try database.integer("SELECT 1 FROM pragma_table_info('cairn_table') WHERE name = 'trail'") != nil
      let isOurs =
        try knowsTrails
        && database.first("SELECT 1 FROM cairn_table WHERE trail = ? AND trail <> ''", [.text(trail)]) != nil
      let names = try database.query(
        """
        SELECT m.name FROM cairn_table AS t JOIN sqlite_master AS m ON lower(m.name) = lower(t.name) WHERE t.created
        \(isOurs ? "AND t.trail IN (?, '')" : "")
        """, isOurs ? [.text(trail)] : [])
      return Set(names.map { NameKey($0[0].string) })
    case .postgres(let connection):
      guard try connection.first("SELECT to_regclass('cairn.table_state')") != nil else { return nil }
      let rows = try connection.query(
        """
        WITH s AS (SELECT *, to_jsonb(t) ->> 'trail' AS of_trail FROM cairn.table_state AS t)
        SELECT schema_name || '.' || table_name FROM s WHERE created AND (coalesce(of_trail, '') IN ($1, '')
          OR NOT EXISTS (SELECT FROM s WHERE of_trail = $1))
        """, [trail])
      return Set(rows.compactMap { $0[0].map { NameKey($0) } })
    case .origin: return nil
    }
  }
}
