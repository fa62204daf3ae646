import PostgresKit
import TestServers

/// The changes that a program writes to a PostgreSQL source while cairn is off.
protocol DrainLoad {
  /// The tables, with their columns as SQL that prints the same in both engines.
  var tables: [(name: String, columns: [String])] { get }
  /// Creates the tables and their initial rows in a database of one of the servers.
  func create(_ server: PostgresServer, _ database: String) throws
  /// Writes the backlog. Returns the number of changed rows.
  func write(_ server: PostgresServer, _ database: String) throws -> Int
}

/// W1, W4 and W5: changes of the table of sales.
struct SalesLoad: DrainLoad {
  static let columns = ["id", "till", "CAST(price * 4 AS bigint)", "item", "sold_at"]
  let workload: Workload
  let backlog: Backlog

  var tables: [(name: String, columns: [String])] { [("sale", Self.columns)] }

  func create(_ server: PostgresServer, _ database: String) throws {
    try PostgresSales(server.url(database)).create(rows: backlog.rows)
  }

  func write(_ server: PostgresServer, _ database: String) throws -> Int {
    let sales = try PostgresSales(server.url(database))
    if workload == .oneTransaction {
      try sales.connection.executeScript("UPDATE sale SET till = till + 1")
    } else {
      try sales.write(backlog.changes, perTransaction: backlog.perTransaction)
    }
    return backlog.changes.count
  }
}

/// W2: the changes of pgbench in 30 seconds: three updates and one insert per transaction.
struct PgbenchLoad: DrainLoad {
  let scale: Int
  let seconds: Int

  let tables = [
    (name: "pgbench_accounts", columns: ["aid", "bid", "abalance"]),
    (name: "pgbench_branches", columns: ["bid", "bbalance"]), (name: "pgbench_tellers", columns: ["tid", "tbalance"]),
    (name: "pgbench_history", columns: ["tid", "bid", "aid", "delta", "mtime"]),
  ]

  init(_ options: BenchOptions) { (scale, seconds) = (options.scaled(10), options.scaled(30)) }

  func create(_ server: PostgresServer, _ database: String) throws {
    try server.run("pgbench", ["-i", "-q", "-s", "\(scale)", server.url(database)])
    // The table has no key, and none of its rows is updated or deleted.
    try server.psql("ALTER TABLE pgbench_history REPLICA IDENTITY FULL", database)
  }

  func write(_ server: PostgresServer, _ database: String) throws -> Int {
    try server.run(
      "pgbench", ["-n", "-c", "2", "-j", "1", "-M", "prepared", "-T", "\(seconds)", server.url(database)])
    return 4 * (Int(try server.psql("SELECT count(*) FROM pgbench_history", database)) ?? 0)
  }
}
