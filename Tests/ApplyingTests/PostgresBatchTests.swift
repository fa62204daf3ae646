import Applying
import Changes
import TestServers
import Testing

/// Changes that are sent together: what is folded, what goes before what, and what is found to be wrong.
@Suite(.enabled(if: PostgresServer.isAvailable, "needs a PostgreSQL server"))
struct PostgresBatchTests {
  private func begin(_ columns: String = "id INTEGER PRIMARY KEY, n INTEGER, v TEXT", rows: Int64) throws
    -> PostgresTarget
  {
    let target = try PostgresTarget()
    try target.begin("CREATE TABLE t(\(columns))", "t", (0..<rows).map { [.integer($0), 0, .text("v\($0)")] })
    return target
  }

  @Test func `all that happens to a row in one commit comes out as at the source`() throws {
    let target = try begin(rows: 100)
    try target.trail.transaction {
      for round in 0..<5 {
        for n in 0..<60 as Range<Int64> {
          let text = Value.text("v\(n)")
          try target.trail.update(
            "t", [.integer(n), .integer(Int64(round)), text], [nil, .integer(Int64(round) + 1), nil])
        }
      }
      // Updated, then deleted; deleted, then there again; there, changed, gone.
      for n in 0..<20 as Range<Int64> { try target.trail.delete("t", [.integer(n), 5, .text("v\(n)")]) }
      for n in 60..<80 as Range<Int64> {
        try target.trail.delete("t", [.integer(n), 0, .text("v\(n)")])
        try target.trail.insert("t", [.integer(n), 7, "again"])
        try target.trail.update("t", [.integer(n), 7, "again"], [nil, 8, nil])
      }
      for n in 200..<300 as Range<Int64> {
        try target.trail.insert("t", [.integer(n), 1, .null])
        try target.trail.update("t", [.integer(n), 1, .null], [nil, nil, "new"])
        if n % 2 == 0 { try target.trail.delete("t", [.integer(n), 1, "new"]) }
      }
    }
    try target.replay()
    let shown = try target.psql(
      "SELECT n, v ~ '^v', v, count(*) FROM (SELECT n, CASE WHEN v ~ '^v' THEN 'v' ELSE v END AS v FROM t) x GROUP BY 1, 3 ORDER BY 1, 3"
    )
    #expect(shown == "0|t|v|20\n1|f|new|50\n5|t|v|40\n8|f|again|20")
  }

  @Test func `many keys move by one`() throws {
    let target = try begin(rows: 50)
    try target.trail.transaction {
      for n in (0..<50 as Range<Int64>).reversed() {
        try target.trail.update("t", [.integer(n), 0, .text("v\(n)")], [.integer(n + 1), nil, nil])
        try target.trail.update("t", [.integer(n + 1), 0, .text("v\(n)")], [nil, 1, nil])
      }
    }
    try target.replay()
    #expect(try target.psql("SELECT min(id), max(id), sum(n), count(*) FROM t WHERE v = 'v' || id - 1") == "1|50|50|50")
  }

  @Test func `unique values that are handed on reach their rows`() throws {
    let target = try begin("id INTEGER PRIMARY KEY, n INTEGER UNIQUE, v TEXT", rows: 0)
    let rows = 0..<40 as Range<Int64>
    try target.trail.transaction { for n in rows { try target.trail.insert("t", [.integer(n), .integer(n), "x"]) } }
    try target.trail.transaction {
      for n in rows { try target.trail.update("t", [.integer(n), .integer(n), "x"], [nil, .integer(1000 + n), nil]) }
      for n in rows {
        try target.trail.update("t", [.integer(n), .integer(1000 + n), "x"], [nil, .integer(39 - n), nil])
      }
      try target.trail.delete("t", [7, 32, "x"])
      try target.trail.insert("t", [107, 32, "y"])
    }
    try target.replay()
    #expect(try target.psql("SELECT count(*) FROM t WHERE n = 39 - id AND v = 'x'") == "39")
    #expect(try target.psql("SELECT n, v FROM t WHERE id = 107") == "32|y")
  }

  @Test(arguments: [17, 40]) func `one row among many that is missing or differs is named, and nothing is done`(
    bad: Int64
  ) throws {
    let target = try begin(rows: 60)
    try target.psql("UPDATE t SET v = 'other' WHERE id = \(bad)")
    try target.trail.transaction {
      for n in 0..<60 as Range<Int64> {
        try target.trail.update("t", [.integer(n), 0, .text("v\(n)")], [nil, 1, nil])
      }
    }
    let error = failure { try target.replay() }
    #expect(error?.code == .rowDiffers && error?.message.contains("row id='\(bad)'") == true)
    try target.psql("DELETE FROM t WHERE id = \(bad)")
    let second = failure { try target.replay() }
    #expect(second?.code == .rowMissing && second?.message.contains("row id='\(bad)'") == true)
    #expect(try target.psql("SELECT sum(n) FROM t") == "0")
    try target.psql("INSERT INTO t VALUES (\(bad), 0, 'v\(bad)')")
    try target.replay()
    #expect(try target.psql("SELECT sum(n), count(*) FROM t") == "60|60")
  }

  @Test(arguments: ["UPDATE t SET v = 'other' WHERE id = 3", "ALTER TABLE t ADD CHECK (id <> 3 OR n = 0)"])
  func `a fault at the beginning of a long transaction is named, and nothing is done`(spoil: String) throws {
    let target = try begin(rows: 20_000)
    try target.psql(spoil)
    // Several batches are under way when the first answer comes.
    try target.trail.transaction {
      for n in 0..<20_000 as Range<Int64> {
        try target.trail.update(
          "t", [.integer(n), 0, .text("v\(n)")], [nil, 1, .text(String(repeating: "long \(n) ", count: 40))])
      }
    }
    let error = failure { try target.replay() }
    #expect(error?.message.contains("row id='3'") == true, "\(String(describing: error))")
    #expect(try target.psql("SELECT sum(n) FROM t") == "0")
    try target.psql("UPDATE t SET v = 'v3' WHERE id = 3; ALTER TABLE t DROP CONSTRAINT IF EXISTS t_check")
    try target.replay()
    #expect(try target.psql("SELECT sum(n), count(*) FROM t") == "20000|20000")
  }

  @Test func `any set of columns may change`() throws {
    let target = try begin(
      (0..<12).map { $0 == 0 ? "id INTEGER PRIMARY KEY" : "c\($0) INTEGER" }.joined(separator: ","), rows: 0)
    let none = [Value](repeating: 0, count: 11)
    try target.trail.transaction {
      for n in 0..<2048 as Range<Int64> { try target.trail.insert("t", [.integer(n)] + none) }
    }
    try target.trail.transaction {
      for n in 0..<2048 as Range<Int64> {
        let after = (0..<11).map { n >> Int64($0) & 1 == 1 ? Value.integer(1) : nil }
        try target.trail.update("t", [.integer(n)] + none, [nil] + after)
      }
    }
    try target.replay()
    let sum = (1...11).map { "(c\($0) << \($0 - 1))" }.joined(separator: " | ")
    #expect(try target.psql("SELECT count(*) FROM t WHERE (\(sum)) = id") == "2048")
  }

  @Test func `a change that says another thing than the one before it stops and names the row`() throws {
    let target = try begin(rows: 30)
    try target.trail.transaction {
      for n in 0..<30 as Range<Int64> {
        try target.trail.update("t", [.integer(n), 0, .text("v\(n)")], [nil, 1, nil])
      }
      try target.trail.update("t", [5, 9, "v5"], [nil, 2, nil])
    }
    let error = failure { try target.replay() }
    #expect(error?.code == .rowDiffers && error?.message.contains("row id='5'") == true)
    #expect(try target.psql("SELECT sum(n) FROM t") == "0")
  }

  @Test func `values of every kind pass through arrays`() throws {
    let target = try begin(
      "id INTEGER PRIMARY KEY, n NUMERIC, v TEXT, b BLOB, f REAL, j JSON, on_ BOOLEAN, at DATETIME", rows: 0)
    let texts: [Value] = ["", "NULL", "{a,\"b\"}", "\\", "\"", "tab\t", "ä€😀", "line\nend\r", .null]
    func row(_ n: Int64, _ text: Value) -> [Value] {
      [.integer(n), 0, text, .blob([0, 255, 92]), .real(0.1), .text("{\"a\": [1, null]}"), 1, "2026-01-01 00:00:00"]
    }
    try target.trail.transaction { for n in 0..<40 as Range<Int64> { try target.trail.insert("t", row(n, "-")) } }
    try target.trail.transaction {
      for n in 0..<40 as Range<Int64> {
        let text = texts[Int(n) % texts.count]
        var after: [Value?] = row(n, text)
        after[0] = nil
        after[3] = .blob([1, UInt8(n)])
        after[6] = .null
        try target.trail.update("t", row(n, "-"), after)
      }
    }
    try target.replay()
    let shown = try target.psql(
      "SELECT count(*), count(v), count(on_), count(DISTINCT b), sum(octet_length(v)), min(f::text), min(j::text) FROM t"
    )
    let bytes = (0..<40).reduce(0) { sum, n in
      if case .text(let text) = texts[n % texts.count] { sum + text.count } else { sum }
    }
    #expect(shown == "40|36|0|40|\(bytes)|0.1|{\"a\": [1, null]}")
  }
}
