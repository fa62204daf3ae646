import Changes
import Conflicts
import SQLiteKit
import Testing

@testable import Applying

/// Rows that wait for a unique value.
struct DisplacedRowTests {
  private let database: Database
  private let candidates: SQLiteDisplacedRows

  init() throws {
    database = try Database(path: ":memory:", mode: .create)
    candidates = SQLiteDisplacedRows(database: database)
    try candidates.install()
    try database.execute("CREATE TABLE item(id INTEGER PRIMARY KEY, name TEXT UNIQUE COLLATE NOCASE, code TEXT UNIQUE)")
  }

  private func stamp(_ clock: UInt64) -> VersionStamp { VersionStamp(clock: clock, origin: "n0.shop", number: clock) }

  @discardableResult
  private func add(_ table: String, _ id: Int64, _ name: String, _ code: String? = nil, clock: UInt64) throws
    -> ContestedRow
  {
    let schema = TableSchema(
      epoch: 0, engine: .sqlite, name: table,
      columns: [.init(name: "id", keyOrdinal: 1), .init(name: "name"), .init(name: "code")])
    let candidate = DisplacedRow(
      schema, key: [.integer(id)], row: [.integer(id), .text(name), code.map { .text($0) } ?? .null],
      stamp: stamp(clock))
    try candidates.add(candidate)
    return candidate.row
  }

  /// `clocks`: of the rows in the table, by key, as far as they are known.
  private func judge(
    fresh: [ContestedRow] = [], clocks: [Int64: UInt64] = [:],
    log: @escaping (ContestedRow, ContestedRow, VersionStamp?, Bool) -> Void = { _, _, _, _ in }
  ) throws -> Bool {
    try DisplacedRowContest(
      candidates, fresh: fresh,
      .init(
        renew: { _ in .asItWas }, ranked: { $0 },
        lastWrite: { row, _ in
          guard case .integer(let id)? = row.key["id"], let clock = clocks[id] else { return nil }
          return row.rank(stamp(clock))
        }, noteReturn: { _ in }, log: log)
    ).judge()
  }

  private func waiting() throws -> [DisplacedRow] {
    var found: [DisplacedRow] = []
    try candidates.forEach { found.append($0) }
    return found
  }

  private var rows: [Int64] {
    get throws { try database.query("SELECT id FROM item ORDER BY id").compactMap { Int64($0[0].shown) } }
  }

  @Test("the latest comes back when the value is free, and no earlier")
  func latestFirst() throws {
    try database.execute("INSERT INTO item VALUES (9, 'Tea', NULL)")
    try add("item", 1, "tea", clock: 5)
    try add("item", 2, "tea", clock: 7)
    try #expect(!judge())
    try database.execute("DELETE FROM item")
    try #expect(judge())
    try #expect(rows == [2])
    try #expect(waiting().map(\.row.key["id"]) == [.integer(1)])
  }

  @Test("who comes back takes the place of an earlier row that came meanwhile, which waits with all its values")
  func movesEarlier() throws {
    try database.execute("INSERT INTO item VALUES (9, 'tea', NULL), (3, 'milk', 'x')")
    try add("item", 1, "tea", "x", clock: 5)
    let clocks: [Int64: UInt64] = [9: 8, 3: 4]
    try #expect(!judge(clocks: clocks))
    // From here on the write to row 3 is forgotten, but not that it came earlier.
    try database.execute("DELETE FROM item WHERE id = 9")
    try #expect(judge())
    try #expect(rows == [1])
    try #expect(waiting().map(\.row.row.json) == [#"{"id":3,"name":"milk","code":"x"}"#])
  }

  @Test("both are kept in the log when a row comes that has to wait, or that another one has to wait for")
  func logged() throws {
    try database.execute("INSERT INTO item VALUES (9, 'tea', NULL)")
    var seen: [String] = []
    func judge(_ row: ContestedRow) throws {
      _ = try self.judge(fresh: [row], clocks: [9: 6]) { row, other, _, isOurs in
        seen.append("\(row.key.json) \(other.key.json) \(isOurs)")
      }
    }
    try judge(add("item", 1, "tea", clock: 5))
    try judge(add("item", 2, "tea", clock: 7))
    #expect(seen == [#"{"id":1} {"id":9} false"#, #"{"id":2} {"id":9} true"#])
    try #expect(rows == [2])
  }

  @Test func `rows of tables whose names look alike are counted apart`() throws {
    for name in ["caf\u{e9}", "cafe\u{301}"] { try add(name, 1, "tea", clock: 5) }
    try #expect(candidates.counts() == ["caf\u{e9}": 1, "cafe\u{301}": 1])
  }

  @Test("one whose key is there by now, or whose table is gone, waits no longer")
  func gone() throws {
    try database.execute("INSERT INTO item VALUES (1, 'milk', NULL)")
    try add("item", 1, "tea", clock: 5)
    try add("dropped", 1, "tea", clock: 6)
    try #expect(judge())
    try #expect(candidates.counts().isEmpty)
    try #expect(database.text("SELECT name FROM item") == "milk")
  }

  // MARK: Indexes that only SQLite can read

  /// The keys of rows of `table` that are in the way of one.
  private func inTheWay(_ table: String, _ row: [Value]) throws -> [Int64] {
    let names = try database.query("SELECT name FROM pragma_table_info(?)", [.text(table)]).map { $0[0].string }
    let contested = ContestedRow(
      namespace: "", table: table, key: ConflictRow(["id"], [row[0]]), row: ConflictRow(names, row))
    let before = try database.query("SELECT * FROM \(table.quotedName)")
    let found = try candidates.rows(inTheWayOf: contested)
    try #expect(database.query("SELECT * FROM \(table.quotedName)") == before, "looking changes nothing")
    return found.compactMap { if case .integer(let id)? = $0.key["id"] { id } else { nil } }.sorted()
  }

  @Test("an index with WHERE keeps only those rows apart that it has") func partial() throws {
    try database.executeScript(
      """
      CREATE TABLE soft(id INTEGER PRIMARY KEY, name TEXT, deleted INTEGER NOT NULL);
      CREATE UNIQUE INDEX soft_name ON soft(name COLLATE NOCASE) WHERE deleted = 0;
      INSERT INTO soft VALUES (1, 'tea', 0), (2, 'Tea', 1), (3, NULL, 0), (4, 'milk', 1)
      """)
    try #expect(inTheWay("soft", [9, .text("TEA"), 0]) == [1])
    try #expect(inTheWay("soft", [9, .text("TEA"), 1]) == [])
    try #expect(inTheWay("soft", [1, .text("TEA"), 0]) == [], "a row is not in its own way")
    try #expect(inTheWay("soft", [2, .text("tea"), 0]) == [1], "nor is what it is now")
    try #expect(inTheWay("soft", [9, .null, 0]) == [])
    try #expect(inTheWay("soft", [9, .text("milk"), 0]) == [])
    try #expect(inTheWay("soft", [9, .text("tea"), .null]) == [], "it cannot be there")
  }

  @Test("an index over expressions, or generated columns, has them of values as the column keeps them")
  func expressions() throws {
    try database.executeScript(
      """
      CREATE TABLE shown(id INTEGER PRIMARY KEY, mail TEXT COLLATE NOCASE, pieces INTEGER, half AS (pieces / 2) UNIQUE);
      CREATE UNIQUE INDEX shown_mail ON shown(lower(substr(mail, 1, 3)), typeof(pieces)) WHERE mail > 'B';
      CREATE UNIQUE INDEX shown_lower ON shown(lower(mail));
      INSERT INTO shown VALUES (1, 'Cabin', 3), (2, 'axle', 'x'), (3, 'desk', NULL), (4, 'egg', 40)
      """)
    try #expect(inTheWay("shown", [9, .text("CABLE"), .text("77")]) == [1], "a text that is a number becomes one")
    try #expect(inTheWay("shown", [9, .text("CABLE"), .text("y")]) == [2])
    try #expect(inTheWay("shown", [9, .text("AXLE"), 41]) == [2, 4], "one for each index")
    try #expect(inTheWay("shown", [3, .text("cabin"), 40]) == [1, 4])
    try #expect(inTheWay("shown", [9, .null, .null]) == [])
  }

  @Test("also where the table replaces what is in the way by itself, and has a key of several columns")
  func replacing() throws {
    try database.executeScript(
      """
      CREATE TABLE kept(part TEXT, id INTEGER, name TEXT UNIQUE ON CONFLICT REPLACE, PRIMARY KEY (part, id)) WITHOUT ROWID;
      CREATE UNIQUE INDEX kept_name ON kept(lower(name)); INSERT INTO kept VALUES ('a', 1, 'tea'), ('a', 2, 'milk')
      """)
    func inTheWay(_ id: Value, _ name: String) throws -> [Value?] {
      let key = ConflictRow(["part", "id"], [.text("a"), id])
      let row = ConflictRow(key.columns + [.init("name", .text(name))])
      return try candidates.rows(inTheWayOf: ContestedRow(namespace: "", table: "kept", key: key, row: row))
        .map { $0.key["id"] }
    }
    try #expect(inTheWay(3, "tea") == [1])
    try #expect(inTheWay(3, "TEA") == [1])
    try #expect(inTheWay(1, "Milk") == [2])
    try #expect(inTheWay(1, "tea") == [])
    try #expect(database.integer("SELECT count(*) FROM kept") == 2)
  }

  @Test("who waits comes back when the row in its way leaves the index") func leavesIndex() throws {
    try database.executeScript(
      """
      DROP TABLE item; CREATE TABLE item(id INTEGER PRIMARY KEY, name TEXT, code TEXT);
      CREATE UNIQUE INDEX live ON item(lower(name)) WHERE code IS NULL; INSERT INTO item VALUES (9, 'TEA', NULL)
      """)
    try add("item", 1, "tea", clock: 5)
    try #expect(!judge(clocks: [9: 8]))
    try database.execute("UPDATE item SET code = 'gone'")
    try #expect(judge(clocks: [9: 9]))
    try #expect(rows == [1, 9])
    try #expect(candidates.counts().isEmpty)
  }
}
