import Capturing
import Changes
import Foundation
import SQLiteKit
import SystemKit
import TestServers
import Testing

/// Capture is taken off tables and put back, and tables are left out.
@Suite struct HookTests {
  private func started(_ folder: TempFolder, tables: [String] = ["*"]) throws -> Replica {
    let replica = Replica(folder)
    replica.options.tables = TablePatterns(tables)
    try execute(
      replica.source,
      "PRAGMA journal_mode = WAL; CREATE TABLE item(id INTEGER PRIMARY KEY, a); CREATE TABLE note(a); INSERT INTO item VALUES (1,1),(2,2); INSERT INTO note VALUES (1)"
    )
    try replica.takeAndReplay()
    return replica
  }

  private func journal(_ replica: Replica) throws -> Journal { Journal(try Database(path: replica.source)) }

  @Test(arguments: [true, false])
  func `changes made while all tables were unhooked arrive after rehook`(isRunning: Bool) throws {
    let folder = try TempFolder()
    let replica = try started(folder)
    if !isRunning { replica.close() }
    #expect(try journal(replica).unhook(nil).sorted() == ["item", "note"])
    #expect(
      try Database(path: replica.source).integer("SELECT count(*) FROM sqlite_master WHERE type = 'trigger'") == 0)
    try execute(
      replica.source, "ALTER TABLE item DROP COLUMN a; DELETE FROM item WHERE id = 1; INSERT INTO note VALUES (2)")
    if isRunning { try replica.takeAndReplay() }
    #expect(try journal(replica).rehook(nil, patterns: .init()).sorted() == ["item", "note"])
    try execute(replica.source, "INSERT INTO item VALUES (3)")
    try replica.takeAndReplay()
    #expect(try replica.differences() == [])
  }

  @Test func `a table is not copied as it was before it was unhooked`() throws {
    let replica = try started(TempFolder())
    replica.close()
    let before = try Contents(replica.target)
    try journal(replica).askForCopy(of: "item")
    _ = try journal(replica).unhook("item")
    try execute(replica.source, "ALTER TABLE item DROP COLUMN a; INSERT INTO note VALUES (2)")
    try replica.takeAndReplay()
    #expect(try Contents(replica.target).rows["item"] == before.rows["item"])
    #expect(try Contents(replica.target).rows["note"]?.count == 2)
    _ = try journal(replica).rehook("item", patterns: .init())
    try replica.takeAndReplay()
    #expect(try replica.differences() == [])
  }

  @Test func `an idle capture reads no table that is unhooked`() throws {
    let replica = try started(TempFolder())
    _ = try journal(replica).unhook("item")
    try execute(replica.source, "ALTER TABLE item DROP COLUMN a; INSERT INTO note VALUES (2)")
    for _ in 0..<3 {
      try replica.takeAndReplay()
      Clock.sleep(milliseconds: 400)
    }
    _ = try journal(replica).rehook("item", patterns: .init())
    try replica.takeAndReplay()
    #expect(try replica.differences() == [])
  }

  @Test func `a table that is dropped, renamed or created again while it is unhooked arrives as it is`() throws {
    let folder = try TempFolder()
    let replica = try started(folder)
    _ = try journal(replica).unhook("ITEM")
    try execute(replica.source, "DROP TABLE item; CREATE TABLE item(k TEXT PRIMARY KEY); INSERT INTO item VALUES ('a')")
    try replica.takeAndReplay()
    _ = try journal(replica).rehook("Item", patterns: .init())
    try replica.takeAndReplay()
    #expect(try replica.differences() == [])
    _ = try journal(replica).unhook("note")
    try execute(replica.source, "DROP TABLE note")
    _ = try journal(replica).rehook("note", patterns: .init())
    try replica.takeAndReplay()
    #expect(try replica.differences() == [])
  }

  @Test func `unhook and rehook refuse tables that they do not know`() throws {
    let folder = try TempFolder()
    let replica = try started(folder)
    #expect(code { _ = try journal(replica).unhook("nothing") } == .tableMissing)
    #expect(code { _ = try journal(replica).rehook("item", patterns: .init()) } == .tableMissing)
  }

  @Test func `DROP COLUMN of a hooked table fails with a word that says what to do, and leaves everything as it was`()
    throws
  {
    let folder = try TempFolder()
    let replica = try started(folder)
    do {
      try execute(replica.source, "ALTER TABLE item DROP COLUMN a")
      Issue.record("DROP COLUMN went through")
    } catch let error as SQLiteError {
      #expect(error.message.contains("cairn unhook") && error.message.contains("cairn rehook"))
    }
    try execute(replica.source, "INSERT INTO item VALUES (5,5)")
    try replica.takeAndReplay()
    #expect(try replica.differences() == [])
  }

  @Test func `only the tables that match are taken`() throws {
    let folder = try TempFolder()
    let replica = try started(folder, tables: ["*", "!NOTE"])
    try execute(
      replica.source,
      "INSERT INTO note VALUES (2); INSERT INTO item VALUES (7,7); CREATE TABLE notes(a); INSERT INTO notes VALUES (1)")
    try replica.takeAndReplay()
    let found = try Contents(replica.target)
    #expect(found.rows["note"] == nil && found.rows["notes"]?.count == 1 && found.rows["item"]?.count == 3)
    #expect(
      try Database(path: replica.source).integer(
        "SELECT count(*) FROM sqlite_master WHERE type = 'trigger' AND tbl_name = 'note'") == 0)
  }

  @Test func `tables that come under another pattern at a later start are taken or left`() throws {
    let folder = try TempFolder()
    let replica = try started(folder, tables: ["item"])
    replica.close()
    replica.options.tables = TablePatterns(["note"])
    try execute(replica.source, "INSERT INTO note VALUES (2)")
    try replica.take()
    try execute(replica.source, "INSERT INTO item VALUES (8,8)")
    try replica.takeAndReplay()
    var found = try Contents(replica.target)
    #expect(found.rows["note"]?.count == 2)
    #expect(found.rows["item"]?.count == 2, "a table that is no longer taken stays as it was")
    replica.close()
    replica.options.tables = TablePatterns()
    try execute(replica.source, "DELETE FROM item WHERE id = 1")
    try replica.takeAndReplay()
    found = try Contents(replica.target)
    #expect(try replica.differences() == [])
  }

  /// Statements of the program on `item`, which is captured, and on `item_new`, which is not.
  @Test(arguments: [
    "BEGIN; ALTER TABLE item RENAME TO item_old; ALTER TABLE item_new RENAME TO item; COMMIT",
    "ALTER TABLE item RENAME TO item_old; INSERT INTO item_old VALUES (50,50); ALTER TABLE item_new RENAME TO item",
    "BEGIN; ALTER TABLE item RENAME TO x_new; ALTER TABLE item_new RENAME TO item; ALTER TABLE x_new RENAME TO item_new; COMMIT",
    "ALTER TABLE item RENAME TO item_old; CREATE TABLE item(id INTEGER PRIMARY KEY, b, c); INSERT INTO item VALUES (1,2,3)",
  ])
  func `a table that leaves by a rename leaves no trace in the one that takes its name`(swap: String) throws {
    let folder = try TempFolder()
    let replica = Replica(folder)
    replica.options.tables = TablePatterns(["item", "note"])
    try execute(
      replica.source,
      """
      PRAGMA journal_mode = WAL; CREATE TABLE item(id INTEGER PRIMARY KEY, a); CREATE TABLE note(a);
      INSERT INTO item VALUES (1,1),(2,2),(3,3); CREATE TABLE item_new(id INTEGER PRIMARY KEY, a);
      INSERT INTO item_new VALUES (1,10),(2,20)
      """)
    try replica.takeAndReplay()
    try execute(replica.source, swap)
    try replica.takeAndReplay()
    for other in ["item_old", "item_new"] {
      try? execute(
        replica.source,
        "INSERT INTO \(other) VALUES (70,70); UPDATE \(other) SET a = 5 WHERE id = 1; DELETE FROM \(other) WHERE id = 2"
      )
    }
    try execute(replica.source, "INSERT INTO item(id) VALUES (71)")
    try replica.takeAndReplay()
    #expect(try Contents(replica.target).rows["item"] == Contents(replica.source).rows["item"])
    #expect(try triggers(replica, on: ["item_old", "item_new"]) == 0)
  }

  private func triggers(_ replica: Replica, on tables: [String]) throws -> Int64? {
    try Database(path: replica.source).integer(
      "SELECT count(*) FROM sqlite_master WHERE type = 'trigger' AND tbl_name IN ("
        + tables.map { "'\($0)'" }.joined(separator: ",") + ")")
  }

  @Test func `a table that takes the name of an unhooked one is not taken for that`() throws {
    let folder = try TempFolder()
    let replica = try started(folder)
    try execute(replica.source, "CREATE TABLE fresh(id INTEGER PRIMARY KEY, a); INSERT INTO fresh VALUES (1,10)")
    try replica.takeAndReplay()
    _ = try journal(replica).unhook("fresh")
    try execute(
      replica.source,
      "BEGIN; ALTER TABLE item RENAME TO x; ALTER TABLE fresh RENAME TO item; ALTER TABLE x RENAME TO fresh; COMMIT")
    try replica.takeAndReplay()
    try execute(replica.source, "INSERT INTO item VALUES (70,70); INSERT INTO fresh VALUES (72,72)")
    try replica.takeAndReplay()
    #expect(try Contents(replica.target).rows["item"] == Contents(replica.source).rows["item"])
    _ = try journal(replica).rehook("fresh", patterns: .init())
    try replica.takeAndReplay()
    #expect(try replica.differences() == [])
  }

  @Test func `unhook takes the triggers off a table that was renamed since the last look`() throws {
    let folder = try TempFolder()
    let replica = try started(folder)
    replica.close()
    try execute(
      replica.source, "ALTER TABLE item RENAME TO old; CREATE TABLE item(id INTEGER PRIMARY KEY, a)")
    _ = try journal(replica).unhook("item")
    #expect(try triggers(replica, on: ["old", "item"]) == 0)
    try execute(replica.source, "INSERT INTO old VALUES (70,70); INSERT INTO item VALUES (71,71)")
    try replica.takeAndReplay()
    _ = try journal(replica).rehook("item", patterns: .init())
    try replica.takeAndReplay()
    #expect(try replica.differences() == [])
  }

  @Test func `triggers that an older version left at a table which has gone do no harm`() throws {
    let folder = try TempFolder()
    let replica = try started(folder)
    let left = try Database(path: replica.source).query(
      "SELECT sql FROM sqlite_master WHERE type = 'trigger' AND tbl_name = 'item'"
    ).map { $0[0].string }
    try execute(
      replica.source, "ALTER TABLE item RENAME TO gone; ALTER TABLE gone RENAME TO item; ALTER TABLE item ADD COLUMN b")
    try replica.takeAndReplay()
    // The entry that is there now is of another layout.
    try execute(
      replica.source, "CREATE TABLE other(id INTEGER PRIMARY KEY, a)")
    try replica.takeAndReplay()
    for text in left {
      try execute(replica.source, text.replacingOccurrences(of: "ON \"item\"", with: "ON \"other\""))
    }
    try execute(replica.source, "INSERT INTO other VALUES (70,70)")
    try replica.takeAndReplay()
    #expect(try replica.differences() == [])
  }

  @Test func `tables that cannot be captured are reported by name, with the reason`() throws {
    let folder = try TempFolder()
    let replica = Replica(folder)
    let wide = (0..<1950).map { "c\($0)" }.joined(separator: ",")
    try execute(
      replica.source,
      "CREATE TABLE ok(a); CREATE TABLE wide(\(wide)); CREATE TABLE hidden(rowid, _rowid_, oid); CREATE VIRTUAL TABLE ft USING fts5(x); INSERT INTO ok VALUES (1); INSERT INTO hidden VALUES (1,2,3)"
    )
    try replica.takeAndReplay()
    for name in ["wide", "hidden", "ft"] {
      #expect(replica.notices.contains { $0.hasPrefix("table \(name) is not captured: ") }, "\(name)")
    }
    #expect(try Contents(replica.target).rows == ["ok": ["int 1"]])
  }

  @Test(arguments: ["", "CREATE VIRTUAL TABLE ft USING fts5(x);", "CREATE TABLE hidden(rowid, _rowid_, oid);"])
  func `a source without a table that could be captured is refused, and nothing of ours stays in it`(setup: String)
    throws
  {
    let folder = try TempFolder()
    let replica = Replica(folder)
    try execute(replica.source, "PRAGMA journal_mode = WAL; PRAGMA user_version = 1; " + setup)
    let schema = try schemaText(replica.source)
    #expect(code { try replica.take() } == .noTables)
    #expect(try schemaText(replica.source) == schema)
  }

  @Test func `a pattern that matches nothing is refused, and capture stays as it was`() throws {
    let folder = try TempFolder()
    let replica = try started(folder)
    replica.close()
    let schema = try schemaText(replica.source)
    replica.options.tables = TablePatterns(["itme"])
    #expect(code { try replica.take() } == .noTables)
    #expect(try schemaText(replica.source) == schema)
    replica.options.tables = TablePatterns()
    try execute(replica.source, "DELETE FROM item WHERE id = 1")
    try replica.takeAndReplay()
    #expect(try replica.differences() == [])
  }

  @Test func `everything that is added to the source begins with cairn_`() throws {
    let folder = try TempFolder()
    let replica = try started(folder)
    let database = try Database(path: replica.source)
    let names = try database.query("SELECT name FROM sqlite_master WHERE name NOT IN ('item', 'note')").map {
      $0[0].string
    }
    #expect(!names.isEmpty)
    for name in names { #expect(name.hasPrefix("cairn_") || name.hasPrefix("sqlite_autoindex_cairn_"), "\(name)") }
  }

  @Test func `the counters that a program sees inside of its transactions are its own, apart from total_changes`()
    throws
  {
    let folder = try TempFolder()
    let replica = try started(folder)
    let database = try Database(path: replica.source)
    let before = try #require(try database.integer("SELECT total_changes()"))
    try database.executeScript("BEGIN; INSERT INTO item VALUES (77,7); UPDATE item SET a = 1")
    #expect(try database.query("SELECT changes(), last_insert_rowid()") == [[.integer(3), .integer(77)]])
    // SQLite counts what triggers write in total_changes; nothing can be done about it.
    #expect(try #require(try database.integer("SELECT total_changes()")) - before > 4)
    try database.execute("ROLLBACK")
  }
}
