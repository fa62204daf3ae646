import Changes
import PostgresKit
import SystemKit
import TestServers
import Testing

@testable import Comparing

@Suite(.serialized, .enabled(if: PostgresServer.isAvailable, "\(PostgresServer.problem ?? "")"))
struct PostgresRowReaderTests {
  @Test(arguments: ["a int, b text", "a int, b text) PARTITION BY RANGE (id"])
  func `a table that is rewritten is not taken for empty`(columns: String) throws {
    let server = try PostgresServer.shared
    let uri = try server.createDatabase("reader")
    defer { try? server.dropDatabase("reader") }
    try server.psql("CREATE TABLE t(id int PRIMARY KEY, \(columns))", "reader")
    if columns.contains("PARTITION") { try server.psql("CREATE TABLE t1 PARTITION OF t DEFAULT", "reader") }
    try server.psql("INSERT INTO t SELECT i, i, 'x' FROM generate_series(1, 100) AS i", "reader")
    let database = try CompareDatabase(.postgres(PostgresConnection(uri)))
    let table = try #require(try ComparePlan(database, database, TablePatterns(), .fold).tables.first)
    let reader = try PostgresRowReader(PostgresConnection(uri), .source, seed: 1)
    for type in ["bigint", "int"] {
      let program = try WorkerThread<Void>({
        _ = try? server.psql("BEGIN; ALTER TABLE t ALTER a TYPE \(type); SELECT pg_sleep(1); COMMIT", "reader")
      })
      while try server.psql("SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'") == "0" {
        Clock.sleep(milliseconds: 5)
      }
      var found = 0
      if type == "int" {
        try reader.rows(table, keys: [[.exact(Array("7".utf8))], [.exact(Array("8".utf8))]]) { _, _ in found += 50 }
      } else {
        found = try reader.scan(table, .all, naming: true) { _ in }.rows
      }
      #expect(found == 100)
      _ = program.join()
    }
  }
}
