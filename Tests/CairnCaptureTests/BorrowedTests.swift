import CSQLite
import CairnCapture
import Capturing
import Changes
import SQLiteKit
import SystemKit
import TestServers
import Testing
import Trails

/// On a connection that the program has already, and on files that were captured before.
@Suite struct BorrowedTests {
  private let table = "CREATE TABLE item(id INTEGER PRIMARY KEY, name TEXT)"

  @Test func `on a connection of the program, statements are kept as they are executed`() throws {
    let till = try Till(table)
    try till.shop.close()
    var handle: OpaquePointer?
    #expect(sqlite3_open(till.folder("shop.db"), &handle) == SQLITE_OK)
    let connection = try #require(handle)
    defer { sqlite3_close(connection) }
    func run(_ sql: String) { #expect(sqlite3_exec(connection, sql, nil, nil, nil) == SQLITE_OK) }
    try till.take()
    _ = try till.told()
    let shop = try CapturedDatabase(connection: connection, node: "till-7")
    try shop.execute("INSERT INTO item VALUES (?, 'a')", 1)
    #expect(sqlite3_last_insert_rowid(connection) == 1)
    run("BEGIN; INSERT INTO item VALUES (2, 'plain')")
    try shop.execute("INSERT INTO item VALUES (3, datetime('now'))")
    try shop.execute("UPDATE item SET name = 'b' WHERE id = 99")
    let error = #expect(throws: DatabaseError.self) { try shop.transaction { _ in } }
    #expect(error?.kind == .nestedTransaction)
    run("COMMIT; BEGIN")
    try shop.execute("DELETE FROM item")
    run("ROLLBACK")
    try shop.transaction { try $0.execute("UPDATE item SET name = 'c'") }
    try shop.close()
    try till.take()
    #expect(
      try till.told() == [
        "begin", "INSERT INTO item VALUES (?, 'a') [1] 1 unknown", "insert item", "end 1 1+0", "commit",
        "group", "insert item", "INSERT INTO item VALUES (3, datetime('now')) 1 unknown", "insert item", "end 1 1+0",
        "commit",
        "begin", "UPDATE item SET name = 'c' 3 unknown", "update item", "update item", "update item", "end 3 3+0",
        "commit",
      ])
    try till.replay()
    let rows = try till.rows("item")
    #expect(rows.source == rows.target && rows.target.count == 3)
  }

  @Test func `a rollback to a savepoint of the program's own leaves nothing in the trail`() throws {
    let till = try Till(table)
    try till.shop.close()
    var handle: OpaquePointer?
    #expect(sqlite3_open(till.folder("shop.db"), &handle) == SQLITE_OK)
    let connection = try #require(handle)
    defer { sqlite3_close(connection) }
    func run(_ sql: String) { #expect(sqlite3_exec(connection, sql, nil, nil, nil) == SQLITE_OK) }
    try till.take()
    _ = try till.told()
    let shop = try CapturedDatabase(connection: connection, node: "till-7")
    for goesOn in [false, true] {
      try shop.transaction { db in
        try db.execute("INSERT INTO item VALUES (?, 'a')", goesOn ? 2 : 1)
        run("SAVEPOINT own")
        try db.execute("UPDATE item SET name = 'b'")
        run("ROLLBACK TO own; RELEASE own")
        // It gets the numbers in the journal that the UPDATE had.
        if goesOn { run("INSERT INTO item VALUES (3, 'plain'), (4, 'plain')") }
        try db.savepoint { try $0.execute("DELETE FROM item WHERE id = 4") }
      }
    }
    try shop.close()
    try till.take()
    #expect(
      try till.told() == [
        "begin", "INSERT INTO item VALUES (?, 'a') [1] 1 unknown", "insert item", "end 1 1+0", "commit",
        "begin", "INSERT INTO item VALUES (?, 'a') [2] 1 unknown", "insert item", "end 1 1+0", "insert item",
        "insert item",
        "DELETE FROM item WHERE id = 4 1 unknown", "delete item", "end 1 0+1", "commit",
      ])
    try till.replay()
    let rows = try till.rows("item")
    #expect(rows.source == rows.target && rows.target.count == 3)
  }

  @Test func `a file that a capture has taken before goes on, and an older journal is brought up`() throws {
    let till = try Till(table)
    try till.shop.close()
    try till.take()
    let database = try Database(path: till.folder("shop.db"))
    try database.executeScript(
      "DELETE FROM cairn_control WHERE id = 2; UPDATE cairn_control SET version = 3 WHERE id = 0")
    till.endCapture()
    let shop = try CapturedDatabase(path: till.folder("shop.db"), node: "till-7")
    #expect(try database.integer("SELECT version FROM cairn_control WHERE id = 0") == 5)
    try till.take()
    _ = try till.told()
    try shop.execute("INSERT INTO item VALUES (1, 'a')")
    try till.take()
    #expect(
      try till.told() == ["begin", "INSERT INTO item VALUES (1, 'a') 1", "insert item", "end 1 1+0", "commit"])
    try database.execute("UPDATE cairn_control SET version = 6 WHERE id = 0")
    let error = #expect(throws: DatabaseError.self) {
      _ = try CapturedDatabase(path: till.folder("shop.db"), node: "till-7")
    }
    #expect(error?.kind == .capture)
  }

  @Test func `earlier rows are copied, and changes that come meanwhile are captured`() throws {
    let folder = try TempFolder()
    try Database(path: folder("shop.db"), mode: .create).executeScript("\(table); INSERT INTO item VALUES (1, 'old')")
    let till = try Till(at: folder)
    try till.shop.execute("INSERT INTO item VALUES (2, 'new')")
    try till.take()
    #expect(try till.told().contains("copy item"))
    try till.shop.execute("INSERT INTO item VALUES (3, 'newer')")
    try till.take()
    #expect(
      try till.told() == ["begin", "INSERT INTO item VALUES (3, 'newer') 1", "insert item", "end 1 1+0", "commit"])
    try till.replay()
    let rows = try till.rows("item")
    #expect(rows.source == rows.target && rows.target.count == 3)
  }

  @Test func `a file whose journal was removed and created again is not taken for the old one`() throws {
    let till = try Till(table, "INSERT INTO item VALUES (1, 'a')")
    try till.take()
    till.endCapture()
    try till.shop.close()
    try Journal(Database(path: till.folder("shop.db"))).detach()
    let shop = try CapturedDatabase(path: till.folder("shop.db"), node: "till-7")
    try shop.execute("INSERT INTO item VALUES (2, 'a')")
    let error = #expect(throws: CairnError.self) { try till.take() }
    #expect(error?.code == .sourceWentBack)
  }
}
