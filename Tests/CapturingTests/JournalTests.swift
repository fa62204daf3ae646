import Capturing
import Changes
import Glibc
import SQLiteKit
import SystemKit
import Testing

/// The journal in the source: bounded, purged, and lost only with a word.
@Suite struct JournalTests {
  private func count(_ replica: Replica, _ condition: String = "true") throws -> Int64 {
    try Database(path: replica.source).integer("SELECT count(*) FROM cairn_journal WHERE \(condition)") ?? -1
  }

  private func rows(_ range: Range<Int>) -> String {
    "WITH RECURSIVE s(i) AS (SELECT \(range.lowerBound) UNION ALL SELECT i + 1 FROM s WHERE i < \(range.upperBound - 1))"
  }

  private func started(_ folder: TempFolder, cap: Int64 = 5_000_000) throws -> Replica {
    let replica = Replica(folder)
    replica.options.journalCapRows = cap
    try execute(
      replica.source,
      """
      PRAGMA journal_mode = WAL; CREATE TABLE t(id INTEGER PRIMARY KEY, a); CREATE TABLE u(k TEXT PRIMARY KEY, b UNIQUE);
      CREATE TABLE f(a); INSERT INTO t VALUES (1,1),(2,2); INSERT INTO u VALUES (NULL,1),('x',2); INSERT INTO f VALUES (1),(1)
      """)
    try replica.takeAndReplay()
    return replica
  }

  @Test(arguments: [true, false])
  func `a journal that reaches its cap is told, and everything is copied again`(isRestarted: Bool) throws {
    let folder = try TempFolder()
    let replica = try started(folder, cap: 2000)
    if isRestarted { replica.close() }
    try execute(replica.source, "DELETE FROM t; DELETE FROM u WHERE k IS NULL; DELETE FROM f WHERE rowid = 1")
    for start in stride(from: 10, to: 9000, by: 1500) {
      try execute(replica.source, rows(start..<start + 1500) + "INSERT INTO t SELECT i, 'x' FROM s")
    }
    #expect(try count(replica) < 2000 + 1024 + 256)
    let journal = Journal(try Database(path: replica.source))
    let fill = try journal.fill()
    #expect(try fill?.rows == count(replica))
    #expect(fill?.hasDropped == true)
    // A capture at work has taken what it has not marked yet.
    let last = try Database(path: replica.source).integer("SELECT max(seq) FROM cairn_journal") ?? 0
    #expect(try journal.fill(taken: last - 5).map { $0.rows == 5 && !$0.hasDropped } == true)
    try replica.takeAndReplay()
    // What was taken and waits for its purge does not count.
    #expect(try journal.fill().map { $0.rows == 0 && !$0.hasDropped } == true)
    #expect(replica.notices.filter { $0.contains("cap of 2000 rows") }.count == 1, "\(replica.notices)")
    #expect(try replica.differences() == [])
    try execute(replica.source, "UPDATE t SET a = 5 WHERE id % 3 = 0; REPLACE INTO u VALUES ('y',2); DELETE FROM f")
    try replica.takeAndReplay()
    #expect(try replica.differences() == [])
  }

  @Test func `one transaction larger than the cap is copied`() throws {
    let folder = try TempFolder()
    let replica = try started(folder, cap: 1000)
    try execute(
      replica.source, "BEGIN; " + rows(10..<8000) + "INSERT INTO u SELECT 'k' || i, i FROM s; DELETE FROM t; COMMIT")
    #expect(try count(replica) < 1000 + 1024 + 256)
    try replica.takeAndReplay()
    #expect(replica.notices.contains { $0.contains("cap") })
    #expect(try replica.differences() == [])
  }

  @Test func `a cap that is reached during a refresh, and again during the next one, ends in equal rows`() throws {
    let folder = try TempFolder()
    let replica = Replica(folder)
    replica.options.journalCapRows = 1000
    try execute(
      replica.source,
      "PRAGMA journal_mode = WAL; CREATE TABLE t(id INTEGER PRIMARY KEY, a); CREATE TABLE f(a);" + rows(0..<4000)
        + "INSERT INTO t SELECT i, i FROM s;" + rows(0..<3000) + "INSERT INTO f SELECT i FROM s")
    let moments = Moments()
    replica.clock = moments.clock
    let source = replica.source
    let flood =
      rows(0..<3000)
      + "INSERT OR REPLACE INTO t SELECT i, 'flood' FROM s; DELETE FROM t WHERE id % 1000 = 7; DELETE FROM f WHERE rowid % 500 = 1"
    for _ in 0..<2 {
      let stop = StopSignal()
      moments.at { moment in
        if moment == .everythingRead {
          try execute(source, flood)
          stop.set()
        }
      }
      try replica.take(until: stop)
      _ = try moments.looks()
    }
    moments.at { _ in }
    try replica.takeAndReplay()
    #expect(replica.notices.contains { $0.contains("cap") })
    #expect(try replica.differences() == [])
  }

  @Test func `a schema change whose marker was lost with the journal arrives`() throws {
    let folder = try TempFolder()
    let replica = try started(folder, cap: 1000)
    let journal = Journal(try Database(path: replica.source))
    _ = try journal.unhook("t")
    try execute(
      replica.source, "ALTER TABLE t DROP COLUMN a; ALTER TABLE t ADD COLUMN b DEFAULT 'b'; DELETE FROM t WHERE id = 1")
    _ = try journal.rehook("t", patterns: .init())
    try execute(replica.source, rows(10..<8000) + "INSERT INTO t(id) SELECT i FROM s")
    try replica.takeAndReplay()
    let differences = try replica.differences()
    #expect(differences.isEmpty, "\(differences)")
  }

  /// Invariant 3, and 9: nobody but the program is there.
  @Test func `a busy program removes what was taken, and nothing else`() throws {
    let folder = try TempFolder()
    let replica = try started(folder)
    try execute(replica.source, rows(10..<3000) + "INSERT INTO t SELECT i, 'x' FROM s")
    try replica.takeAndReplay()
    replica.close()
    let taken = try #require(try Database(path: replica.source).integer("SELECT taken FROM cairn_control WHERE id = 0"))
    #expect(try count(replica, "seq < \(taken)") > 2000)
    for id in 4000..<5000 { try execute(replica.source, "INSERT INTO t VALUES (\(id),'one by one')") }
    #expect(try count(replica, "seq < \(taken)") == 0)
    #expect(try count(replica, "seq = \(taken)") == 1)
    #expect(try count(replica, "seq > \(taken)") == 1000)
    try replica.takeAndReplay()
    #expect(try replica.differences() == [])
  }

  @Test(arguments: ["a reader that stays", "readers that come and go"])
  func `the journal is purged in a quiet moment, whoever reads`(who: String) throws {
    let folder = try TempFolder()
    let replica = try started(folder)
    try execute(replica.source, rows(10..<7000) + "INSERT INTO t SELECT i, 'x' FROM s")
    replica.close()
    let reader = try Database(path: replica.source)
    var left: Int64?
    let failure = try following(replica, seconds: 0) {
      for _ in 0..<100 where left != 1 {
        usleep(50_000)
        let database = who == "a reader that stays" ? reader : try Database(path: replica.source)
        left = try database.integer("SELECT count(*) FROM cairn_journal")
      }
    }
    #expect(left == 1)
    #expect(failure == nil)
  }
}
