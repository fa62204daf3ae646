import Capturing
import Changes
import Foundation
import SQLiteKit
import SystemKit
import Synchronization
import TestServers
import Testing

/// Invariants 1 and 4: capture may end after any look, and the source may lose what was not synced. The next run goes
/// on exactly at the end of the trail.
@Suite struct RestartTests {
  /// The loss between two runs.
  enum Loss: String, CaseIterable, Sendable, CustomTestStringConvertible {
    case nothing = "nothing is lost"
    case mark = "the mark in the source is lost"
    case power = "the source is as it was when the last look was over"
    var testDescription: String { rawValue }
  }

  static let seeds = Seeds.range(reduced: 3)

  /// Tables of several chunks each, whose rows are identified in each of the ways that there are.
  static let tables = """
    CREATE TABLE k(id INTEGER PRIMARY KEY, a, u UNIQUE);
    CREATE TABLE w(a TEXT COLLATE NOCASE, b INT, c, PRIMARY KEY(a,b)) WITHOUT ROWID;
    CREATE TABLE f(a, b);
    CREATE TABLE n(x TEXT PRIMARY KEY, y);
    CREATE TABLE seq AS WITH RECURSIVE s(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM s WHERE i < 2500) SELECT i FROM s;
    INSERT INTO k SELECT i * 2, 'a' || i, i FROM seq;
    INSERT INTO w SELECT 'Key' || (i % 50), i, i FROM seq;
    INSERT INTO f SELECT i % 900, i % 3 FROM seq;
    INSERT INTO n SELECT CASE WHEN i % 100 THEN 'x' || i END, i % 5 FROM seq;
    DROP TABLE seq;
    """

  /// One after the other, each during a look of the capture.
  static let script = [
    "INSERT INTO k VALUES (1,'new',-1),(4999,'new',-2),(6001,'new',-3)", "DELETE FROM k WHERE id IN (2,4000,5000)",
    "UPDATE k SET id = id + 3001 WHERE id IN (10,12,14)", "UPDATE k SET id = 5 - id WHERE id > 4900 AND id < 4910",
    "UPDATE OR REPLACE k SET u = 700 WHERE id IN (100,2400,4800)", "REPLACE INTO k VALUES (20,'r',2000),(4100,'r',15)",
    "DELETE FROM f WHERE rowid IN (1,2,1999,2400)", "UPDATE f SET a = 'u' WHERE rowid % 400 = 0",
    "INSERT INTO f VALUES (0,0),(0,0)",
    "UPDATE f SET rowid = rowid + 2600 WHERE rowid IN (5,6)",
    "UPDATE w SET a = upper(a) WHERE b < 60; DELETE FROM w WHERE b % 77 = 0",
    "UPDATE n SET x = NULL WHERE x IN ('x1','x2401'); UPDATE n SET x = 'was null' || rowid WHERE x IS NULL AND rowid < 800",
    "DELETE FROM n WHERE x IS NULL AND rowid > 2000; INSERT INTO n VALUES (NULL,1),(NULL,1),('zz',2)",
    "VACUUM", "DELETE FROM f WHERE rowid IN (3,4,2300); INSERT INTO f VALUES ('after vacuum',1)",
    "ALTER TABLE k ADD COLUMN more DEFAULT 5; UPDATE k SET more = 6 WHERE id % 500 = 0",
    "UPDATE k SET a = a || '!' WHERE id % 1000 = 0",
    "CREATE TABLE late(z); INSERT INTO late VALUES (1),(1)", "ALTER TABLE w RENAME TO w2; DELETE FROM w2 WHERE b = 5",
    "INSERT OR IGNORE INTO k(id,u) VALUES (20,1),(7777,9)",
    "DELETE FROM k WHERE id = 20; DELETE FROM late WHERE rowid = 1", "DROP TABLE n",
    "CREATE TABLE n(x INTEGER PRIMARY KEY); INSERT INTO n VALUES (1),(2)", "DELETE FROM f; INSERT INTO f VALUES (1,2)",
    "UPDATE k SET u = u + 100000; DELETE FROM k WHERE id < 0",
  ]

  @Test(arguments: Loss.allCases)
  func `a capture that is ended after every look goes on exactly`(loss: Loss) throws {
    let folder = try TempFolder()
    try execute(folder("source.db"), "PRAGMA journal_mode = WAL; " + Self.tables)
    try run(folder, Self.script, loss)
  }

  @Test(arguments: Loss.allCases, RestartTests.seeds)
  func `random changes during a refresh that is ended after every look arrive`(loss: Loss, seed: UInt64) throws {
    let folder = try TempFolder()
    try execute(folder("source.db"), "PRAGMA journal_mode = WAL; " + Self.tables)
    var random = Seeded(seed)
    try run(folder, (0..<25).map { _ in Self.statement(&random) }, loss)
  }

  private static func statement(_ random: inout Seeded) -> String {
    func any(_ limit: Int) -> Int { Int.random(in: 0..<limit, using: &random) }
    let choices = [
      "INSERT OR REPLACE INTO k(id,a,u) VALUES (\(any(6000)),'i',\(any(3000))),(\(any(6000)),'i',\(any(3000)))",
      "DELETE FROM k WHERE id % \(7 + any(90)) = 3",
      "UPDATE OR REPLACE k SET id = id + \(any(2000) - 1000) WHERE id % 97 = \(any(97))",
      "UPDATE OR IGNORE k SET u = u + \(any(9)) WHERE id % 11 = 1",
      "UPDATE k SET a = '\(any(99))' WHERE id BETWEEN \(any(2500)) AND \(2500 + any(2500))",
      "UPDATE OR REPLACE w SET b = b + \(any(2000) - 1000), a = lower(a) WHERE b % 31 = \(any(31))",
      "REPLACE INTO w VALUES ('KEY\(any(50))',\(any(2500)),'r')",
      "DELETE FROM f WHERE rowid % 61 = \(any(61))",
      "UPDATE OR REPLACE f SET rowid = rowid + \(any(3000) - 1500) WHERE rowid % 101 = \(any(101))",
      "INSERT INTO f SELECT a, b FROM f WHERE rowid % 37 = \(any(37))",
      "UPDATE OR REPLACE n SET x = CASE WHEN rowid % 3 THEN x || 'q' END WHERE rowid % 43 = \(any(43))",
      "DELETE FROM n WHERE x IS NULL AND rowid % 3 = \(any(3))", "VACUUM",
      "BEGIN; DELETE FROM k WHERE id < 1000; DELETE FROM f; ROLLBACK",
    ]
    return choices[any(choices.count)]
  }

  private func run(_ folder: TempFolder, _ script: [String], _ loss: Loss) throws {
    let replica = Replica(folder)
    let moments = Moments()
    replica.clock = moments.clock
    let rest = Script(script)
    var rounds = 0
    while true {
      let marks = try Self.marks(replica.source)
      let stop = StopSignal()
      let source = replica.source
      let image = folder("image.db")
      // The copy of a table without key begins again in every run, so some runs must be long enough for it.
      let looks = Atomic([1, 2, 1, 6][rounds % 4])
      moments.at { moment in
        switch moment {
        case .snapshotTaken: if let sql = rest.next() { try execute(source, sql) }
        case .everythingRead:
          guard looks.subtract(1, ordering: .relaxed).newValue <= 0 else { return }
          if loss == .power { _ = try FileImage(source, as: image) }
          stop.set()
        }
      }
      try replica.take(until: stop)
      replica.close()
      if try moments.looks() == 0 {
        guard let sql = rest.next() else { break }
        try execute(replica.source, sql)
        continue
      }
      switch loss {
      case .nothing: break
      case .mark: if let marks { try execute(replica.source, marks) }
      case .power: if stop.isSet { try FileImage(replica.source, existing: image).restore() }
      }
      if rounds % 3 == 0 { try replica.replay() }
      rounds += 1
      try #require(rounds < 300, "capture does not come to an end")
    }
    try replica.replay()
    let differences = try replica.differences()
    #expect(differences.isEmpty, "\(differences)")
  }

  /// A statement that puts the source's mark back to what it is now.
  private static func marks(_ path: String) throws -> String? {
    let database = try Database(path: path)
    guard try database.integer("SELECT count(*) FROM sqlite_master WHERE name = 'cairn_control'") == 1 else {
      return nil
    }
    return try database.text(
      "SELECT printf('UPDATE cairn_control SET taken = %d, nonce = %d WHERE id = 0', taken, nonce) FROM cairn_control WHERE id = 0"
    )
  }
}
