import CairnCapture
import Foundation
import SQLiteKit
import TestServers
import Testing

/// Statements, values and rows, as a program sees them; with and without capture alike.
@Suite struct ExecutionTests {
  private struct Item: Codable, Equatable {
    var id: Int
    var name: String
    var price: Double?
    var isNew: Bool
    var picture: [UInt8]
  }

  private func shop(_ folder: TempFolder, capture: Bool) throws -> CapturedDatabase {
    var options = CapturedDatabase.Options()
    options.capture = capture
    let shop = try CapturedDatabase(path: folder("shop.db"), node: "till-7", options: options)
    try shop.execute("CREATE TABLE item(id INTEGER PRIMARY KEY, name TEXT, price REAL, isNew INT, picture BLOB)")
    return shop
  }

  @Test(arguments: [true, false]) func `every kind of value comes back as it was bound`(capture: Bool) throws {
    let shop = try shop(TempFolder(), capture: capture)
    let values: [(any SQLConvertible)?] = [
      Int64.min, "tee ☕", -0.5, true, [UInt8](0...255), nil, "", [UInt8](), Int8(-3), String?.none, 7 as Int?,
    ]
    for value in values {
      let back = try #require(try shop.query("SELECT ? AS v", value).first)
      #expect(back["v"] == value?.sqlValue ?? .null)
    }
    #expect(try shop.query("SELECT ?, ?, ?", parameters: [1, "x", nil])[0].values == [1, "x", nil])
  }

  @Test(arguments: [true, false]) func `texts of statements that look alike are two statements`(capture: Bool) throws {
    let shop = try shop(TempFolder(), capture: capture)
    let names = ["caf\u{e9}", "cafe\u{301}"]
    for round in 0..<6 {
      let name = names[round % 2]
      try shop.execute("INSERT INTO item(id, name) VALUES (NULL, '\(name)')")
    }
    let rows = try shop.query("SELECT hex(name) AS h FROM item ORDER BY id").map { $0["h"] }
    #expect(rows.count == 6)
    for (round, row) in rows.enumerated() {
      #expect(row == .text(names[round % 2].utf8.map { String($0, radix: 16, uppercase: true) }.joined()))
    }
  }

  @Test(arguments: [true, false]) func `values are written as they are, however long those after them`(
    capture: Bool
  ) throws {
    let shop = try shop(TempFolder(), capture: capture)
    for count in [1, 1000, 100_000, 3_000_000, 10] {
      let name = String(repeating: "tée", count: count)
      let picture = (0..<count).map { UInt8(truncatingIfNeeded: $0) }
      try shop.execute("REPLACE INTO item VALUES (?, ?, ?, ?, ?)", 1, name, 0.5, 7, picture)
      let row = try shop.query("SELECT * FROM item")[0]
      #expect(row.values == [1, .text(name), 0.5, 7, .blob(picture)])
    }
    try shop.execute("REPLACE INTO item VALUES (?, ?, ?, ?, ?)", parameters: [1, "", nil, nil, [UInt8]()])
    #expect(try shop.query("SELECT * FROM item")[0].values == [1, "", nil, nil, .blob([])])
  }

  @Test(arguments: [true, false]) func `rows come as values, by name and as types`(capture: Bool) throws {
    let shop = try shop(TempFolder(), capture: capture)
    let insert = "INSERT INTO item VALUES (?, ?, ?, ?, ?)"
    #expect(try shop.execute(insert, 1, "tea", 3.5, true, [1, 2] as [UInt8]) == 1)
    #expect(try shop.execute(insert, 2, "rum", nil, false, [] as [UInt8]) == 1)
    #expect(try shop.lastInsertRowid == 2)
    let rows = try shop.query("SELECT * FROM item ORDER BY id")
    #expect("\(rows[0]["NAME"]) \(rows[0]["price"]) \(rows[1]["price"])" == "tea 3.5 NULL")
    #expect(try rows[1].value("price", as: Double?.self) == nil)
    #expect(try rows[0].value("id", as: Int32.self) == 1)
    let items = try shop.query(as: Item.self, "SELECT * FROM item WHERE id < ? ORDER BY id", 10)
    #expect(
      items == [
        Item(id: 1, name: "tea", price: 3.5, isNew: true, picture: [1, 2]),
        Item(id: 2, name: "rum", price: nil, isNew: false, picture: []),
      ])
    #expect(try shop.query(as: String.self, "SELECT name FROM item ORDER BY id") == ["tea", "rum"])
    #expect(throws: DatabaseError.self) { try rows[0].value("colour", as: String.self) }
    #expect(throws: DatabaseError.self) { try rows[0].value("name", as: Int.self) }
    #expect(throws: DatabaseError.self) { try shop.query(as: Item.self, "SELECT id FROM item") }
  }

  @Test(arguments: [true, false]) func `a query that was prepared before a table changed names its values rightly`(
    capture: Bool
  ) throws {
    let folder = try TempFolder()
    let shop = try shop(folder, capture: capture)
    let texts = ["SELECT * FROM v", "SELECT * FROM item", "UPDATE item SET price = 1 RETURNING *"]
    func look() throws {
      for text in texts {
        let row = try shop.query(text)[0]
        #expect(row.columns.count == row.values.count && row["id"] == 1 && row["name"] == "tea", "\(text): \(row)")
      }
    }
    try shop.execute("CREATE VIEW v AS SELECT price, id, name FROM item")
    try shop.execute("INSERT INTO item VALUES (1, 'tea', 1, 1, NULL)")
    try look()
    try shop.execute("ALTER TABLE item DROP COLUMN picture")
    try shop.execute("ALTER TABLE item ADD COLUMN colour DEFAULT 'red'")
    try look()
    #expect(try shop.query(texts[1])[0].columns == ["id", "name", "price", "isNew", "colour"])
    // By another program.
    try Database(path: folder("shop.db")).executeScript("DROP VIEW v; CREATE VIEW v AS SELECT name, id FROM item")
    try look()
    #expect(try shop.query(texts[0])[0].columns == ["name", "id"])
  }

  @Test(arguments: [true, false]) func `RETURNING gives rows, and what it changed is there`(capture: Bool) throws {
    let shop = try shop(TempFolder(), capture: capture)
    let rows = try shop.query(
      "INSERT INTO item(name) VALUES ('a'), ('b') RETURNING id, name")
    #expect(rows.map(\.values) == [[1, "a"], [2, "b"]])
    var seen: [SQLValue] = []
    try shop.forEach("SELECT id, name FROM item ORDER BY id") { row in
      seen.append(row["name"])
      // While rows are given, statements can be executed, also the same.
      try shop.execute("UPDATE item SET price = 1 WHERE id = ?", row["id"])
      #expect(try shop.query("SELECT id, name FROM item ORDER BY id").count == 2)
    }
    #expect(seen == ["a", "b"])
    #expect(try shop.query("SELECT count(*) FROM item WHERE price = 1")[0][0] == 2)
  }

  @Test(arguments: [true, false]) func `a transaction commits as a whole or not at all`(capture: Bool) throws {
    struct Refused: Error {}
    let shop = try shop(TempFolder(), capture: capture)
    let token = try shop.transaction { db in
      try db.execute("INSERT INTO item(name) VALUES ('a')")
      // The database itself is the same connection.
      try shop.execute("INSERT INTO item(name) VALUES ('b')")
      let saved = try db.savepoint { db in
        try db.execute("INSERT INTO item(name) VALUES ('c')")
        #expect(throws: Refused.self) {
          try db.savepoint { db in
            try db.execute("DELETE FROM item")
            throw Refused()
          }
        }
        return try db.query("SELECT count(*) FROM item")[0][0]
      }
      #expect(saved == 3)
    }
    #expect(throws: Refused.self) {
      try shop.transaction { db in
        try db.execute("DELETE FROM item")
        throw Refused()
      }
    }
    let (count, later) = try shop.transaction(returning: Int.self) { db in
      // A statement that fails does not end it.
      let error = #expect(throws: DatabaseError.self) { try db.execute("INSERT INTO item(id) VALUES (1)") }
      #expect(error?.kind == .constraint && error?.code == 1555)
      try db.execute("INSERT INTO item(name) VALUES (?)", "d")
      return try db.query("SELECT count(*) FROM item")[0].value("count(*)")
    }
    #expect(count == 4)
    if capture { #expect(token < later) } else { #expect(token == later) }
    #expect(try shop.query("SELECT group_concat(name) FROM item")[0][0] == "a,b,c,d")
  }

  @Test func `threads and tasks take turns`() async throws {
    let shop = try shop(TempFolder(), capture: true)
    await withTaskGroup(of: Void.self) { group in
      for task in 0..<8 {
        group.addTask {
          for number in 0..<50 {
            do {
              try shop.transaction { db in
                let count = try db.query("SELECT count(*) AS n FROM item")[0].value("n", as: Int.self)
                try db.execute("INSERT INTO item(name, price) VALUES (?, ?)", "\(task)/\(number)", Double(count))
              }
            } catch { Issue.record(error) }
          }
        }
      }
    }
    // No program came between the count and the insert.
    #expect(try shop.query("SELECT count(DISTINCT price), max(price) FROM item")[0].values == [400, .real(399)])
  }

  @Test func `a committed transaction waits until it is taken`() throws {
    let shop = try shop(TempFolder(), capture: true)
    let before = try shop.pending
    for _ in 0..<3 { try shop.execute("INSERT INTO item(name) VALUES ('x')") }
    try shop.transaction { _ = try $0.query("SELECT * FROM item") }
    #expect(try shop.pending.transactions == before.transactions + 3)
    try shop.transaction { db in
      try db.execute("INSERT INTO item(name) VALUES ('x')")
      #expect(try shop.pending.transactions == before.transactions + 3)
    }
    #expect(try shop.pending.transactions == before.transactions + 4)
  }

  @Test func `a captured file may get another journal mode after many writes`() throws {
    let folder = try TempFolder()
    let shop = try CapturedDatabase(path: folder("busy.db"), node: "till-7")
    try shop.execute("CREATE TABLE item(id INTEGER PRIMARY KEY, name)")
    // Enough for the log to be written back by the thread that does that.
    for _ in 0..<4 {
      try shop.execute(
        "INSERT INTO item(name) WITH RECURSIVE n(i) AS (VALUES(1) UNION ALL SELECT i + 1 FROM n WHERE i < 200) SELECT randomblob(4000) FROM n"
      )
    }
    try shop.execute("PRAGMA journal_mode = DELETE")
    #expect(try shop.query(as: String.self, "PRAGMA journal_mode") == ["delete"])
    #expect(try shop.query(as: Int.self, "SELECT count(*) FROM item") == [800])
  }
}
