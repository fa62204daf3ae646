import CSQLite
import Capturing
import Changes
import Foundation
import Glibc
import SQLiteKit
import SystemKit
import TestServers
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

  @Test func `tables that look alike are both named where triggers of capture are left`() throws {
    let folder = try TempFolder()
    let path = folder("source.db")
    let names = ["cafe\u{301}", "caf\u{e9}"]
    for name in names {
      try execute(
        path,
        """
        CREATE TABLE "\(name)"(a);
        CREATE TRIGGER "cairn_1_\(name)" AFTER INSERT ON "\(name)" BEGIN SELECT 1; END
        """)
    }
    #expect(try Journal(Database(path: path)).orphans().hasSameBytes(as: names))
  }

  @Test(arguments: [true, false])
  func `a journal that reaches its cap is reported, and everything is copied again`(isRestarted: Bool) throws {
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
    // Rows that were taken and wait for their purge do not count.
    #expect(try journal.fill().map { $0.rows == 0 && !$0.hasDropped } == true)
    #expect(replica.notices.filter { $0.contains("is full (2000 rows)") }.count == 1, "\(replica.notices)")
    #expect(try replica.differences() == [])
    try execute(replica.source, "UPDATE t SET a = 5 WHERE id % 3 = 0; REPLACE INTO u VALUES ('y',2); DELETE FROM f")
    try replica.takeAndReplay()
    #expect(try replica.differences() == [])
  }

  /// Ids with constant low bits, so that only the high bits count, as Twitter's: 22 constant low bits; 10 of machine
  /// and sequence; multiples of 1,000.
  @Test(arguments: [1 << 22, 1 << 10, 1000, 1 << 31, 1, -(1 << 22)] as [Int64])
  func `a journal of ids with constant low bits keeps its cap`(step: Int64) throws {
    let folder = try TempFolder()
    let replica = try started(folder, cap: 2000)
    replica.close()
    for start in stride(from: 0, to: 12_000, by: 3000) {
      try execute(
        replica.source,
        rows(start..<start + 3000)
          + "INSERT INTO t SELECT 7000000000000000000 / \(step) * \(step) + i * \(step), 'x' FROM s WHERE \(step) > 0 UNION ALL SELECT -1 + i * \(step), 'x' FROM s WHERE \(step) < 0"
      )
    }
    #expect(try count(replica) < 2000 + 1024 + 512)
    try replica.takeAndReplay()
    #expect(try replica.differences() == [])
  }

  @Test func `a journal of large rows has a cap in bytes, which a later start keeps`() throws {
    let folder = try TempFolder()
    let replica = Replica(folder)
    replica.options.journalCapBytes = 4 << 20
    try execute(
      replica.source,
      "PRAGMA journal_mode = WAL; CREATE TABLE t(id INTEGER PRIMARY KEY, a);" + rows(0..<20)
        + "INSERT INTO t SELECT i, zeroblob(2000) FROM s")
    try replica.takeAndReplay()
    try execute(replica.source, rows(100..<120) + "INSERT INTO t SELECT i, zeroblob(2000) FROM s")
    try replica.takeAndReplay()
    let source = try Database(path: replica.source)
    let cap = try source.integer("SELECT cap FROM cairn_control WHERE id = 0") ?? 0
    #expect(1900...2100 ~= cap, "4 MiB of rows of 2,000 bytes: \(cap)")
    #expect(try Journal(source).fill()?.cap == cap)
    #expect(Journal.cap(rows: 5_000_000, bytesPerRow: 1 << 20) == 4096)
    #expect(Journal.cap(rows: 5_000_000, bytesPerRow: 100) == 5_000_000)
  }

  @Test func `the rows that upserts leave on the stage do not pile up`() throws {
    let folder = try TempFolder()
    let replica = Replica(folder)
    try execute(replica.source, "CREATE TABLE t(id INTEGER PRIMARY KEY, k UNIQUE, v)")
    try replica.takeAndReplay()
    try execute(
      replica.source,
      rows(0..<200) + "INSERT INTO t SELECT i, i, 0 FROM s;" + rows(0..<200)
        + "INSERT INTO t SELECT i, i, 1 FROM s WHERE true ON CONFLICT(id) DO UPDATE SET v = v + 1;" + rows(0..<200)
        + "INSERT OR IGNORE INTO t SELECT i + 500, i, 1 FROM s")
    #expect(try Database(path: replica.source).integer("SELECT count(*) FROM cairn_stage") ?? 99 <= 8)
    // A BEFORE trigger may write to the table while a row of it is staged.
    try execute(replica.source, "CREATE TRIGGER b BEFORE INSERT ON t BEGIN SELECT 1; END")
    try replica.takeAndReplay()
    try execute(replica.source, rows(0..<200) + "INSERT OR IGNORE INTO t SELECT i + 500, i, 1 FROM s")
    #expect(try Database(path: replica.source).integer("SELECT count(*) FROM cairn_stage") ?? 0 > 60)
    try replica.takeAndReplay()
    #expect(try replica.differences() == [])
  }

  @Test func `triggers that an earlier version made are replaced, and nothing is copied`() throws {
    let folder = try TempFolder()
    let replica = try started(folder)
    replica.close()
    let source = try Database(path: replica.source)
    let wanted = try schemaText(replica.source)
    let row = try source.query(
      "SELECT name, sql FROM sqlite_master WHERE type = 'trigger' AND sql LIKE '%AFTER INSERT ON \"t\"%'")[0]
    try source.execute("DROP TRIGGER \(row[0].string.quotedName)")
    try source.execute(row[1].string.replacing("2147483629", with: "16777216"))
    try source.run(
      "UPDATE cairn_control SET schema_version = ? WHERE id = 0",
      [.integer(try source.integer("PRAGMA schema_version") ?? 0)])
    try execute(replica.source, "INSERT INTO t VALUES (77,77)")
    try replica.takeAndReplay()
    #expect(try schemaText(replica.source) == wanted)
    #expect(try replica.differences() == [])
    let copies = try records(replica).filter {
      if case .refresh(let refresh) = $0, case .start = refresh.event { true } else { false }
    }
    #expect(copies.count == 3, "the first copies of three tables")
  }

  @Test func `taken rows are synced in the log when a program has switched the file to WAL`() throws {
    let folder = try TempFolder()
    let path = folder("s.db")
    try execute(path, "CREATE TABLE t(a)")
    let sync = SourceSync(path: path)
    #expect(try sync.sync(isWAL: false) == [""])
    let program = try Database(ofProgram: path)
    try program.executeScript("PRAGMA journal_mode = WAL; INSERT INTO t VALUES (1)")
    #expect(try sync.sync(isWAL: false) == ["-wal", ""])
    #expect(try sync.sync(isWAL: true) == ["-wal"])
  }

  @Test func `a text that is no well-formed UTF-16 is not altered without a word`() throws {
    let folder = try TempFolder()
    let replica = Replica(folder)
    try execute(
      replica.source,
      "PRAGMA encoding = 'UTF-16le'; PRAGMA journal_mode = WAL; CREATE TABLE t(id INTEGER PRIMARY KEY, fine, bad); INSERT INTO t VALUES (1, 'ä€😀', 'b')"
    )
    try replica.takeAndReplay()
    #expect(replica.notices.isEmpty)
    try execute(replica.source, "UPDATE t SET bad = CAST(x'00D84100' AS TEXT); INSERT INTO t VALUES (2, '😀', '😀')")
    try replica.takeAndReplay()
    #expect(replica.notices.filter { $0.contains("column bad of table t") && $0.contains("UTF-16") }.count == 1)
    replica.close()
    try Journal(try Database(path: replica.source)).askForRefresh()
    try replica.takeAndReplay()
    #expect(replica.notices.filter { $0.contains("column bad of table t") && $0.contains("UTF-16") }.count == 2)
  }

  /// A collation of the program's own, as Android's LOCALIZED.
  @Test(arguments: [
    ("key", "k TEXT COLLATE de PRIMARY KEY, n", "it needs the collation \"de\""),
    ("column", "k INTEGER PRIMARY KEY, n TEXT COLLATE de", "it needs the collation \"de\""),
    ("plain index", "k INTEGER PRIMARY KEY, n", nil),
    ("unique index", "k INTEGER PRIMARY KEY, n", "its unique index odd_i needs the collation \"de\""),
  ])
  func `a table with a collation that only its program has keeps no other table waiting`(
    kind: String, columns: String, refusal: String?
  ) throws {
    let folder = try TempFolder()
    let replica = Replica(folder)
    let program = CollatingProgram(replica.source)
    program.run(
      "PRAGMA journal_mode = WAL; CREATE TABLE other(id INTEGER PRIMARY KEY, a); CREATE TABLE odd(\(columns))")
    if kind.hasSuffix("index") {
      program.run("CREATE \(kind == "unique index" ? "UNIQUE" : "") INDEX odd_i ON odd(n COLLATE de)")
    }
    program.run("INSERT INTO odd VALUES (1,'a'); INSERT INTO other VALUES (1,1)")
    try replica.takeAndReplay()
    program.run("INSERT INTO odd VALUES (2,'b'); INSERT INTO other VALUES (2,2)")
    try replica.takeAndReplay()
    let target = try Contents(replica.target)
    #expect(target.rows["other"]?.count == 2)
    #expect(target.rows["odd"]?.count == (refusal == nil ? 2 : nil))
    if let refusal { #expect(replica.notices.contains { $0.contains(refusal) }, "\(replica.notices)") }
  }

  /// https://sqlite.org/wal.html#walresetbug
  @Test func `no commit restarts the log while the checkpointer is at work`() throws {
    let folder = try TempFolder()
    let path = folder("w.db")
    let program = try Database(ofProgram: path)
    try program.executeScript("PRAGMA journal_mode = WAL; PRAGMA wal_autocheckpoint = 0; CREATE TABLE t(a)")
    func salt() throws -> [UInt8] { Array(try Data(contentsOf: URL(filePath: path + "-wal")).dropFirst(16).prefix(8)) }
    for row in 0..<10 {
      try program.run("INSERT INTO t VALUES (?)", [.integer(Int64(row))])
      let before = try salt()
      Checkpointer.checkpoint(path) {
        // The log is written back wholly: without a mark, the next commit begins it again.
        try? program.executeScript("PRAGMA wal_checkpoint(PASSIVE); INSERT INTO t VALUES (0)")
      }
      #expect(try salt() == before)
    }
    #expect(try program.text("PRAGMA integrity_check") == "ok")
  }

  @Test func `one transaction larger than the cap is copied`() throws {
    let folder = try TempFolder()
    let replica = try started(folder, cap: 1000)
    try execute(
      replica.source, "BEGIN; " + rows(10..<8000) + "INSERT INTO u SELECT 'k' || i, i FROM s; DELETE FROM t; COMMIT")
    #expect(try count(replica) < 1000 + 1024 + 256)
    try replica.takeAndReplay()
    #expect(replica.notices.contains { $0.contains("is full (1000 rows)") })
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
    #expect(replica.notices.contains { $0.contains("is full (1000 rows)") })
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

  /// Invariant 3, and 9: no other process than the program is there.
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
  func `the journal is purged in a quiet moment, whichever reader is there`(who: String) throws {
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

/// A program that has a collation of its own, named `de`.
private final class CollatingProgram {
  private var handle: OpaquePointer?

  init(_ path: String) {
    #expect(sqlite3_open(path, &handle) == SQLITE_OK)
    sqlite3_create_collation(handle, "de", SQLITE_UTF8, nil) { _, left, a, right, b in
      guard let a, let b else { return left - right }
      let order = memcmp(a, b, Int(min(left, right)))
      return order == 0 ? left - right : order
    }
  }

  deinit { sqlite3_close(handle) }

  func run(_ sql: String) { #expect(sqlite3_exec(handle, sql, nil, nil, nil) == SQLITE_OK, "\(sql)") }
}
