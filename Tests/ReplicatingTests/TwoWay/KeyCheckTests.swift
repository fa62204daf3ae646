import Changes
import Conflicts
import Endpoints
import Replicating
import SystemKit
import TestServers
import Testing

/// Conditions under which the start of a two-way replication is refused.
@Suite(.enabled(if: PostgresServer.isAvailable, "needs a PostgreSQL server"))
struct KeyCheckTests {
  private func refusal(_ engine: String, _ schema: String) throws -> CairnError? {
    let mesh = try Mesh(engine, schema: schema, isCaptured: false)
    func check() throws -> CairnError? {
      let end = try SourceDatabase(mesh.nodes[0].url)
      do {
        try TwoWayCheck.checkKeys(end, end.tables(TablePatterns())) { "leave \($0) out" }
        return nil
      } catch let error as CairnError { return error }
    }
    let error = try check()
    try mesh.close()
    return error
  }

  @Test(
    "a key is refused under a collation that takes different texts for one",
    arguments: [
      ("s", "CREATE TABLE item(name TEXT COLLATE NOCASE NOT NULL PRIMARY KEY)"),
      ("s", "CREATE TABLE item(name TEXT NOT NULL, PRIMARY KEY (name COLLATE RTRIM))"),
      (
        "p",
        """
        CREATE COLLATION anycase (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
        CREATE TABLE item(name text COLLATE anycase PRIMARY KEY)
        """
      ),
    ])
  func loose(engine: String, schema: String) throws {
    let error = try #require(try refusal(engine, schema))
    #expect(error.code == .tableRefused)
    #expect(error.message.contains("column name of its key"))
  }

  @Test(
    "a key is refused whose type takes different texts for one, also within another type",
    arguments: [
      "jsonb", "interval", "numeric[]", "float8[]", "numrange", "nummultirange", "bpchar", "hour", "pair", "pair[]",
      "named", "bounds", "citext", "folded",
    ])
  func looseType(type: String) throws {
    let error = try #require(
      try refusal("p", "\(Self.types); CREATE TABLE item(id integer, name \(type), PRIMARY KEY (id, name))"), "\(type)")
    #expect(error.code == .tableRefused)
    #expect(error.message.contains("column name of its key"), "\(error.message)")
  }

  private static let types = """
    CREATE EXTENSION citext; CREATE DOMAIN folded AS citext;
    CREATE COLLATION anycase (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
    CREATE DOMAIN hour AS interval; CREATE DOMAIN named AS text COLLATE anycase;
    CREATE TYPE pair AS (n integer, name text COLLATE anycase); CREATE TYPE good AS (n integer, price numeric(8,2));
    CREATE TYPE mood AS ENUM ('ok', 'late'); CREATE DOMAIN code AS text CHECK (value <> '');
    CREATE TYPE bounds AS RANGE (subtype = text, collation = anycase)
    """

  @Test(
    "a key is taken whose type tells different texts apart, or whose numbers Cairn compares",
    arguments: [
      "bigint", "text", "varchar(5)", "char(5)", "uuid", "numeric", "numeric(8,2)[]", "float8", "timestamptz", "date[]",
      "text[]", "daterange", "tstzrange", "bytea", "inet", "timetz", "good", "mood", "mood[]", "code", "bit(3)",
      "money",
    ])
  func exactType(type: String) throws {
    #expect(try refusal("p", "\(Self.types); CREATE TABLE item(name \(type) PRIMARY KEY)") == nil, "\(type)")
  }

  @Test(
    "a table is refused whose foreign key leads to a column that takes different texts for one",
    arguments: [
      (
        "s",
        """
        CREATE TABLE box(id TEXT NOT NULL PRIMARY KEY, name TEXT COLLATE NOCASE UNIQUE);
        CREATE TABLE item(id TEXT NOT NULL PRIMARY KEY, box TEXT REFERENCES box(name))
        """, true
      ),
      (
        "p",
        """
        CREATE TABLE box(id integer PRIMARY KEY, name interval UNIQUE);
        CREATE TABLE item(id integer PRIMARY KEY, box interval REFERENCES box(name))
        """, true
      ),
      (
        "p",
        """
        CREATE EXTENSION citext; CREATE TABLE box(id integer PRIMARY KEY, name citext UNIQUE);
        CREATE TABLE item(id integer PRIMARY KEY, box citext REFERENCES box(name))
        """, true
      ),
      (
        "s",
        """
        CREATE TABLE box(id TEXT NOT NULL PRIMARY KEY, name TEXT UNIQUE, other TEXT COLLATE NOCASE UNIQUE);
        CREATE TABLE item(id TEXT NOT NULL PRIMARY KEY, box TEXT REFERENCES box(name))
        """, false
      ),
    ])
  func looseReference(engine: String, schema: String, isRefused: Bool) throws {
    let error = try refusal(engine, schema)
    #expect((error != nil) == isRefused)
    guard isRefused else { return }
    #expect(error?.code == .tableRefused)
    #expect(
      error?.message.contains(
        "table item cannot be replicated two-way: its foreign key leads to column name of table box")
        == true, "\(error?.message ?? "")")
  }

  @Test(
    "a foreign key between types whose equal values have different texts is refused",
    arguments: [
      ("timestamp", "date", true), ("float8", "numeric", true), ("float8", "float4", true),
      ("timestamptz", "date", true),
      ("bigint", "smallint", false), ("numeric(9,2)", "integer", false), ("text", "varchar(9)", false),
      ("date", "date", false), ("uuid", "uuid", false),
    ])
  func referenceOfAnotherType(parent: String, child: String, isRefused: Bool) throws {
    let error = try refusal(
      "p",
      """
      CREATE TABLE box(id integer PRIMARY KEY, name \(parent) UNIQUE);
      CREATE TABLE item(id integer PRIMARY KEY, box \(child) REFERENCES box(name))
      """)
    #expect((error != nil) == isRefused, "\(error?.message ?? "")")
    guard isRefused else { return }
    #expect(error?.code == .tableRefused && error?.message.contains("from column box of type") == true)
  }

  @Test(
    "numeric without a scale is refused beside SQLite, which keeps its texts apart",
    arguments: [
      ("numeric", "", true), ("numeric(8,2)", "", false), ("numeric", "TEXT", true), ("numeric", "NUMERIC", false),
    ])
  func numericBesideSQLite(type: String, there: String, isRefused: Bool) throws {
    let mesh = try Mesh("ps", schema: "CREATE TABLE other(id INTEGER PRIMARY KEY)", isCaptured: false)
    try mesh.nodes[0].execute("CREATE TABLE item(price \(type) PRIMARY KEY)")
    if !there.isEmpty { try mesh.nodes[1].execute("CREATE TABLE item(price \(there) NOT NULL PRIMARY KEY)") }
    let ends = try mesh.nodes.map { try SourceDatabase($0.url) }
    let tables = try ends.map { try $0.tables(TablePatterns()) }
    func check() throws {
      try TwoWayCheck.checkKeys(ends[0], tables[0], beside: (.sqlite, tables[1])) { "leave \($0) out" }
    }
    if isRefused {
      #expect(throws: CairnError.self) { try check() }
    } else {
      try check()
    }
    try mesh.close()
  }

  @Test(
    "a collation of another column, or one that tells texts apart, is not refused",
    arguments: [
      ("s", "CREATE TABLE item(id TEXT NOT NULL PRIMARY KEY, name TEXT COLLATE NOCASE)"),
      ("s", "CREATE TABLE item(id TEXT COLLATE BINARY NOT NULL PRIMARY KEY, name TEXT UNIQUE COLLATE NOCASE)"),
      ("p", "CREATE TABLE item(id text COLLATE \"C\" PRIMARY KEY)"),
    ])
  func exact(engine: String, schema: String) throws { #expect(try refusal(engine, schema) == nil) }

  @Test(
    "a reference of a row to itself that follows its key is refused at the start",
    arguments: [
      ("s", "CREATE TABLE item(id INTEGER PRIMARY KEY, up INTEGER REFERENCES Item(id) ON UPDATE CASCADE)", true),
      ("s", "CREATE TABLE item(id INTEGER PRIMARY KEY, up INTEGER REFERENCES item(id) ON DELETE CASCADE)", false),
      (
        "s",
        """
        CREATE TABLE box(id INTEGER PRIMARY KEY);
        CREATE TABLE item(id INTEGER PRIMARY KEY, box INTEGER REFERENCES box(id) ON UPDATE CASCADE)
        """, false
      ),
      ("p", "CREATE TABLE item(id integer PRIMARY KEY, up integer REFERENCES item(id) ON UPDATE CASCADE)", false),
    ])
  func selfReference(engine: String, schema: String, isRefused: Bool) throws {
    let mesh = try Mesh(engine, schema: schema, isCaptured: false)
    let end = try SourceDatabase(mesh.nodes[0].url)
    var refusal: CairnError?
    do {
      try TwoWayCheck.checkMovedKeys(end, end.tables(TablePatterns())) { "accept \($0)" }
    } catch let error as CairnError { refusal = error }
    #expect(refusal?.code == (isRefused ? .tableRefused : nil))
    if isRefused { #expect(refusal?.hint == "accept item") }
    try mesh.close()
  }

  @Test func `a column that is to be summed needs whole rows before their changes`() throws {
    let mesh = try Mesh("p", schema: "CREATE TABLE item(id integer PRIMARY KEY, stock integer)", isCaptured: false)
    let end = try SourceDatabase(mesh.nodes[0].url)
    let plan = ConflictPlan(.init(columns: ["stock": .delta]))
    let error = #expect(throws: CairnError.self) {
      try TwoWayCheck.checkSums(end, end.tables(TablePatterns()), plan)
    }
    #expect(error?.hint.contains("REPLICA IDENTITY FULL") == true)
    try mesh.nodes[0].execute("ALTER TABLE item REPLICA IDENTITY FULL")
    try TwoWayCheck.checkSums(end, end.tables(TablePatterns()), plan)
    try mesh.close()
  }

  @Test("a database is not detached while rows wait for a unique value", arguments: ["ss", "pp"])
  func waitingRows(engines: String) throws {
    let mesh = try Mesh(engines, schema: "CREATE TABLE item(id INTEGER PRIMARY KEY, mail TEXT UNIQUE)")
    try mesh.nodes[0].execute("INSERT INTO item VALUES (1, 'bert@x')")
    try mesh.nodes[0].capturePending()
    try mesh.nodes[1].execute("INSERT INTO item VALUES (2, 'bert@x')")
    try mesh.nodes[1].capturePending()
    for _ in 0..<2 { try mesh.settle() }
    for node in mesh.nodes { try node.stopCapture() }
    let schema = mesh.nodes[0].isPostgres ? "public." : ""
    let (one, two) = mesh.nodes[0].isPostgres ? ("'1'", "'2'") : ("1", "2")
    let begun = Clock.system.microseconds()
    for node in mesh.nodes {
      let rows = try Detaching.waitingRows(at: node.url).rows
      let row = try #require(rows.first, "\(node.name)")
      #expect(rows.count == 1 && row.table == schema + "item" && row.key.shown == "id \(one)")
      #expect(row.row.columns.map(\.value.shown) == [one, "'bert@x'"])
      #expect(row.holders.map(\.values.json) == [#"{"mail":"bert@x"}"#])
      #expect(row.holders.map(\.key.shown) == ["id \(two)"])
      #expect(try abs(begun - #require(row.since)) < 60_000_000)
      #expect(node.twoWay?.waitingRows == [(schema + "item").nameKey: 1])
    }
    let error = #expect(throws: CairnError.self) { try Detaching.run(mesh.nodes[0].url) }
    #expect(error?.code == .constraintFailed)
    #expect(error?.message.contains("bert@x") == true, "the row is shown")
    #expect(error?.hint.contains("cairn conflicts list --waiting --database \(mesh.nodes[0].url.shown)") == true)
    let table = mesh.nodes[0].isPostgres ? "cairn.candidate" : "cairn_candidate"
    // As an earlier build stored it.
    try mesh.nodes[0].execute("ALTER TABLE \(table) DROP COLUMN since")
    #expect(try Detaching.waitingRows(at: mesh.nodes[0].url).rows.map(\.since) == [nil])
    try mesh.apply(1, to: 0)
    #expect(try mesh.nodes[0].rows("SELECT count(*), count(since) FROM \(table)") == ["1|0"])
    try mesh.nodes[0].execute("DELETE FROM \(table)")
    #expect(try Detaching.run(mesh.nodes[0].url))
    // The value gets free, and the row comes back.
    try mesh.nodes[1].execute("UPDATE item SET mail = 'bea@x' WHERE id = 2")
    try mesh.nodes[1].startCapture()
    try mesh.nodes[1].capturePending()
    try mesh.apply(0, to: 1)
    #expect(mesh.nodes[1].twoWay?.waitingRows == [:])
    #expect(try Detaching.waitingRows(at: mesh.nodes[1].url).rows.isEmpty)
    try mesh.close()
  }

  @Test(
    "a unique index that each database judges by itself is named",
    arguments: [
      ("p", "CREATE TABLE item(id int PRIMARY KEY, name text); CREATE UNIQUE INDEX one ON item (lower(name))", "one"),
      (
        "p", "CREATE TABLE item(id int PRIMARY KEY, name text); CREATE UNIQUE INDEX one ON item (name) WHERE id > 3",
        "one"
      ),
      ("p", "CREATE TABLE item(id int PRIMARY KEY, name numeric UNIQUE)", "(name)"),
      ("p", "CREATE TABLE item(id int PRIMARY KEY, name interval UNIQUE)", "(name)"),
      ("p", "CREATE TABLE item(id int PRIMARY KEY, name text UNIQUE, cost numeric(9,2) UNIQUE)", nil),
      ("s", "CREATE TABLE item(id INTEGER PRIMARY KEY, name TEXT UNIQUE COLLATE NOCASE)", "(name)"),
      (
        "s", "CREATE TABLE item(id INTEGER PRIMARY KEY, name TEXT); CREATE UNIQUE INDEX one ON item(lower(name))", "one"
      ),
      ("s", "CREATE TABLE item(id INTEGER PRIMARY KEY, name TEXT UNIQUE, cost NUMERIC UNIQUE)", nil),
    ] as [(String, String, String?)])
  func judgedApart(engine: String, schema: String, name: String?) throws {
    let mesh = try Mesh(engine, schema: schema, isCaptured: false)
    let end = try SourceDatabase(mesh.nodes[0].url)
    let warnings = try TwoWayCheck.warnings(end, end.tables(TablePatterns()), beside: .sqlite)
    #expect(warnings.count == (name == nil ? 0 : 1), "\(warnings)")
    if let name { #expect(warnings.first?.contains("\(name) of table") == true, "\(warnings)") }
    try mesh.close()
  }

  @Test(
    "a key with several spellings is named beside SQLite",
    arguments: [
      ("uuid", Engine.sqlite, true), ("char(6)", .sqlite, true), ("text", .sqlite, false), ("uuid", .postgres, false),
    ])
  func spelledApart(type: String, beside: Engine, isNamed: Bool) throws {
    let mesh = try Mesh("p", schema: "CREATE TABLE item(code \(type) PRIMARY KEY)", isCaptured: false)
    let end = try SourceDatabase(mesh.nodes[0].url)
    let warnings = try TwoWayCheck.warnings(end, end.tables(TablePatterns()), beside: beside)
    #expect(warnings.map { $0.contains("write each key in one spelling") } == (isNamed ? [true] : []))
    try mesh.close()
  }

  @Test(
    "constraints that PostgreSQL defers, and rows without a key, are named",
    arguments: [
      ("p", "CREATE TABLE item(id int PRIMARY KEY, a int CONSTRAINT late UNIQUE DEFERRABLE)", "late of table"),
      ("p", "CREATE TABLE item(id int PRIMARY KEY, a int, CONSTRAINT x EXCLUDE (a WITH =) DEFERRABLE)", "x of table"),
      ("p", "CREATE TABLE item(id int PRIMARY KEY, a int UNIQUE NOT DEFERRABLE)", nil),
      ("s", "CREATE TABLE item(id TEXT PRIMARY KEY); INSERT INTO item VALUES (NULL)", "table item has rows with NULL"),
      ("s", "CREATE TABLE item(id TEXT PRIMARY KEY); INSERT INTO item VALUES ('1')", nil),
      ("s", "CREATE TABLE item(id INTEGER PRIMARY KEY, a TEXT UNIQUE); INSERT INTO item(id) VALUES (1)", nil),
    ] as [(String, String, String?)])
  func judgedLate(engine: String, schema: String, name: String?) throws {
    let mesh = try Mesh(engine, schema: schema, isCaptured: false)
    let end = try SourceDatabase(mesh.nodes[0].url)
    let warnings = try TwoWayCheck.warnings(end, end.tables(TablePatterns()), beside: .sqlite)
    #expect(warnings.count == (name == nil ? 0 : 1), "\(warnings)")
    if let name { #expect(warnings.first?.contains(name) == true, "\(warnings)") }
    try mesh.close()
  }
}
