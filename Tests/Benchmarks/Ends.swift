import PostgresKit
import SQLiteKit
import TestServers

/// The database at an end, by its URL.
enum Ends {
  static func path(_ url: String) -> String { String(url.dropFirst("sqlite://".count)) }

  static func digest(_ url: String, _ table: String, _ columns: [String]) throws -> Digest {
    if url.hasPrefix("sqlite:") {
      return try Digest(try Database(path: path(url), mode: .readOnly), table: table, columns: columns)
    }
    let connection = try PostgresConnection(url, application: "cairn-bench")
    try connection.execute("SET search_path = public")
    return try Digest(connection, table: table, columns: columns)
  }

  /// Throws if the table differs between the ends.
  static func judge(_ from: String, _ to: String, _ pair: Pair) throws {
    let expected = try digest(from, "sale", SalesLoad.columns)
    let found = try digest(to, "sale", SalesLoad.columns)
    guard found == expected else {
      throw TestFailure("sale has \(expected) at the source, \(found) at the target of \(pair.name)")
    }
  }

  /// A new source with the table of sales.
  static func source(_ stage: Stage, _ engine: Engine, rows: Int) throws -> String {
    switch engine {
    case .sqlite:
      let path = try stage.freshFolder("source") + "/source.db"
      try SQLiteSales(path).create(rows: rows)
      return "sqlite://\(path)"
    case .postgres:
      let url = try stage.server(.source).createDatabase("bench")
      try PostgresSales(url).create(rows: rows)
      return url
    }
  }

  /// Does the work of autovacuum, which is off, so that all targets are in the same state.
  static func vacuum(_ url: String) throws {
    guard !url.hasPrefix("sqlite:") else { return }
    try PostgresConnection(url, application: "cairn-bench").execute("VACUUM ANALYZE")
  }

  /// A new place for the target of a pair.
  static func target(_ stage: Stage, _ engine: Engine, _ name: String = "target") throws -> String {
    switch engine {
    case .sqlite: "sqlite://" + (try stage.freshFolder(name)) + "/target.db"
    case .postgres: try stage.server(.target).createDatabase(name)
    }
  }
}
