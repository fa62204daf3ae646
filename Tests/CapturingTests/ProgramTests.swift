import Changes
import Foundation
import SQLiteKit
import TestServers
import Testing

/// Programs that open the file in ways of their own.
@Suite struct ProgramTests {
  private func started(_ folder: TempFolder, mode: String = "WAL") throws -> Replica {
    let replica = Replica(folder)
    try execute(
      replica.source,
      "PRAGMA journal_mode = \(mode); CREATE TABLE t(id INTEGER PRIMARY KEY, a UNIQUE); CREATE TABLE f(a); INSERT INTO t VALUES (1,1)"
    )
    try replica.takeAndReplay()
    return replica
  }

  @Test func `a program that attaches the file under another name is captured, file by file`() throws {
    let folder = try TempFolder()
    let replica = try started(folder)
    let second = Replica(folder, source: "second.db", target: "target2.db", trail: "trail2")
    try execute(second.source, "PRAGMA journal_mode = WAL; CREATE TABLE t(id INTEGER PRIMARY KEY, b)")
    try second.takeAndReplay()
    let program = try Database(ofProgram: folder("own.db"))
    try program.executeScript(
      "CREATE TABLE t(x); ATTACH \(replica.source.quotedText) AS one; ATTACH \(second.source.quotedText) AS \"t w o\"")
    try program.executeScript(
      "BEGIN; INSERT INTO one.t VALUES (2,2); INSERT INTO \"t w o\".t VALUES (7,7); INSERT INTO main.t VALUES (1); REPLACE INTO one.t VALUES (3,1); COMMIT"
    )
    try program.executeScript(
      "BEGIN; DELETE FROM one.t; DELETE FROM \"t w o\".t; ROLLBACK; INSERT INTO one.f SELECT id FROM one.t")
    for each in [replica, second] {
      try each.takeAndReplay()
      #expect(try each.differences() == [])
    }
    #expect(try Contents(second.target).rows["t"]?.count == 1)
  }

  /// Closing any descriptor of a file drops the locks that the process holds on it (https://sqlite.org/howtocorrupt.html).
  @Test(arguments: ["WAL", "DELETE"])
  func `capture does not drop the locks that other connections of its process hold`(mode: String) throws {
    let folder = try TempFolder()
    let replica = try started(folder, mode: mode)
    try execute(replica.source, "INSERT INTO t VALUES (5,5)")
    let program = try Database(path: replica.source)
    try program.executeScript("BEGIN IMMEDIATE; INSERT INTO t VALUES (9,9)")
    try replica.take()
    #expect(throws: ToolFailed.self, "another process must find the file locked") {
      try runTool("sqlite3", ["-bail", replica.source, "PRAGMA busy_timeout = 0; INSERT INTO t VALUES (10,10)"])
    }
    try program.execute("COMMIT")
    try runTool("sqlite3", ["-bail", replica.source, "INSERT INTO t VALUES (11,11)"])
    try replica.takeAndReplay()
    #expect(try replica.differences() == [])
  }

  @Test func `a program in exclusive locking mode is named as a reason, and capture goes on when it has ended`() throws
  {
    let folder = try TempFolder()
    let replica = try started(folder)
    replica.close()
    do {
      let program = try Database(path: replica.source)
      try program.executeScript("PRAGMA locking_mode = EXCLUSIVE; INSERT INTO t VALUES (5,5)")
      var found: SQLiteError?
      do { try replica.take() } catch { found = error as? SQLiteError }
      let error = try #require(found).asCairnError
      #expect(error.code == .databaseBusy && error.hint.contains("EXCLUSIVE"))
    }
    try replica.takeAndReplay()
    #expect(try replica.differences() == [])
  }

  @Test func `rows that a program writes with triggers off go unseen, and a refresh finds them`() throws {
    let folder = try TempFolder()
    let replica = try started(folder)
    let program = try Database(path: replica.source)
    program.setTriggersEnabled(false)
    try program.executeScript("INSERT INTO t VALUES (5,5); DELETE FROM t WHERE id = 1")
    try replica.takeAndReplay()
    #expect(try !replica.differences().isEmpty)
    let journal = try hooks(replica)
    _ = try journal.unhook("t")
    _ = try journal.rehook("t", patterns: .init())
    try replica.takeAndReplay()
    #expect(try replica.differences() == [])
  }

  @Test func `several transactions of one look are one group, and each look is one transaction of the trail`() throws {
    let folder = try TempFolder()
    let replica = try started(folder)
    let program = try Database(path: replica.source)
    for id in 10..<20 { try program.execute("INSERT INTO t VALUES (\(id),\(id))") }
    let before = try records(replica).filter { if case .begin = $0 { true } else { false } }.count
    try replica.take()
    let headers = try records(replica).compactMap { if case .begin(let header) = $0 { header } else { nil } }
    #expect(headers.count == before + 1)
    #expect(headers.last?.flags == [.group, .late])
    #expect(zip(headers, headers.dropFirst()).allSatisfy { $0.number + 1 == $1.number && $0.clock < $1.clock })
  }

  @Test func `nothing of a transaction that is still open is taken`() throws {
    let folder = try TempFolder()
    let replica = try started(folder)
    let program = try Database(path: replica.source)
    try program.executeScript("BEGIN; INSERT INTO t VALUES (10,10)")
    try replica.takeAndReplay()
    #expect(try Contents(replica.target).rows["t"]?.count == 1)
    try program.executeScript("INSERT INTO t VALUES (11,11); COMMIT")
    try replica.takeAndReplay()
    #expect(try replica.differences() == [])
  }

  @Test func `a checkpoint of the program and a switch of the journal mode in between lose nothing`() throws {
    let folder = try TempFolder()
    let replica = try started(folder)
    for (step, sql) in [
      "PRAGMA wal_checkpoint(TRUNCATE)", "PRAGMA journal_mode = DELETE", "PRAGMA journal_mode = WAL",
      "PRAGMA wal_checkpoint(RESTART)",
    ].enumerated() {
      try execute(replica.source, "INSERT INTO t VALUES (\(step + 10),'before \(step)')")
      // The mode can only be switched when no other connection is open.
      if sql.contains("journal_mode") { replica.close() }
      try execute(replica.source, sql + "; INSERT INTO t VALUES (\(step + 20),'after \(step)')")
      try replica.takeAndReplay()
      #expect(try replica.differences() == [])
    }
  }

  /// The list of docs/explanation/sqlite-capture.md, "What a program notices", is complete: all other answers of SQLite
  /// are as without Cairn.
  @Test(arguments: ["WAL", "DELETE"])
  func `a program notices only what the list of the documents says`(mode: String) throws {
    let folder = try TempFolder()
    let schema = """
      PRAGMA journal_mode = \(mode);
      CREATE TABLE t(id INTEGER PRIMARY KEY, a, b DEFAULT 7); CREATE TABLE u(id INTEGER PRIMARY KEY, a UNIQUE, b UNIQUE);
      CREATE TABLE w(k TEXT PRIMARY KEY, n) WITHOUT ROWID; CREATE TABLE f(a, b); CREATE TABLE s(id INTEGER PRIMARY KEY AUTOINCREMENT, a);
      CREATE TABLE c(id INTEGER PRIMARY KEY, t REFERENCES t); CREATE TABLE log(id INTEGER PRIMARY KEY, l);
      CREATE TRIGGER tr AFTER UPDATE ON s BEGIN
        INSERT INTO log(l) VALUES (last_insert_rowid()); UPDATE s SET a = a || changes() || last_insert_rowid() WHERE id = 100; END;
      CREATE TABLE g0(a, d AS (a + 1), e AS (a * 2) STORED); CREATE TABLE g1(a, d AS (a + 1), e AS (a * 2) STORED);
      CREATE VIEW v AS SELECT * FROM t; CREATE TRIGGER vi INSTEAD OF INSERT ON v BEGIN INSERT INTO t(a) VALUES (new.a); END;
      INSERT INTO g0(a) VALUES (1), (2); INSERT INTO log VALUES (77, 'x'); INSERT INTO t(a) VALUES ('first')
      """
    let alike = [
      "INSERT INTO t(a) VALUES ('n')", "INSERT INTO t(a) VALUES ('m'), ('o')",
      "INSERT INTO t SELECT id + 10, a, b FROM t",
      "INSERT INTO t(a) SELECT a FROM t RETURNING *, last_insert_rowid()",
      "UPDATE t SET a = 'q' WHERE id < 3 RETURNING *",
      "DELETE FROM t WHERE id = 2", "REPLACE INTO t(id, a) VALUES (3, 'r')", "INSERT OR IGNORE INTO t(id) VALUES (3)",
      "INSERT INTO t(id, a) VALUES (3, 'dup')", "INSERT INTO u VALUES (1, 'a', 'b'), (2, 'c', 'd')",
      "REPLACE INTO u VALUES (9, 'a', 'd')",
      "INSERT INTO u VALUES (10, 'a', 'e') ON CONFLICT(a) DO UPDATE SET b = excluded.b",
      "INSERT INTO u VALUES (9, 'x', 'y')", "INSERT INTO w VALUES ('a', 1), ('b', 2)",
      "INSERT INTO w VALUES ('a', 1) ON CONFLICT DO UPDATE SET n = n + 1 RETURNING *",
      "INSERT INTO f SELECT id, a FROM t",
      "INSERT INTO f SELECT * FROM f", "INSERT INTO s(a) VALUES ('z'); INSERT INTO s VALUES (100, 'y')",
      "UPDATE s SET a = 'x' WHERE id = 1", "SELECT * FROM s", "SELECT * FROM log",
      "INSERT INTO v(a) VALUES ('by view')",
      "SELECT * FROM v", "SELECT * FROM t NATURAL JOIN u", "BEGIN; INSERT INTO t(a) VALUES ('s'); SAVEPOINT p",
      "INSERT INTO t(a) VALUES ('t'); ROLLBACK TO p", "COMMIT", "BEGIN; INSERT INTO t(a) VALUES ('gone'); ROLLBACK",
      "INSERT INTO g1(a) SELECT a FROM g0", "SELECT * FROM g1", "SELECT rowid, * FROM f",
      "CREATE TABLE copied AS SELECT * FROM t; SELECT * FROM copied", "DELETE FROM f", "SELECT * FROM sqlite_sequence",
      "PRAGMA table_info(t)", "PRAGMA foreign_key_list(c)", "PRAGMA foreign_key_check", "PRAGMA integrity_check",
    ]
    let noticed = [
      "INSERT INTO g1 SELECT * FROM g0", "INSERT INTO c VALUES (500, 12345)", "VACUUM", "ALTER TABLE t RENAME TO t9",
    ]
    var heard: [[String]] = []
    for isCaptured in [false, true] {
      let replica = Replica(
        folder, source: "\(isCaptured).db", target: "target\(isCaptured).db", trail: "trail\(isCaptured)")
      try execute(replica.source, schema)
      if isCaptured { try replica.takeAndReplay() }
      let program = try Database(ofProgram: replica.source)
      try program.execute("PRAGMA foreign_keys = 1")
      heard.append(
        (alike + noticed).map { sql in
          var answer = ""
          do {
            for statement in sql.split(separator: ";") {
              answer = try program.query(String(statement)).map { "\($0.map(Contents.show))" }.joined(separator: " ")
            }
          } catch { answer = (error as? SQLiteError)?.message ?? "\(error)" }
          let told = try? program.query("SELECT changes(), last_insert_rowid()")
          return "\(sql): \(answer) \((told?.first ?? []).map(Contents.show))"
        })
      if isCaptured {
        try replica.takeAndReplay()
        #expect(try replica.differences() == [])
      }
    }
    for (index, (bare, captured)) in zip(heard[0], heard[1]).enumerated() {
      if index < alike.count {
        #expect(captured == bare)
      } else {
        #expect(captured != bare, "the list may lose this line")
      }
    }
    let listed = heard[1][alike.count]
    #expect(listed.contains("table g1 has 1 columns but 3 values were supplied"), "\(listed)")
  }
}
