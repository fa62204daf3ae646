import Changes
import Foundation
import SQLiteKit
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
}
