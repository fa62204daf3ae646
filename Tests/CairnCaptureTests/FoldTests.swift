import CairnCapture
import Changes
import Glibc
import SQLiteKit
import TestServers
import Testing

/// Changes that cancel out between two looks of a capture go as their sum.
@Suite struct FoldTests {
  private static let table = "CREATE TABLE item(id INTEGER PRIMARY KEY, code TEXT UNIQUE, stock INTEGER)"

  /// A till whose row 1 the target has already.
  private func till() throws -> Till {
    let till = try Till(Self.table, "INSERT INTO item VALUES (1, 'a', 10)")
    till.options.folds = true
    return till
  }

  private func told(_ statements: String...) throws -> [String] {
    let till = try till()
    let told = try till.told { shop in for sql in statements { try shop.execute(sql) } }
    try till.replay()
    #expect(try till.rows("item").source == till.rows("item").target)
    return told.filter { $0 != "group" && $0 != "commit" }
  }

  private let insert = "INSERT INTO item VALUES (2, 'b', 1)"
  private let update = "UPDATE item SET stock = stock + 1"
  private let delete = "DELETE FROM item"

  @Test func `every pair of operations comes to one, or to nothing`() throws {
    #expect(try told(insert, delete + " WHERE id = 2") == [])
    #expect(try told(insert, update + " WHERE id = 2") == ["insert item"])
    #expect(try told(update, update) == ["update item"])
    #expect(try told(update, "UPDATE item SET stock = 10") == [])
    #expect(try told(update, delete) == ["delete item"])
    #expect(try told(delete, "INSERT INTO item VALUES (1, 'a', 3)") == ["update item"])
    #expect(try told(delete, "INSERT INTO item VALUES (1, 'a', 10)") == [])
    // Three and more.
    #expect(try told(insert, delete + " WHERE id = 2", insert) == ["insert item"])
    #expect(try told(update, delete, "INSERT INTO item VALUES (1, 'a', 3)", update, delete) == ["delete item"])
    #expect(try told("REPLACE INTO item VALUES (1, 'a', 5)", update) == ["update item"])
  }

  @Test func `changes of keys and of unique values go in their order`() throws {
    #expect(try told("UPDATE item SET id = 5", update) == ["update item", "update item"])
    #expect(try told("UPDATE item SET id = 5", "UPDATE item SET id = 1") == ["update item", "update item"])
    #expect(try told(insert, "UPDATE item SET id = 5 WHERE id = 2") == ["insert item", "update item"])
    // Two rows give each other their codes, by way of a third one.
    #expect(
      try told(
        insert, "UPDATE item SET code = 'x' WHERE id = 1", "UPDATE item SET code = 'a' WHERE id = 2",
        "UPDATE item SET code = 'b' WHERE id = 1"
      ).count == 4)
    #expect(try told(delete, "INSERT INTO item VALUES (1, 'c', 3)") == ["delete item", "insert item"])
    #expect(try told("REPLACE INTO item VALUES (7, 'a', 5)") == ["delete item", "insert item"])
  }

  @Test func `a changed table ends what is folded`() throws {
    let till = try till()
    let told = try till.told { shop in
      try shop.execute(update)
      try shop.execute("ALTER TABLE item ADD COLUMN note TEXT")
      try shop.execute("UPDATE item SET note = 'n'")
      try shop.execute(update)
    }
    #expect(
      told.filter { $0.hasSuffix("item") && !$0.hasPrefix("copy") } == ["update item", "reshape item", "update item"])
    try till.replay()
    #expect(try till.rows("item").source == till.rows("item").target)
  }

  @Test func `random changes come to the same rows, folded or not`() throws {
    let seed = UInt64.random(in: 0...99999)
    var random = Seeded(seed)
    for round in 0..<20 {
      let till = try till()
      for _ in 0..<Int.random(in: 1...4, using: &random) {
        for _ in 0..<Int.random(in: 1...30, using: &random) {
          let (id, other) = (Int.random(in: 1...5, using: &random), Int.random(in: 1...6, using: &random))
          let sql = [
            "INSERT OR IGNORE INTO item VALUES (\(id), '\(other)', 0)",
            "REPLACE INTO item VALUES (\(id), '\(other)', 1)",
            "UPDATE OR IGNORE item SET code = '\(other)' WHERE id = \(id)",
            "UPDATE item SET stock = stock + 1 WHERE id = \(id)",
            "UPDATE OR REPLACE item SET id = \(other) WHERE id = \(id)", "DELETE FROM item WHERE id = \(id)",
          ][Int.random(in: 0..<6, using: &random)]
          try till.shop.execute(sql)
        }
        try till.take()
      }
      try till.replay()
      #expect(try till.rows("item").source == till.rows("item").target, "seed \(seed), round \(round)")
    }
  }

  @Test(.enabled(if: PostgresServer.isAvailable, "\(PostgresServer.problem ?? "")"))
  func `thousands of transactions without a line go up as what they come to`() throws {
    let count = isSoak ? 10_000 : 1000
    let till = try SyncedTill { $0.folds = true }
    try till.sync.initialize()
    try till.shop.execute("PRAGMA synchronous = OFF")
    for number in 0..<count {
      try till.shop.transaction { db in
        try db.execute("UPDATE item SET stock = stock - 1 WHERE id = ?", number % 3 + 1)
        try db.execute("INSERT INTO sale VALUES (?, 1, 1)", "s\(number)")
        if number % 10 != 0 { try db.execute("DELETE FROM sale WHERE id = ?", "s\(number)") }
      }
    }
    let outcome = try till.sync.synchronize()
    #expect(outcome.sent == UInt64(count / 10 + 3))
    for table in ["item", "sale"] { #expect(try till.both(table).here == till.both(table).there) }
    #expect(try till.sync.pending.isEmpty)
  }
}
