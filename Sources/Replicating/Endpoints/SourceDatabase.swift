import Capturing
import Changes
import PostgresKit
import SQLiteKit
import SystemKit

/// The source of a replication, with an open connection.
///
/// Only requests for a refresh write to the source, such as ``askForCopies(of:trail:)``. All checks only read.
///
///     let source = try SourceDatabase(try DatabaseURL("sqlite:shop.db"))
///     let tables = try source.tables(TablePatterns(["orders"]))
package struct SourceDatabase {
  package enum Handle {
    case sqlite(Database)
    case postgres(PostgresConnection)
  }
  package let url: DatabaseURL
  package let handle: Handle

  /// A table of the source, and whether capture can take the table.
  package struct Table {
    package let name: String
    package let schema: TableSchema
    /// The reason why the table cannot be captured, with the remedy; nil if there is none.
    package let refusal: String?
    /// The statements that make it possible to capture the table, joined with "; "; empty if none are needed.
    package var mend = ""
    /// Whether another session keeps the table locked. Then ``schema`` has no columns.
    package var isLocked = false
  }

  /// Opens the database, and checks that it can be captured, without writing.
  package init(_ url: DatabaseURL) throws {
    self.url = url
    switch url {
    case .sqlite(let path):
      let database = try Ends.open(path, mode: .readWrite)
      database.forbidForeignCode()
      handle = .sqlite(database)
    case .postgres(let uri):
      let connection = try PostgresConnection(uri)
      try PostgresSource.check(connection, newSlots: 0)
      handle = .postgres(connection)
    }
  }

  /// The connection; nil for an SQLite file.
  package var server: PostgresConnection? { if case .postgres(let connection) = handle { connection } else { nil } }

  package func identity() throws -> DatabaseIdentity? {
    switch handle {
    case .sqlite(let database): FileIdentity(path: database.path).map { .file($0) }
    case .postgres(let connection): try DatabaseIdentity(connection)
    }
  }

  /// Returns the tables that match the patterns, including those that cannot be captured.
  ///
  /// - Parameter passesLocked: Whether a table that another session keeps locked is returned with that as its refusal.
  ///   If false, such a table is waited for, up to five seconds.
  /// - Throws: `database-busy` with the session that keeps a table locked.
  package func tables(_ patterns: TablePatterns, passesLocked: Bool = false) throws -> [Table] {
    switch handle {
    case .sqlite(let database):
      return try database.transaction("BEGIN") { try database.userTables() }
        .filter { patterns.includes($0.name) }
        .map { Table(name: $0.name, schema: $0.schema, refusal: $0.refusal) }
    case .postgres(let connection):
      let (readable, locked) = try connection.tables(passesLocked: passesLocked, patterns.includes)
      let taken = readable.map { table -> Table in
        let mend = table.refusal.map { $0.mend.isEmpty ? "" : "; run: \($0.mend)" } ?? ""
        return Table(
          name: table.displayName, schema: table.schema, refusal: table.refusal.map { $0.reason + mend },
          mend: table.refusal?.mend ?? "")
      }
      let passed = locked.map { locked -> Table in
        let refusal = "\(locked.reason); \(locked.remedy)"
        return Table(
          name: locked.table.displayName, schema: locked.table.schema, refusal: refusal, isLocked: true)
      }
      return taken + passed
    }
  }

  /// Returns the notices of a start about what the source has, and a target does not get or an application notices.
  package func startNotices() throws -> [String] {
    switch handle {
    case .sqlite(let database): try StartNotices.of(database)
    case .postgres(let connection): try StartNotices.of(connection)
    }
  }

  /// Returns the names of all tables. Waits for no locks in PostgreSQL.
  package func tableNames() throws -> [String] {
    switch handle {
    case .sqlite: try tables(TablePatterns()).map(\.name)
    case .postgres(let connection): try connection.userTableNames().map(\.displayName)
    }
  }

  /// Requests a refresh of the tables that match the patterns. Returns their names, without tables that cannot be
  /// captured.
  /// - Parameter trail: The trail of the capture.
  package func askForCopies(of patterns: TablePatterns, trail: TrailID) throws -> [String] {
    var asked: [String] = []
    for table in try tables(patterns) where table.refusal == nil {
      switch handle {
      case .sqlite(let database):
        do { try Journal(database).askForCopy(of: table.name) } catch let error as CairnError
          where error.code == .tableMissing
        { continue }
      case .postgres(let connection):
        try PostgresSource.askForCopy(
          of: table.schema.name, namespace: table.schema.namespace, on: connection, trail: trail)
      }
      asked.append(table.name)
    }
    return asked
  }

  /// Requests that the capture of an SQLite file starts a refresh of the given tables at its next run. Does nothing for
  /// PostgreSQL.
  package func askForRefresh(of tables: TablePatterns) throws {
    if case .sqlite(let database) = handle { try Journal(database).askForRefresh(of: tables) }
  }

  /// Requests that the capture of an SQLite source starts a refresh of all tables, for `--existing overwrite`. Does
  /// nothing for PostgreSQL.
  package func askForRefresh() throws {
    if case .sqlite(let database) = handle { try Journal(database).askForRefresh() }
  }
}
