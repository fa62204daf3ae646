import SQLiteKit
import TestServers
import Testing

/// Rows that may be equal in every column: their key has a NULL, or the table has no key.
@Suite(.timeLimit(.minutes(60))) struct EqualRowsTests {
  @Test(arguments: Seeds.drawn(reduced: 60))
  func `random writes of equal rows leave the target with as many of them as the source`(seed: UInt64) throws {
    var random = Seeded(seed)
    let replica = Replica(try TempFolder())
    let source = try Database(ofProgram: replica.source)
    let table = Self.tables[random.below(Self.tables.count)]
    try source.executeScript(
      """
      PRAGMA journal_mode = WAL; PRAGMA recursive_triggers = \(random.below(2)); \(table);
      \(Self.rows(&random)) PRAGMA foreign_keys = \(random.below(2))
      """)
    try replica.takeAndReplay()
    var done = ["\(table); \(try Contents(replica.source).rows)"]
    for _ in 0..<6 {
      for _ in 0..<(1 + random.below(12)) {
        let sql = Self.transaction(&random)
        done.append(sql)
        do { try source.executeScript(sql) } catch { done.append("-- \(error)".prefix(80).description) }
        if source.isInTransaction { try source.execute("COMMIT") }
      }
      if random.below(3) == 0 { replica.close() }
      var differences: [String] = []
      do {
        try replica.takeAndReplay()
        differences = try replica.differences()
      } catch { differences = ["\(error)"] }
      guard differences.isEmpty else {
        Issue.record("seed \(seed): \(differences) after\n\(done.joined(separator: ";\n"))")
        return
      }
    }
  }

  /// A column that hides the rowid has the same value in many rows.
  @Test func `one of several equal rows is deleted if a column of the target alone hides the rowid`() throws {
    let replica = Replica(try TempFolder())
    try execute(replica.target, "CREATE TABLE t(k TEXT PRIMARY KEY, a, rowid DEFAULT 1, oid AS (2))")
    try execute(replica.source, "CREATE TABLE t(k TEXT PRIMARY KEY, a); INSERT INTO t VALUES ('x', 0)")
    try replica.takeAndReplay()
    try execute(replica.source, "INSERT INTO t VALUES (NULL, 1), (NULL, 1), (NULL, 2), (NULL, 2)")
    try execute(
      replica.source,
      "DELETE FROM t WHERE rowid = 2; UPDATE t SET a = 3 WHERE rowid = 4; UPDATE t SET k = 'y' WHERE a = 2")
    try replica.takeAndReplay()
    let target = try Database(path: replica.target)
    let rows = try target.query("SELECT coalesce(k, '') || a FROM t ORDER BY k, a").map(\.[0].string)
    #expect(rows == ["1", "3", "x0", "y2"])
  }

  @Test func `a table whose columns hide all names of the rowid is refused when one of equal rows changes`() throws {
    let replica = Replica(try TempFolder())
    try execute(
      replica.source,
      "CREATE TABLE t(k TEXT PRIMARY KEY, rowid, oid, _rowid_); INSERT INTO t VALUES (NULL, 1, 1, 1), (NULL, 1, 1, 2)")
    try replica.takeAndReplay()
    try execute(replica.source, "INSERT INTO t VALUES (NULL, 1, 1, 1); UPDATE t SET k = 'x' WHERE _rowid_ = 2")
    #expect(code { try replica.takeAndReplay() } == .tableRefused)
    #expect(try Contents(replica.target).rows["t"]?.count == 2)
  }

  private static let tables = [
    "CREATE TABLE t(k TEXT PRIMARY KEY, z, a)", "CREATE TABLE t(k PRIMARY KEY, z UNIQUE, a)",
    "CREATE TABLE t(k, z, a, PRIMARY KEY (k, z))", "CREATE TABLE t(k UNIQUE, z, a)",
    "CREATE TABLE t(k UNIQUE, z UNIQUE ON CONFLICT REPLACE, a)", "CREATE TABLE t(k, z, a)",
    "CREATE TABLE t(k TEXT COLLATE NOCASE PRIMARY KEY, z, a COLLATE NOCASE)",
    "CREATE TABLE t(k PRIMARY KEY, z, a); CREATE UNIQUE INDEX tz ON t(z) WHERE a > 1",
    "CREATE TABLE t(k REAL PRIMARY KEY, z, a); CREATE UNIQUE INDEX tz ON t(abs(z))",
    "CREATE TABLE t(k INT PRIMARY KEY, z, a, rowid DEFAULT 1, oid DEFAULT 1)",
    "CREATE TABLE t(k PRIMARY KEY, z REFERENCES t ON UPDATE CASCADE ON DELETE SET NULL, a)",
  ]

  private static func rows(_ random: inout Seeded) -> String {
    (0..<6).map { _ in "INSERT OR IGNORE INTO t(k,z,a) VALUES \(row(&random)); " }.joined()
  }

  private static func row(_ random: inout Seeded) -> String {
    "(\(key(&random)), \(key(&random)), \(value(&random)))"
  }

  private static func key(_ random: inout Seeded) -> String {
    random.below(2) == 0 ? "NULL" : ["1", "2", "3", "'a'", "'A'"][random.below(5)]
  }

  private static func value(_ random: inout Seeded) -> String { ["1", "1", "2", "'x'", "'X'"][random.below(5)] }

  private static func transaction(_ random: inout Seeded) -> String {
    let statements = (0..<(1 + random.below(5))).map { _ in statement(&random) }
    switch random.below(8) {
    case 0...2: return statements[0]
    case 3: return "BEGIN; \(statements.joined(separator: "; ")); ROLLBACK"
    case 4:
      let kept = statement(&random)
      return "BEGIN; SAVEPOINT s; \(statements.joined(separator: "; ")); ROLLBACK TO s; \(kept); COMMIT"
    default: return "BEGIN; \(statements.joined(separator: "; ")); COMMIT"
    }
  }

  private static func statement(_ random: inout Seeded) -> String {
    let conflict = ["", "OR IGNORE", "OR IGNORE", "OR REPLACE", "OR REPLACE"][random.below(5)]
    let column = ["k", "k", "z", "a"][random.below(4)]
    let given = column == "a" ? value(&random) : key(&random)
    let one = "_rowid_ = (SELECT _rowid_ FROM t LIMIT 1 OFFSET \(random.below(8)))"
    switch random.below(12) {
    case 0, 1: return "INSERT \(conflict) INTO t(k,z,a) VALUES \(row(&random))"
    case 2: return "INSERT \(conflict) INTO t(k,z,a) VALUES \(row(&random)), \(row(&random)), \(row(&random))"
    case 3: return "INSERT \(conflict) INTO t(k,z,a) SELECT k, z, a FROM t WHERE \(one)"
    case 4: return "INSERT INTO t(k,z,a) SELECT NULL, z, a FROM t LIMIT \(random.below(4))"
    case 5: return "INSERT INTO t(k,z,a) VALUES \(row(&random)) ON CONFLICT DO NOTHING"
    case 6:
      return "INSERT INTO t(k,z,a) VALUES \(row(&random)) ON CONFLICT DO UPDATE SET \(column) = \(given)"
    case 7, 8: return "UPDATE \(conflict) t SET \(column) = \(given) WHERE \(one)"
    case 9: return "UPDATE \(conflict) t SET \(column) = \(given)"
    case 10: return "UPDATE t SET k = NULL WHERE \(one)"
    default: return "DELETE FROM t WHERE \(one)"
    }
  }
}
