import Applying
import Capturing
import Changes
import Mapping
import PostgresKit
import SystemKit
import SQLiteKit

/// The target database of a replication, with checks that write nothing.
///
///     let target = try TargetDatabase(try DatabaseURL("sqlite:copy.db"))
///     try target.checkpoint(of: trail)   // nil before the first apply
package struct TargetDatabase {
  package enum Handle {
    /// An SQLite file; nil if it does not exist yet.
    case sqlite(Database?)
    case postgres(PostgresConnection)
  }
  package let url: DatabaseURL
  package let handle: Handle

  /// Opens the database, and checks that it can be written, or created if it is an SQLite file.
  package init(_ url: DatabaseURL) throws {
    self.url = url
    switch url {
    case .sqlite(let path):
      try Ends.checkTarget(path)
      handle = .sqlite(FileIdentity(path: path) == nil ? nil : try Ends.open(path, mode: .readWrite))
    case .postgres(let uri): handle = .postgres(try PostgresApply.prove(uri))
    }
  }

  /// The connection to the PostgreSQL server; nil for an SQLite file.
  package var server: PostgresConnection? { if case .postgres(let connection) = handle { connection } else { nil } }

  /// Whether the SQLite file does not exist yet.
  package var isMissing: Bool { if case .sqlite(nil) = handle { true } else { false } }

  /// Returns how a source table maps to a table of the target. The types of an existing target table are used.
  /// - Parameter scope: The tables that apply may write; foreign keys to other tables are left out.
  package func mapping(of source: TableSchema, _ names: NamePolicy, within scope: TargetScope = TargetScope()) throws
    -> TableMapping
  {
    var reach = TargetReach(scope)
    if let server {
      var asked = ServerReach(scope, server)
      reach = try asked.of([source])
    }
    let mapping = try TableMapping(source, to: url.engine, names: names, reach: reach)
    switch handle {
    case .sqlite(let database):
      let there = try database?.transaction("BEGIN") { try database?.userTables() ?? [] }
        .first { $0.name.isSameInSQLite(as: mapping.target.name) }
      return there.map { mapping.onto($0.schema) } ?? mapping
    case .postgres(let server):
      let target = mapping.target
      let there = try server.tables(passesLocked: false) {
        $0.hasSameBytes(as: target.namespace) && $1.hasSameBytes(as: target.name)
      }.tables.first
      return there.map { mapping.onto($0.schema) } ?? mapping
    }
  }

  /// Returns whether the target has an object with the name of a table.
  package func hasTable(_ table: TableSchema) throws -> Bool {
    switch handle {
    case .sqlite(let database):
      try database?.integer("SELECT 1 FROM sqlite_master WHERE name = ? COLLATE NOCASE", [.text(table.name)]) != nil
    case .postgres(let connection): try connection.first("SELECT to_regclass($1)", [table.qualifiedName]) != nil
    }
  }

  /// Returns notices about generated columns that an earlier version of Cairn filled with NULL. Empty for SQLite.
  package func emptyColumns(of table: TableSchema) throws -> [String] {
    try server.map { try EmptyColumns.notices(table.namespace, table.name, $0) } ?? []
  }

  /// Returns whether a capture reads this database.
  package func isCaptured() throws -> Bool {
    switch handle {
    case .sqlite(let database): try database.map { try Journal($0).owner() != nil } ?? false
    case .postgres(let connection):
      try connection.first(
        "SELECT 1 FROM pg_replication_slots WHERE slot_name ~ '^cairn_' AND database = current_database()") != nil
    }
  }

  package func checkpoint(of trail: TrailName) throws -> Checkpoint? {
    switch handle {
    case .sqlite(let database): try database.map { try Checkpoints($0).checkpoint(of: trail) }??.checkpoint
    case .postgres(let connection): try Checkpoints(connection).checkpoint(of: trail)?.checkpoint
    }
  }

  /// Returns whether the target stores the state of any table of a trail.
  package func knowsTables(of trail: TrailName) throws -> Bool {
    switch handle {
    case .sqlite(let database): try database.map { try SQLiteApplyState($0, of: trail).knowsTables() } ?? false
    case .postgres(let connection): try PostgresApplyState(connection, of: trail).knowsTables()
    }
  }

  /// Returns the source names of the tables of a trail for which the target stores apply's state.
  package func tableNames(of trail: TrailName) throws -> [String] {
    switch handle {
    case .sqlite(let database): try database.map { try SQLiteApplyState($0, of: trail).tableNames() } ?? []
    case .postgres(let connection): try PostgresApplyState(connection, of: trail).tableNames()
    }
  }

  /// Returns the names by which a list of tables can refer to the target tables of a trail. Empty until the trail has
  /// brought its first table.
  package func listedNames(of trail: TrailName) throws -> [String] {
    switch handle {
    case .sqlite(let database): try database.map { try SQLiteApplyState($0, of: trail).targetNames() } ?? []
    case .postgres(let connection):
      try PostgresApplyState(connection, of: trail).targetNames().flatMap { table in
        TableSchema.listedNames(table.schema, table.name)
      }
    }
  }

  /// Returns the suspended tables of a trail.
  package func heldTables(of trail: TrailName) throws -> [HeldTable] {
    switch handle {
    case .sqlite(let database): try database.map { try SQLiteApplyState($0, of: trail).heldTables() } ?? []
    case .postgres(let connection): try PostgresApplyState(connection, of: trail).heldTables()
    }
  }

  /// Ends the suspension of the tables in `held`. Apply then skips the changes of each table until the table's next
  /// refresh begins.
  package func replace(_ held: [HeldTable], of trail: TrailName) throws {
    switch handle {
    case .sqlite(let database): try database.map { try SQLiteApplyState($0, of: trail).replace(held) }
    case .postgres(let connection): try PostgresApplyState(connection, of: trail).replace(held)
    }
  }

  package func forgetCheckpoint(of trail: TrailName) throws {
    switch handle {
    case .sqlite(let database): try database.map { try SQLiteApplyState($0).forgetCheckpoint(of: trail) }
    case .postgres(let connection): try PostgresApplyState(connection).forgetCheckpoint(of: trail)
    }
  }

  package func expectRefreshOfAll() throws {
    switch handle {
    case .sqlite(let database): try database.map { try SQLiteApplyState($0).expectRefreshOfAll() }
    case .postgres(let connection): try PostgresApplyState(connection).expectRefreshOfAll()
    }
  }

  /// Makes apply skip the changes of every table of a trail until the table's next refresh begins.
  package func expectRefresh(of trail: TrailName) throws {
    switch handle {
    case .sqlite(let database): try database.map { try SQLiteApplyState($0, of: trail).expectRefreshOfAll() }
    case .postgres(let connection): try PostgresApplyState(connection, of: trail).expectRefreshOfAll()
    }
  }

  /// Makes apply skip the changes of single tables of a trail until the next refresh of each begins.
  ///
  /// - Parameter isMeant: Returns whether a table is meant, from its names at the source and at the target.
  package func expectRefresh(of trail: TrailName, where isMeant: ([String]) -> Bool) throws {
    switch handle {
    case .sqlite(let database): try database.map { try SQLiteApplyState($0, of: trail).expectRefresh(where: isMeant) }
    case .postgres(let connection): try PostgresApplyState(connection, of: trail).expectRefresh(where: isMeant)
    }
  }

  /// Returns the names at the source and at the target, for each table of a trail that is not suspended.
  package func namedTables(of trail: TrailName) throws -> [[String]] {
    switch handle {
    case .sqlite(let database):
      try database.map { try SQLiteApplyState($0, of: trail).namedTables().map(\.names) } ?? []
    case .postgres(let connection): try PostgresApplyState(connection, of: trail).namedTables().map(\.names)
    }
  }

  /// Returns whether a table of the target exists and holds a row.
  /// - Parameter source: The table at the source. If trails share the target's table, only the rows of the source's
  ///   trail count.
  func holdsRows(_ table: TableSchema, sharedBy source: TableSchema) throws -> Bool {
    let shares = (source.treatment?.shares ?? []).compactMap { share in
      source.columns.firstIndex { $0.name.hasSameBytes(as: share.column) }.map {
        (column: table.columns[$0].name, value: share.value)
      }
    }
    let sign = if case .sqlite = handle { "?" } else { "$" }
    let terms = shares.indices.map { "\(shares[$0].column.quotedName) = \(sign)\($0 + 1)" }
    let condition = terms.isEmpty ? "" : " WHERE \(terms.joined(separator: " AND "))"
    switch handle {
    case .sqlite(let database):
      guard let database,
        try database.integer(
          "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ? COLLATE NOCASE", [.text(table.name)]) != nil
      else { return false }
      return try database.integer(
        "SELECT 1 FROM \(table.name.quotedName)\(condition) LIMIT 1", shares.map(\.value)) != nil
    case .postgres(let connection):
      // Apply suspends a table whose name another kind of object has, such as a view, and reads nothing of it.
      let isTable = try connection.first(
        "SELECT 1 FROM pg_class WHERE oid = to_regclass($1) AND relkind IN ('r', 'p')", [table.qualifiedName])
      guard isTable != nil else { return false }
      return try connection.reading(table.qualifiedName) {
        try connection.hold(table.qualifiedName)
        try connection.lockPlanning(of: table.qualifiedName)
        try connection.checkPlanning(of: table.qualifiedName, .ownersCode)
        for share in shares { try connection.checkCasts(of: table.qualifiedName, column: share.column) }
        let rows = try RowsName(table.qualifiedName, connection).text
        return try connection.first(
          "SELECT 1 FROM \(rows)\(condition) LIMIT 1", shares.map { $0.value.parameter }) != nil
      }
    }
  }

  /// Returns the identity of the database; nil if its file does not exist yet.
  package func identity() throws -> DatabaseIdentity? {
    switch handle {
    case .sqlite(let database): database.flatMap { FileIdentity(path: $0.path) }.map { .file($0) }
    case .postgres(let connection): try DatabaseIdentity(connection)
    }
  }

  /// Returns whether this database is the source.
  package func isSame(as source: SourceDatabase) throws -> Bool {
    guard let own = try identity() else { return source.url == url }
    return try own == source.identity()
  }
}

extension Value {
  /// The value as a parameter of PostgreSQL; nil for a blob or NULL.
  fileprivate var parameter: String? {
    switch self {
    case .integer(let number): String(number)
    case .real(let number): String(number)
    case .text(let bytes), .exact(let bytes): String(decoding: bytes, as: UTF8.self)
    case .blob, .null: nil
    }
  }
}
