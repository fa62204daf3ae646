import CSQLite
import Capturing
import Changes
import Foundation
import SQLiteKit
import SystemKit
import TestServers
import Testing

/// Writes that no trigger sees, and what programs do to the capture itself while it is at work.
@Suite struct UnseenWriteTests {
  private func wait(_ seconds: Double = 15, until body: () throws -> Bool) throws -> Bool {
    let limit = Date(timeIntervalSinceNow: seconds)
    while Date() < limit {
      if try body() { return true }
      usleep(50_000)
    }
    return false
  }

  /// A program as Fossil, with its triggers off; a program that writes by blob I/O; programs whose writes need no word.
  @Test(arguments: ["triggers off", "blob", "uncaptured table", "checkpoint"])
  func `a write that no trigger saw is reported, and its table is copied again`(kind: String) throws {
    let folder = try TempFolder()
    let replica = Replica(folder)
    replica.options.tables = TablePatterns(["*", "!own"])
    try execute(
      replica.source,
      """
      PRAGMA journal_mode = WAL; CREATE TABLE t(id INTEGER PRIMARY KEY, a BLOB); CREATE TABLE u(a); CREATE TABLE own(a);
      INSERT INTO t VALUES (1, zeroblob(16)), (2, 'b'); INSERT INTO u VALUES (1)
      """)
    let program = try Database(ofProgram: replica.source)
    var isTold = false
    let error = try following(replica, seconds: 0) {
      // The digests are taken when capture is idle.
      usleep(2_500_000)
      switch kind {
      case "triggers off":
        program.setTriggersEnabled(false)
        try program.executeScript("UPDATE t SET a = 'unseen' WHERE id = 2; DELETE FROM u")
      case "blob": try writeBlob(replica.source)
      case "uncaptured table": try program.execute("INSERT INTO own VALUES (1)")
      default: try program.execute("PRAGMA wal_checkpoint(TRUNCATE)")
      }
      let isUnseen = kind == "triggers off" || kind == "blob"
      isTold = try wait(isUnseen ? 15 : 3) { replica.notices.contains { $0.hasPrefix("writes-unseen: ") } }
      #expect(isTold == isUnseen, "\(replica.notices)")
      if isTold {
        #expect(replica.notices.contains { $0.contains(kind == "blob" ? "wrote to t of" : "wrote to t, u of") })
      }
      // The copies are in the trail.
      usleep(1_000_000)
    }
    #expect(error == nil)
    try replica.takeAndReplay()
    let (source, target) = (try Contents(replica.source), try Contents(replica.target))
    #expect(source.rows["t"] == target.rows["t"] && source.rows["u"] == target.rows["u"])
  }

  private func writeBlob(_ path: String) throws {
    var handle: OpaquePointer?
    try #require(sqlite3_open(path, &handle) == SQLITE_OK)
    defer { sqlite3_close(handle) }
    var blob: OpaquePointer?
    try #require(sqlite3_blob_open(handle, "main", "t", "a", 1, 1, &blob) == SQLITE_OK)
    #expect(sqlite3_blob_write(blob, "HELLO", 5, 0) == SQLITE_OK)
    #expect(sqlite3_blob_close(blob) == SQLITE_OK)
  }

  /// As `fossil rebuild` does: it drops each table that it does not know, and leaves the triggers.
  @Test(arguments: [["journal", "stage", "layout", "unhooked", "control"], ["stage"], ["journal"]], [true, false])
  func `tables of capture that a program drops are found, and the program can write`(
    dropped: [String], isRunning: Bool
  ) throws {
    let folder = try TempFolder()
    let replica = Replica(folder)
    try execute(replica.source, "PRAGMA journal_mode = WAL; CREATE TABLE t(id INTEGER PRIMARY KEY, k UNIQUE)")
    #expect(try Journal(Database(path: replica.source)).lostTables() == nil)
    func drop() throws { for name in dropped { try execute(replica.source, "DROP TABLE cairn_\(name)") } }
    if isRunning {
      #expect(try following(replica, seconds: 10) { try drop() } == .sourceWentBack)
    } else {
      try replica.take()
      try drop()
      let program = try Database(ofProgram: replica.source)
      #expect(throws: SQLiteError.self) { try program.execute("INSERT INTO t VALUES (2, 2)") }
      let found = try Journal(Database(path: replica.source)).lostTables()
      #expect(found?.code == .sourceWentBack && found?.message.contains("every write to t fails") == true)
      #expect(code { try replica.take() } == .sourceWentBack)
    }
    // The look that found it has taken the triggers off.
    try execute(replica.source, "INSERT INTO t VALUES (1, 1)")
    #expect(code { try replica.take() } == .sourceWentBack)
    let found = try Journal(Database(path: replica.source)).lostTables()
    #expect((found == nil) == (dropped.count == 5))
    // Every command that asks for the capture says so, before it reads a table that is gone.
    let asked = code { _ = try Journal(Database(path: replica.source)).owner() }
    #expect(asked == (dropped.contains("control") ? nil : .sourceWentBack))
    if let found { #expect(found.code == .sourceWentBack && found.hint.contains("cairn detach sqlite:")) }
    #expect(try Journal(Database(path: replica.source)).detach() == (dropped.count < 5))
    try execute(replica.source, "INSERT INTO t VALUES (3, 3)")
  }

  @Test func `a source that is locked for longer than the busy timeout is waited for`() throws {
    let folder = try TempFolder()
    let replica = Replica(folder)
    try execute(replica.source, "PRAGMA journal_mode = DELETE; CREATE TABLE t(id INTEGER PRIMARY KEY)")
    let program = try Database(ofProgram: replica.source)
    let error = try following(replica, seconds: 1) {
      try program.executeScript("BEGIN EXCLUSIVE; INSERT INTO t VALUES (1)")
      #expect(try wait { replica.notices.contains { $0.contains("another program holds a lock on") } })
      try program.execute("COMMIT")
    }
    #expect(error == nil)
    try replica.takeAndReplay()
    #expect(try replica.differences() == [])
  }

  @Test func `a burst of schema changes ends no statement`() throws {
    let folder = try TempFolder()
    let path = folder("b.db")
    try execute(path, "PRAGMA journal_mode = WAL; CREATE TABLE t(a); INSERT INTO t VALUES (1)")
    let stop = StopSignal()
    let thread = try WorkerThread {
      guard let program = try? Database(ofProgram: path) else { return }
      while !stop.isSet { try? program.executeScript("CREATE VIEW v AS SELECT 1; DROP VIEW v") }
    }
    let reader = try Database(path: path)
    let statement = try reader.prepare("SELECT a FROM t")
    let limit = Date(timeIntervalSinceNow: 2)
    while Date() < limit {
      #expect(try statement.step())
      statement.reset()
      #expect(try reader.integer("SELECT count(*) FROM sqlite_master WHERE name = 't'") == 1)
    }
    stop.set()
    _ = thread.join()
  }
}
