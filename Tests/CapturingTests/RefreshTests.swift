import Capturing
import Changes
import SQLiteKit
import SystemKit
import TestServers
import Testing

/// Changes that come while tables are copied.
@Suite struct RefreshTests {
  private static let rows =
    "CREATE TABLE seq AS WITH RECURSIVE s(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM s WHERE i < 2500) SELECT i FROM s;"

  private func started(_ folder: TempFolder, _ tables: String) throws -> (Replica, Moments) {
    let replica = Replica(folder)
    try execute(replica.source, "PRAGMA journal_mode = WAL; \(Self.rows) \(tables); DROP TABLE seq")
    let moments = Moments()
    replica.clock = moments.clock
    return (replica, moments)
  }

  /// Runs `statements` one by one, each when a snapshot is taken, until the capture has caught up.
  private func check(_ tables: String, _ statements: [String]) throws {
    let folder = try TempFolder()
    let (replica, moments) = try started(folder, tables)
    let source = replica.source
    let script = Script(statements)
    moments.at { if $0 == .snapshotTaken, let sql = script.next() { try execute(source, sql) } }
    try replica.take()
    _ = try moments.looks()
    let looked = try Contents(replica.source)
    try replica.replay()
    let differences = looked.differences(from: try Contents(replica.target))
    #expect(differences.isEmpty, "\(differences)")
  }

  @Test(arguments: [
    "CREATE VIEW v AS SELECT 1", "VACUUM", "PRAGMA user_version = 5", "CREATE INDEX ki ON k(a)",
    "CREATE TEMP TABLE x(y)", "ANALYZE",
  ])
  func `a schema change of no concern during the copy does not end it`(change: String) throws {
    try check(
      "CREATE TABLE k(id INTEGER PRIMARY KEY, a); INSERT INTO k SELECT i, i FROM seq; CREATE TABLE f(a); INSERT INTO f SELECT i % 3 FROM seq",
      [change])
  }

  @Test func `a finished copy of a quiet source is not in the progress`() throws {
    let (replica, _) = try started(try TempFolder(), "CREATE TABLE k(id INTEGER PRIMARY KEY); INSERT INTO k VALUES (1)")
    try replica.take()
    let progress = try #require(replica.progress).snapshot
    #expect(progress.copying == nil && progress.tablesToCopy == 0)
  }

  @Test func `VACUUM in the middle of the copy of a table without key`() throws {
    try check(
      "CREATE TABLE f(a); INSERT INTO f SELECT i FROM seq; DELETE FROM f WHERE rowid % 3 = 0",
      [
        "DELETE FROM f WHERE rowid < 500", "VACUUM; DELETE FROM f WHERE rowid % 7 = 0",
        "INSERT INTO f VALUES ('x'); UPDATE f SET a = 'y' WHERE rowid % 50 = 1",
      ])
  }

  @Test func `rows that move over the place up to which was copied`() throws {
    try check(
      "CREATE TABLE k(id INTEGER PRIMARY KEY, u UNIQUE, a); INSERT INTO k SELECT i, i, 'x' FROM seq; CREATE TABLE f(a); INSERT INTO f SELECT i FROM seq",
      [
        "UPDATE k SET id = id + 5000 WHERE id IN (1,2,999,1000)",
        "UPDATE k SET id = id - 5001 WHERE id IN (1001,2400,2500)",
        "UPDATE OR REPLACE k SET id = 2450 WHERE id = 3; REPLACE INTO k VALUES (4,2300,'r'),(2301,5,'r')",
        "UPDATE f SET rowid = rowid + 9000 WHERE rowid IN (1,2,1000); UPDATE OR REPLACE f SET rowid = 7 WHERE rowid = 2499",
        "UPDATE f SET rowid = -rowid WHERE rowid IN (2400,2401)",
      ])
  }

  @Test func `tables that change their shape or go while they are copied`() throws {
    try check(
      "CREATE TABLE k(id INTEGER PRIMARY KEY, a); INSERT INTO k SELECT i, i FROM seq; CREATE TABLE f(a); INSERT INTO f SELECT i FROM seq; CREATE TABLE g(a, b); INSERT INTO g SELECT i, i FROM seq",
      [
        "ALTER TABLE k ADD COLUMN b DEFAULT 3", "ALTER TABLE k RENAME COLUMN a TO aa; INSERT INTO k VALUES (9000,1,1)",
        "ALTER TABLE f RENAME TO f2; DELETE FROM f2 WHERE rowid % 2",
        "DROP TABLE g; CREATE TABLE g(b PRIMARY KEY); INSERT INTO g VALUES (1)",
        "ALTER TABLE k RENAME TO kk; UPDATE kk SET b = 9 WHERE id % 100 = 0", "ALTER TABLE f2 ADD COLUMN z",
        "DROP TABLE f2", "INSERT INTO g VALUES (2)",
      ])
  }

  @Test func `keys of all storage classes, and NULL, are copied in chunks`() throws {
    try check(
      """
      CREATE TABLE t(a PRIMARY KEY, b); CREATE TABLE p(a TEXT COLLATE NOCASE, b COLLATE RTRIM, c INT, PRIMARY KEY(a, b)); CREATE TABLE d(a, b, PRIMARY KEY(a DESC, b)) WITHOUT ROWID;
      INSERT INTO t SELECT CASE i % 6 WHEN 0 THEN i WHEN 1 THEN i + 0.5 WHEN 2 THEN 't' || i WHEN 3 THEN CAST('b' || i AS BLOB) WHEN 4 THEN NULL ELSE -i END, i FROM seq;
      INSERT INTO p SELECT CASE WHEN i % 2 THEN 'Same' ELSE 'k' || (i / 40) END, CASE WHEN i % 90 THEN 'b' || i || '  ' END, i FROM seq;
      INSERT INTO d SELECT i / 100, CASE WHEN i % 2 THEN i ELSE 'x' || i END FROM seq
      """,
      [
        "UPDATE t SET a = NULL WHERE b % 400 = 0; UPDATE t SET a = b || 'was null' WHERE a IS NULL AND b % 3 = 0",
        "DELETE FROM p WHERE c % 13 = 0; UPDATE p SET a = 'SAME' WHERE c % 14 = 1",
        "INSERT INTO d VALUES (x'00',1),('',2),(1e300,3),(-9e999,4)", "UPDATE d SET a = 'z' || a WHERE b < 200",
        "UPDATE p SET b = NULL WHERE c % 100 = 1; UPDATE p SET b = c WHERE b IS NULL AND c % 200 = 90",
      ])
  }

  @Test func `an interrupted copy does not send again what was sent`() throws {
    let folder = try TempFolder()
    let (replica, moments) = try started(
      folder, "CREATE TABLE k(id INTEGER PRIMARY KEY, a); INSERT INTO k SELECT i, i FROM seq")
    let stop = StopSignal()
    moments.at { if $0 == .everythingRead { stop.set() } }
    try replica.take(until: stop)
    replica.close()
    try replica.replay()
    #expect(try Database(path: replica.target).integer("SELECT count(*) FROM k") == 1000)
    try execute(replica.target, "UPDATE k SET a = 'mark'")
    moments.at { _ in }
    replica.close()
    try replica.takeAndReplay()
    #expect(
      try Database(path: replica.target).query("SELECT count(*), sum(a = 'mark') FROM k") == [
        [.integer(2500), .integer(1000)]
      ])
  }
}
