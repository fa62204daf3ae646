import Changes
import Mapping
import PostgresKit
import SQLiteKit
import SystemKit
import TestServers
import Testing
import Versions

@testable import Applying

/// The limits of the queries, reads and memory that a hostile trail causes.
@Suite struct HostileBoundsTests {
  // MARK: Queries

  /// The number of transactions that the server has committed in the target's database.
  private func commits(_ target: PostgresTarget) throws -> Int {
    try Int(target.psql("SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()")) ?? 0
  }

  @Test func `sequences that a peer invents take one query`() throws {
    let target = try PostgresTarget()
    try target.psql("CREATE SEQUENCE kept; CREATE SEQUENCE closed; CREATE TABLE t(id serial PRIMARY KEY)")
    var connection: PostgresConnection? = try PostgresConnection(target.url)
    let sink = PostgresSink(try #require(connection))
    var upkeep = SequenceUpkeep()
    for number in 0..<5000 {
      upkeep.note(SequenceState(namespace: "public", name: "none \(number)\\\",{}'", last: 1, increment: 1))
    }
    upkeep.note(SequenceState(namespace: "public", name: "zero\u{0}", last: 1, increment: 1))
    #expect(upkeep.carriedCount == 5000)
    let before = try commits(target)
    try upkeep.carry(sink, target.progress, TargetScope())
    connection?.cut()
    connection = nil
    let deadline = Clock.monotonicMilliseconds + 2000
    while try Clock.monotonicMilliseconds < deadline && commits(target) - before < 1000 {
      Clock.sleep(milliseconds: 100)
    }
    #expect(try commits(target) - before < 1000)
  }

  @Test func `only sequences that exist and are listed are advanced`() throws {
    let target = try PostgresTarget()
    try target.psql("CREATE SEQUENCE kept; CREATE SEQUENCE closed; CREATE TABLE t(id serial PRIMARY KEY)")
    let connection = try PostgresConnection(target.url)
    let names = ["kept", "closed", "t_id_seq", "missing", "k\"e\\pt", "{", "", "pg_class"].map { ("public", $0) }
    let all = try SequenceUpkeep.allowed(names, TargetScope(), connection)
    #expect(all == ["\"public\".\"kept\"", "\"public\".\"closed\"", "\"public\".\"t_id_seq\""])
    let listed = try SequenceUpkeep.allowed(names, TargetScope(["kept", "t"]), connection)
    #expect(listed == ["\"public\".\"kept\"", "\"public\".\"t_id_seq\""])
  }

  // MARK: Definitions

  /// A list of numbers in parentheses that SQLite parses into 57 times as much memory.
  private static func list(bytes: Int) -> String {
    "(" + Array(repeating: "7", count: bytes / 2).joined(separator: ",") + ")"
  }

  @Test func `lists in a peer's tables take little memory of SQLite`() throws {
    let made = try Handmade(TempFolder())
    try made.transaction {
      for name in ["t0", "t1"] {
        try made.shape("CREATE TABLE \(name)(a INTEGER PRIMARY KEY)")
        var schema = try #require(made.latest(name))
        schema.createText = "CREATE TABLE \(name)(a INTEGER PRIMARY KEY CHECK (a NOT IN \(Self.list(bytes: 900_000))))"
        made.shape(schema)
        try made.create(name)
        try made.insert(name, [1])
      }
    }
    try made.replay()
    #expect(try made.rows("SELECT t0.a, t1.a FROM t0, t1") == [[1, 1]])
    let database = try Database(path: made.target)
    _ = try database.userTables()
    #expect(database.schemaBytes < 4 << 20)
  }

  @Test func `a table waits whose target has no room for more definitions`() throws {
    let made = try Handmade(TempFolder())
    try made.run(
      (0..<27).map { "CREATE TABLE f\($0)(a CHECK (a NOT IN \(Self.list(bytes: 70_000))))" }.joined(separator: ";")
        + ";CREATE TABLE old(a INTEGER PRIMARY KEY)")
    for name in ["old", "t"] { try made.shape("CREATE TABLE \(name)(a INTEGER PRIMARY KEY)") }
    try made.transaction {
      try made.create("old")
      try made.create("t")
      try made.insert("old", [1])
      try made.insert("t", [2])
    }
    _ = failure { try made.replay() }
    #expect(try made.rows("SELECT a FROM old") == [[1]])
    #expect(try made.rows("SELECT name FROM sqlite_master WHERE name = 't'") == [])
  }

  // MARK: Reads

  private func state(_ folder: TempFolder) throws -> SQLiteApplyState {
    let database = try Database(path: folder("copy.db"), mode: .create)
    let state = SQLiteApplyState(database, of: TrailName(origin: "a", name: "b"))
    try state.install()
    return state
  }

  @Test func `tables that a program adds after the start are not all read`() throws {
    let folder = try TempFolder()
    let state = try state(folder)
    func add(_ count: Int, trail: String, name: String) throws {
      try state.database.execute(
        """
        WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < \(count))
        INSERT INTO cairn_table(trail, name) SELECT \(trail), \(name) FROM n
        """)
    }
    try add(100, trail: "'a.b'", name: "'t' || i")
    #expect(try state.tables().count == 100)
    try add(10_001, trail: "'x.' || i", name: "'shared'")
    let feeders = #expect(throws: CairnError.self) { _ = try state.feeders(of: "shared") }
    #expect(feeders?.code == .databaseUnsafe)
    try add(100_000, trail: "'a.b'", name: "'u' || i")
    let tables = #expect(throws: CairnError.self) { _ = try state.tables() }
    #expect(tables?.code == .databaseUnsafe)
  }

  @Test func `keys of a range are read in slices`() throws {
    let folder = try TempFolder()
    let database = try Database(path: folder("copy.db"), mode: .create)
    try database.execute("CREATE TABLE t(id TEXT PRIMARY KEY) WITHOUT ROWID")
    try database.execute(
      """
      WITH RECURSIVE n(i) AS (SELECT 101 UNION ALL SELECT i + 1 FROM n WHERE i < 140)
      INSERT INTO t SELECT i || hex(zeroblob(50000)) FROM n
      """)
    database.answerBytesMax = 1 << 20
    let schema = try #require(try database.userTables().first).schema
    let table = SQLiteApplyTable(try TableMapping(schema, to: .sqlite), state: .init(), database: database)
    var (last, count, slices) = ([Value]?.none, 0, 0)
    while true {
      let keys = try table.keys(in: nil, after: last, limit: 1000, bytesMax: 1 << 20)
      guard let end = keys.last else { break }
      #expect(keys.count <= 11)
      (last, count, slices) = (end, count + keys.count, slices + 1)
    }
    #expect(count == 40 && slices == 4)
  }

  // MARK: Lists in memory

  @Test func `rows that came back from waiting have a limit of bytes`() {
    var list = ReturnsFromWaiting(RowBudget(rows: 100, bytes: 100_000))
    func row(_ number: Int) -> KeyedRow {
      let text = Value.text(Array(String(number).utf8) + Array(repeating: 0x61, count: 10_000))
      return KeyedRow(RowName(table: "t", key: [text]), [text])
    }
    var full: [Int] = []
    for number in 1...9 where list.note(row(number), behind: ["c.t": UInt64(number)], isOpen: false) {
      full.append(number)
    }
    #expect(full.isEmpty)
    #expect(!list.mayWait(row(77), at: "b.t", seen: [:]))
    for number in 10...12 where list.note(row(number), behind: ["c.t": 5], isOpen: false) { full.append(number) }
    #expect(full == [10])
    // Rows that were removed from the list may wait at a node that does not know the last of all transactions.
    #expect(list.mayWait(row(1), at: "b.t", seen: ["c.t": 8]))
    #expect(!list.mayWait(row(1), at: "b.t", seen: ["c.t": 9]))
    // The same row again takes no more room.
    for _ in 0..<100 where list.note(row(12), behind: ["c.t": 5], isOpen: false) { full.append(12) }
    #expect(full == [10])
  }

  @Test func `a row that was removed before capture has seen its return may wait anywhere`() {
    var list = ReturnsFromWaiting(RowBudget(rows: 1))
    func row(_ number: Int64) -> KeyedRow { KeyedRow(RowName(table: "t", key: [.integer(number)]), [.integer(number)]) }
    list.note(row(1), behind: [:])
    list.note(row(2), behind: [:], isOpen: false)
    #expect(list.hasOpen && list.mayWait(row(1), at: "b.t", seen: ["a.t": 9]))
    list.noteCaptured("a.t", through: 6)
    #expect(!list.hasOpen && !list.mayWait(row(1), at: "b.t", seen: ["a.t": 7]))
    #expect(list.mayWait(row(1), at: "b.t", seen: ["a.t": 6]))
  }

  @Test func `names of tables that a trail references or that are left out have a limit of bytes`() throws {
    let rows = AdmittedRows(AdmittedTables(TargetScope(["t"])), in: .sqlite)
    func named(_ number: Int) -> TableSchema {
      TableSchema(
        epoch: 1, engine: .sqlite, name: "\(number)" + String(repeating: "n", count: 100_000), columns: [])
    }
    for number in 0..<100 { #expect(!rows.includes(referenced: named(number))) }
    #expect(rows.rememberedBytes <= 1 << 20)
    var options = ApplyOptions()
    options.scope = TargetScope(["t"])
    let left = Counter()
    options.noteLeftOut = { _ in left.count += 1 }
    var gate = TargetGate(options, to: .sqlite, of: Handmade.name)
    for number in 0..<200 {
      let record = Record.refresh(Refresh(schemaID: UInt64(number), event: .end(rows: 0)))
      let schema = { (_: UInt64) -> TableSchema? in named(number) }
      for _ in 0..<2 { _ = try gate.admit(record, in: 1, schema, given: schema) }
    }
    #expect(left.count == 200 && gate.rememberedBytes <= 4 << 20)
  }

  private final class Counter: @unchecked Sendable { var count = 0 }
}
