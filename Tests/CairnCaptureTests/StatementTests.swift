import CSQLite
import CairnCapture
import Capturing
import Changes
import SQLiteKit
import SystemKit
import Testing
import Trails

/// The record of a program that uses the embedded API: its transactions as they were, and its statements.
@Suite struct StatementTests {
  private let table = "CREATE TABLE item(id INTEGER PRIMARY KEY, name TEXT, stock INT)"

  @Test func `the first capture finds everything since the table was made`() throws {
    let till = try Till(table, "INSERT INTO item VALUES (1, 'tea', 5)")
    try till.take()
    #expect(
      try till.told() == [
        "begin", "\(table) 0", "create item", "end 0 0+0", "commit",
        "begin", "INSERT INTO item VALUES (1, 'tea', 5) 1", "insert item", "end 1 1+0", "commit",
      ])
    try till.replay()
    let rows = try till.rows("item")
    #expect(rows.source == rows.target && rows.target == [[.integer(1), .text("tea"), .integer(5)]])
  }

  @Test func `each transaction is one of the trail, with the statements before what they caused`() throws {
    let till = try Till(table)
    let told = try till.told { shop in
      try shop.transaction { db in
        for number in 1...2 { try db.execute("INSERT INTO item VALUES (?, ?, NULL)", number, "n") }
        try db.execute("UPDATE item SET name = name, stock = 1 WHERE id > ?", 1)
        // No row changes: the trail gets nothing.
        try db.execute("UPDATE item SET stock = 9 WHERE id = 9")
        _ = try db.query("SELECT * FROM item")
      }
      try shop.execute("DELETE FROM item")
    }
    #expect(
      told == [
        "begin", "INSERT INTO item VALUES (?, ?, NULL) [1,n] 1", "insert item", "end 1 1+0",
        "INSERT INTO item VALUES (?, ?, NULL) [2,n] 1", "insert item", "end 1 1+0",
        "UPDATE item SET name = name, stock = 1 WHERE id > ? [1] 1", "update item", "end 1 1+0", "commit",
        "begin", "DELETE FROM item 2", "delete item", "delete item", "end 2 0+2", "commit",
      ])
  }

  @Test func `a commit has its own time, although what came before it in the look has none`() throws {
    let till = try Till(table)
    try till.take()
    try Database(path: till.folder("shop.db")).execute("INSERT INTO item VALUES (1, 'tea', 5)")
    try till.shop.execute("UPDATE item SET stock = 4")
    let committed = Clock.system.microseconds()
    Clock.sleep(milliseconds: 300)
    try till.take()
    let reader = try TrailReader.open(folder: till.folder("trail"), at: nil)
    var last: [TransactionHeader] = []
    while let record = try reader.next() { if case .begin(let header) = record { last = last.suffix(1) + [header] } }
    #expect(last.map { $0.flags.contains(.late) } == [true, false])
    #expect(last.allSatisfy { $0.clock <= committed && $0.commitTime <= committed })
  }

  @Test func `a rollback leaves nothing`() throws {
    struct Refused: Error {}
    let till = try Till(table)
    let told = try till.told { shop in
      _ = try? shop.transaction { db in
        try db.execute("INSERT INTO item VALUES (1, 'a', 1)")
        throw Refused()
      }
      try shop.transaction { db in
        try db.execute("INSERT INTO item VALUES (1, 'b', 1)")
        _ = try? db.savepoint { db in
          try db.execute("INSERT INTO item VALUES (2, 'c', 1)")
          try db.savepoint { try $0.execute("INSERT INTO item VALUES (3, 'c', 1)") }
          throw Refused()
        }
        _ = try? db.execute("INSERT INTO item SELECT id + 1, name, stock FROM item UNION ALL SELECT 1, 'x', 1")
        try db.savepoint { try $0.execute("INSERT INTO item VALUES (?, 'd', 1)", 4) }
        try db.execute("INSERT INTO item VALUES (?, 'd', 1)", 5)
      }
    }
    #expect(
      told == [
        "begin", "INSERT INTO item VALUES (1, 'b', 1) 1", "insert item", "end 1 1+0",
        "INSERT INTO item VALUES (?, 'd', 1) [4] 1", "insert item", "end 1 1+0",
        "INSERT INTO item VALUES (?, 'd', 1) [5] 1", "insert item", "end 1 1+0", "commit",
      ])
  }

  @Test func `a failed statement that keeps some of its rows is captured as these rows alone`() throws {
    let till = try Till(table, "INSERT INTO item VALUES (3, 'x', 1)")
    let told = try till.told { shop in
      try shop.transaction { db in
        _ = try? db.execute("INSERT OR FAIL INTO item SELECT value, 'a', 1 FROM (SELECT 1 AS value UNION ALL SELECT 3)")
        try db.execute("DELETE FROM item WHERE id = 3")
      }
    }
    #expect(told == ["begin", "insert item", "DELETE FROM item WHERE id = 3 1", "delete item", "end 1 0+1", "commit"])
  }

  @Test func `so is one outside of a transaction, and one that keeps none leaves nothing`() throws {
    let till = try Till(table, "INSERT INTO item VALUES (3, 'x', 1)")
    let told = try till.told { shop in
      for clause in ["FAIL", "ABORT"] {
        _ = try? shop.execute(
          "INSERT OR \(clause) INTO item SELECT value, 'a', 1 FROM (SELECT \(clause.count) AS value UNION ALL SELECT 3)"
        )
      }
    }
    #expect(told == ["begin", "insert item", "commit"])
    try till.replay()
    #expect(try till.rows("item").source == till.rows("item").target)
  }

  @Test func `a transaction too large for memory is captured the same`() throws {
    struct Refused: Error {}
    let till = try Till(table)
    let text = String(repeating: "x", count: 1000)
    try till.take()
    try till.shop.transaction { db in
      for number in 0..<300 { try db.execute("INSERT INTO item VALUES (?, ?, 0)", number, text) }
      // Parts are written in here, and taken back.
      _ = try? db.savepoint { db in
        for number in 0..<600 { try db.execute("INSERT INTO item VALUES (?, ?, 1)", 1000 + number, text) }
        throw Refused()
      }
      for number in 300..<600 { try db.execute("INSERT INTO item VALUES (?, ?, 0)", number, text) }
    }
    try till.take()
    let told = try till.told().drop { $0 != "begin" || $0.hasPrefix("CREATE") }
    #expect(told.filter { $0 == "insert item" }.count == 600)
    let found = try till.statements().filter { $0.statement.text.hasPrefix("INSERT") }
    #expect(found.map { $0.statement.parameters[0] } == (0..<600).map { .integer($0) })
    #expect(found.allSatisfy { $0.end.changes == 1 && $0.end.digest.written == 1 })
    try till.replay()
    let rows = try till.rows("item")
    #expect(rows.source == rows.target && rows.target.count == 600)
  }

  @Test func `the time of a statement is the one that it used, and only then`() throws {
    let till = try Till("CREATE TABLE t(id INTEGER PRIMARY KEY, at TEXT, d TEXT DEFAULT CURRENT_TIMESTAMP, j REAL)")
    let told = try till.told { shop in
      try shop.execute("INSERT INTO t(at, j) VALUES (strftime('%Y-%m-%d %H:%M:%f', 'now'), julianday('now'))")
      try shop.execute("INSERT INTO t(at, d) VALUES (datetime(0), '')")
      try shop.execute(
        "CREATE TRIGGER r AFTER UPDATE ON t BEGIN UPDATE t SET j = julianday('now') WHERE id = 2; END")
      try shop.execute("UPDATE t SET at = '' WHERE id = 2")
    }
    #expect(told.filter { $0.hasSuffix(" at now") }.count == 2)
    let statements = try till.statements().map(\.statement).filter { $0.now != nil }
    let now = try #require(statements.first?.now)
    // To the millisecond, as SQLite has it.
    let made = try till.shop.query(
      "SELECT at = strftime('%Y-%m-%d %H:%M:%f', ? / 1000.0, 'unixepoch') FROM t WHERE id = 1", now / 1000)
    #expect(made[0][0] == 1)
  }

  @Test func `digests are those of the rows, whatever the statement`() throws {
    let till = try Till(
      "CREATE TABLE t(a INTEGER PRIMARY KEY, b TEXT UNIQUE, c)",
      "INSERT INTO t VALUES (1, 'x', 0.5), (2, 'y', NULL), (3, 'z', x'00')")
    let statements = [
      "UPDATE t SET c = c", "INSERT OR REPLACE INTO t VALUES (2, 'z', 7)", "REPLACE INTO t VALUES (1, 'w', 1)",
      "INSERT INTO t VALUES (1, 'v', 2) ON CONFLICT DO UPDATE SET c = excluded.c", "UPDATE t SET a = a + 10",
      "UPDATE OR REPLACE t SET a = 12 WHERE a = 11", "DELETE FROM t",
    ]
    var gone: [[[Value]]] = []
    var there: [[[Value]]] = []
    func rows() throws -> [[Value]] { try Database(path: till.folder("shop.db")).query("SELECT * FROM t") }
    for statement in statements {
      let before = try rows()
      try till.shop.execute(statement)
      gone.append(before)
      there.append(try rows())
    }
    try till.take()
    let ends = try till.statements().suffix(statements.count).map(\.end.digest)
    func digest(written: [[Value]], gone: [[Value]]) -> StatementDigest {
      var digest = StatementDigest()
      for (rows, isGone) in [(written, false), (gone, true)] {
        for row in rows {
          var image = ByteWriter()
          for value in row { image.append(value) }
          if isGone {
            digest.addGone(image.bytes, of: .init(name: "t"))
          } else {
            digest.addWritten(image.bytes, of: .init(name: "t"))
          }
        }
      }
      return digest
    }
    func row(_ rows: [[Value]], _ key: Int64) -> [Value] { rows.first { $0[0] == .integer(key) } ?? [] }
    #expect(ends[0] == digest(written: there[0], gone: []))
    // By rowid 2 and by 'z': of two rows that were there, the one with another rowid is gone.
    #expect(ends[1].written == 1 && ends[1].gone >= 1)
    #expect(ends[2].written == 1)
    #expect(ends[3] == digest(written: [row(there[3], 1)], gone: []))
    #expect(ends[4] == digest(written: there[4], gone: []))
    #expect(ends[5] == digest(written: [row(there[5], 12)], gone: [row(gone[5], 12)]))
    #expect(ends[6] == digest(written: [], gone: gone[6]))
    try till.replay()
    #expect(try till.rows("t").target == [])
  }

  @Test func `changes of the schema are statements, and nothing has to be copied`() throws {
    let till = try Till(table, "INSERT INTO item VALUES (1, 'tea', 5)")
    let told = try till.told { shop in
      try shop.execute("ALTER TABLE item ADD COLUMN price REAL DEFAULT 1.5")
      try shop.execute("ALTER TABLE item DROP COLUMN stock")
      try shop.transaction { db in
        try db.execute("CREATE TABLE new_item(id INTEGER PRIMARY KEY, name TEXT NOT NULL, price REAL)")
        try db.execute("INSERT INTO new_item SELECT id, name, price FROM item")
        try db.execute("DROP TABLE item")
        try db.execute("ALTER TABLE new_item RENAME TO item")
        try db.execute("CREATE UNIQUE INDEX by_name ON item(name)")
      }
      try shop.execute("INSERT OR REPLACE INTO item VALUES (2, 'tea', 2)")
      // One that fails takes nothing with it, not even the triggers.
      _ = try? shop.transaction { try $0.execute("ALTER TABLE item DROP COLUMN name") }
      try shop.execute("UPDATE item SET price = 3")
    }
    #expect(!told.contains { $0.hasPrefix("copy") || $0.hasSuffix("copied") || $0 == "group" })
    #expect(told.filter { $0 == "begin" }.count == 5)
    #expect(told.contains("CREATE UNIQUE INDEX by_name ON item(name) 0"))
    try till.replay()
    let rows = try till.rows("item")
    #expect(rows.source == rows.target && rows.target == [[.integer(2), .text("tea"), .real(3)]])
  }

  @Test func `a table that comes with rows is copied`() throws {
    let till = try Till(table, "INSERT INTO item VALUES (1, 'tea', 5), (2, 'rum', 6)")
    let told = try till.told { shop in
      try shop.execute("CREATE TABLE more AS SELECT * FROM item")
      try shop.execute("INSERT INTO more VALUES (3, 'gin', 7)")
    }
    #expect(told.contains("copy more"))
    try till.replay()
    let rows = try till.rows("more")
    #expect(rows.source == rows.target && rows.target.count == 3)
  }

  @Test func `the writes of other programs come as groups between`() throws {
    let till = try Till(table)
    let other = try Database(path: till.folder("shop.db"))
    let told = try till.told { shop in
      try other.execute("INSERT INTO item VALUES (1, 'a', 1)")
      try other.execute("INSERT INTO item VALUES (2, 'a', 1)")
      try shop.execute("INSERT INTO item VALUES (3, 'b', 1)")
      try other.execute("INSERT INTO item VALUES (4, 'c', 1)")
    }
    #expect(
      told == [
        "group", "insert item", "insert item", "commit",
        "begin", "INSERT INTO item VALUES (3, 'b', 1) 1", "insert item", "end 1 1+0", "commit",
        "group", "insert item", "commit",
      ])
  }

  @Test func `a transaction has the time of its commit`() throws {
    let till = try Till(table)
    let before = Clock.system.microseconds()
    try till.shop.execute("INSERT INTO item VALUES (1, 'a', 1)")
    let after = Clock.system.microseconds()
    try till.take()
    let reader = try TrailReader.open(folder: till.folder("trail"), at: nil)
    var times: [Int64] = []
    while let record = try reader.next() { if case .begin(let header) = record { times.append(header.commitTime) } }
    #expect(times.last.map { (before...after).contains($0) } == true)
  }

  @Test func `statements that touch tables which are not captured are for people`() throws {
    let till = try Till(table, "CREATE TABLE tmp_x(a)")
    till.options.tables = TablePatterns(["*", "!tmp_*"])
    let told = try till.told { shop in
      try shop.execute("INSERT INTO tmp_x VALUES (1)")
      try shop.execute("INSERT INTO item SELECT a, 'x', 1 FROM tmp_x")
      try shop.execute("CREATE TEMP TABLE q(a)")
      try shop.execute("INSERT INTO item SELECT 2, 'x', count(*) FROM q")
      try shop.execute("WITH n(i) AS (VALUES (3)) INSERT INTO item SELECT i, 'x', 1 FROM n")
    }
    #expect(
      told.filter { $0.contains("INTO") } == [
        "INSERT INTO tmp_x VALUES (1) 1 partial", "INSERT INTO item SELECT a, 'x', 1 FROM tmp_x 1 partial",
        "INSERT INTO item SELECT 2, 'x', count(*) FROM q 1 partial",
        "WITH n(i) AS (VALUES (3)) INSERT INTO item SELECT i, 'x', 1 FROM n 1",
      ])
  }

  @Test func `they are left out if the options say so`() throws {
    let till = try Till(table)
    till.options.statements = false
    #expect(
      try till.told { try $0.execute("INSERT INTO item VALUES (3, 'b', 1)") } == ["begin", "insert item", "commit"])
    var options = CapturedDatabase.Options()
    options.statements = false
    let quiet = try Till(table, options: options)
    #expect(
      try quiet.told { try $0.execute("INSERT INTO item VALUES (3, 'b', 1)") } == ["begin", "insert item", "commit"])
  }

  @Test func `a capture that ends and comes again goes on, also between transactions of one look`() throws {
    let till = try Till(table)
    try till.take()
    for round in 0..<3 {
      for number in 0..<20 { try till.shop.execute("INSERT INTO item VALUES (?, 'a', 1)", round * 20 + number) }
      till.endCapture()
      try till.take()
    }
    #expect(try till.told().filter { $0 == "begin" }.count == 61)
    try till.replay()
    let rows = try till.rows("item")
    #expect(rows.source == rows.target && rows.target.count == 60)
  }
}
