import Glibc
import PostgresKit
import TestServers

/// PostgreSQL's own logical replication of the same tables, and of a mark that shows when the end has arrived.
final class NativeReplication {
  private let source: PostgresConnection
  private let target: PostgresConnection
  private static let name = "bench_native"
  /// Publishes the tables; `pg_recvlogical` reads it too.
  static let publication = "bench"
  /// The table whose row arrives last, after the backlog.
  static let markSchema = "CREATE TABLE mark(id integer PRIMARY KEY)"

  /// Prepares the replication. The tables exist at both ends, with equal rows; nothing is replicated before
  /// ``enable()``.
  init(source: PostgresConnection, sourceURL: String, targetURL: String, tables: [String]) throws {
    self.source = source
    target = try PostgresConnection(targetURL, application: "cairn-bench")
    try target.executeScript("SET search_path = public; \(Self.markSchema)")
    try source.executeScript(
      "CREATE PUBLICATION \(Self.publication) FOR TABLE \((tables + ["mark"]).joined(separator: ", "))")
    try source.query("SELECT pg_create_logical_replication_slot('\(Self.name)', 'pgoutput')")
    try target.executeScript(
      """
      CREATE SUBSCRIPTION \(Self.name) CONNECTION '\(sourceURL)' PUBLICATION \(Self.publication)
      WITH (enabled = false, create_slot = false, slot_name = '\(Self.name)', copy_data = false)
      """)
  }

  /// Enables the subscription, and waits until the mark is at the target. Returns the time in seconds.
  func drain() throws -> Double {
    let begun = Stopwatch()
    try enable()
    while try target.first("SELECT 1 FROM mark") == nil {
      guard begun.seconds < 1800 else { throw TestFailure("native replication does not come to an end") }
      usleep(5000)
    }
    return begun.seconds
  }

  func enable() throws { try target.execute("ALTER SUBSCRIPTION \(Self.name) ENABLE") }

  /// Drops the replication with its slot.
  func drop() throws {
    try target.execute("ALTER SUBSCRIPTION \(Self.name) DISABLE")
    try target.execute("ALTER SUBSCRIPTION \(Self.name) SET (slot_name = NONE)")
    try target.execute("DROP SUBSCRIPTION \(Self.name)")
  }

  func digest(table: String, columns: [String]) throws -> Digest {
    try Digest(target, table: table, columns: columns)
  }
}
