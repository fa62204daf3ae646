import Applying
import Changes
import SQLiteKit
import TestServers
import Testing

/// Invariant 6: a row that is not as the trail says is reported with table, key, column and place.
@Suite struct RefusalTests {
  private let table = "CREATE TABLE item(id INTEGER PRIMARY KEY, name TEXT UNIQUE, price)"

  private func started() throws -> Handmade {
    let made = try Handmade(TempFolder())
    try made.begin(table, "item", [[1, "tea", 5], [2, "cup", 7], [3, "pot", 9]])
    return made
  }

  /// Expects a message, given the statements of the program at the target and the records of the trail.
  private func expect(
    _ code: ErrorCode, _ words: [String], after sql: String, _ body: (Handmade) throws -> Void
  ) throws {
    let made = try started()
    try made.run(sql)
    let before = try made.rows("SELECT * FROM item ORDER BY id")
    try made.transaction { try body(made) }
    let error = try #require(failure { try made.replay() })
    #expect(error.code == code, "\(error)")
    for word in words + ["table item", made.target, "far.shop at 00000001:"] {
      #expect(error.message.contains(word), "'\(word)' is not in: \(error.message)")
    }
    #expect(error.context["table"] == "item" && error.context["key"] != nil && error.context["position"] != nil)
    #expect(!error.hint.isEmpty)
    #expect(try made.rows("SELECT * FROM item ORDER BY id") == before)
  }

  @Test func `a copy that is asked for makes what comes before it moot`() throws {
    let made = try started()
    // Two rows that the target cannot take, and an older copy that was cut short.
    try made.run("UPDATE item SET name = 'other' WHERE id = 2")
    try made.transaction { try made.delete("item", [2, "cup", 7]) }
    try made.transaction {
      try made.refresh("item", .start(.asked, .byKey, estimatedRows: 2))
      try made.refresh("item", .chunk(.keys(after: nil, through: [1, nil, nil])))
      try made.row("item", [1, "stale", 1])
    }
    #expect(failure { try made.replay() }?.code == .rowDiffers)
    try SQLiteApplyState(Database(path: made.target)).expectRefreshOfAll()
    made.options.askedBehind = 3
    try made.transaction { try made.copy("item", [[1, "tea", 6], [4, "jug", 2]], reason: .asked) }
    try made.transaction { try made.update("item", [1, "tea", 6], [nil, nil, 7]) }
    try made.replay()
    #expect(try made.rows("SELECT * FROM item ORDER BY id") == [[1, "tea", 7], [4, "jug", 2]])
  }

  @Test func `an update of a row that is missing`() throws {
    try expect(.rowMissing, ["id=2", "updated"], after: "DELETE FROM item WHERE id = 2") {
      try $0.update("item", [2, "cup", 7], [nil, nil, 8])
    }
  }

  @Test func `a delete of a row that is missing`() throws {
    try expect(.rowMissing, ["id=2", "deleted"], after: "DELETE FROM item WHERE id = 2") {
      try $0.delete("item", [2, "cup", 7])
    }
  }

  @Test func `an update of a row that differs names the column`() throws {
    try expect(.rowDiffers, ["id=2", "column price"], after: "UPDATE item SET price = 1 WHERE id = 2") {
      try $0.update("item", [2, "cup", 7], [nil, "mug", nil])
    }
  }

  @Test func `a delete of a row that differs names the column`() throws {
    try expect(.rowDiffers, ["id=3", "column name"], after: "UPDATE item SET name = 'pan' WHERE id = 3") {
      try $0.delete("item", [3, "pot", 9])
    }
  }

  @Test func `a row that differs by its storage class only is another row`() throws {
    try expect(.rowDiffers, ["id=2", "column price"], after: "UPDATE item SET price = 7.0 WHERE id = 2") {
      try $0.update("item", [2, "cup", 7], [nil, nil, 8])
    }
  }

  @Test func `an insert of a key that is there`() throws {
    try expect(.rowExists, ["id=4", "item.id"], after: "INSERT INTO item VALUES (4,'own',0)") {
      try $0.insert("item", [4, "jar", 1])
    }
  }

  @Test func `an insert of another unique value that is there names the column`() throws {
    try expect(.rowExists, ["id=4", "item.name"], after: "INSERT INTO item VALUES (40,'jar',0)") {
      try $0.insert("item", [4, "jar", 1])
    }
  }

  @Test func `an update to a unique value that is there names the column`() throws {
    try expect(.rowExists, ["id=1", "item.name"], after: "INSERT INTO item VALUES (40,'jar',0)") {
      try $0.update("item", [1, "tea", 5], [nil, "jar", nil])
    }
  }

  @Test func `a CHECK of the target that refuses a row is named`() throws {
    let made = try Handmade(TempFolder())
    try made.run("CREATE TABLE item(id INTEGER PRIMARY KEY, name TEXT, price CONSTRAINT cheap CHECK (price < 100))")
    try made.begin("CREATE TABLE item(id INTEGER PRIMARY KEY, name TEXT, price)", "item", [[1, "tea", 5]])
    try made.transaction { try made.insert("item", [2, "gold", 1000]) }
    let error = try #require(failure { try made.replay() })
    #expect(error.code == .constraintFailed)
    for word in ["table item", "id=2", "cheap"] { #expect(error.message.contains(word), "\(error.message)") }
  }

  @Test func `rows without key are shown by their first columns, and long values are cut`() throws {
    let made = try Handmade(TempFolder())
    try made.begin("CREATE TABLE f(a, b, c, d)", "f", [[1, 2, 3, 4]], .whole)
    try made.transaction {
      try made.delete("f", [.text(String(repeating: "x", count: 500)), .blob([1, 2]), .null, 4])
    }
    let error = try #require(failure { try made.replay() })
    #expect(error.code == .rowMissing)
    #expect(error.message.contains("b=x'0102', c=NULL, …") && error.message.count < 400, "\(error.message)")
  }

  @Test func `an implied delete of a row that is gone is no error`() throws {
    let made = try started()
    try made.transaction {
      try made.delete("item", [9, "gone", 0], isImplied: true)
      try made.delete("item", [1, "tea", 5], isImplied: true)
    }
    try made.replay()
    #expect(try made.rows("SELECT id FROM item") == [[2], [3]])
  }

  @Test func `an update that comes before the insert of its row waits for it`() throws {
    let made = try started()
    try made.transaction {
      try made.update("item", [4, "jar", 2], [nil, nil, 3])
      try made.insert("item", [4, "jar", 1])
      try made.update("item", [4, "jar", 1], [nil, nil, 2])
    }
    try made.replay()
    #expect(try made.rows("SELECT price FROM item WHERE id = 4") == [[3]])
  }

  @Test func `an update does not wait beyond its transaction`() throws {
    let made = try started()
    try made.transaction { try made.update("item", [4, "jar", 1], [nil, nil, 3]) }
    try made.transaction { try made.insert("item", [4, "jar", 1]) }
    #expect(failure { try made.replay() }?.code == .rowMissing)
  }

  @Test func `truncate empties a table`() throws {
    let made = try started()
    try made.transaction {
      try made.truncate("item")
      try made.insert("item", [7, "new", 1])
    }
    try made.replay()
    #expect(try made.rows("SELECT id FROM item") == [[7]])
  }
}
