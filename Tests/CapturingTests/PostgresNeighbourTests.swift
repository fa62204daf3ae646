import Changes
import PostgresKit
import TestServers
import Testing

@testable import Capturing

/// Other roles of a captured database hold up or end no capture of tables that are not theirs.
@Suite(.enabled(if: PostgresServer.isAvailable)) struct PostgresNeighbourTests {
  private func origin(_ schema: String) throws -> PostgresOrigin {
    let origin = try PostgresOrigin(
      """
      DO $$ BEGIN CREATE ROLE low LOGIN; EXCEPTION WHEN duplicate_object OR unique_violation THEN END $$;
      CREATE SCHEMA low AUTHORIZATION low; CREATE SCHEMA app; GRANT CREATE, USAGE ON SCHEMA app TO low; \(schema)
      """)
    return origin
  }

  /// Runs `body` while a session of role `low` stays in a transaction.
  private func beside(_ statement: String, _ origin: PostgresOrigin, _ body: () throws -> Void) throws {
    let other = try PostgresConnection(origin.server.url(origin.database, user: "low"))
    try other.execute("BEGIN")
    try other.execute(statement)
    defer { other.rollback() }
    try body()
  }

  @Test(.timeLimit(.minutes(20))) func `a locked table that is not captured holds up no capture`() throws {
    let origin = try origin(
      """
      CREATE TABLE app.item(id integer PRIMARY KEY); INSERT INTO app.item VALUES (1);
      SET ROLE low; CREATE TABLE low.x(id integer PRIMARY KEY CHECK (id > 0), v text DEFAULT 'x');
      CREATE TABLE low.parts(id integer CHECK (id > 0)) PARTITION BY LIST (id)
      """)
    // The slot begins once no transaction is open; then restarts do not wait for one.
    try origin.take(TablePatterns(["app.*"]))
    for table in ["low.x", "low.parts"] {
      try beside("LOCK TABLE \(table)", origin) {
        try origin.take(TablePatterns(["app.*"]))
        try origin.run("INSERT INTO app.item SELECT max(id) + 1 FROM app.item")
        try origin.run("ALTER TABLE app.item ADD COLUMN \(table.suffix(1)) text")
        try origin.take(TablePatterns(["app.*"]))
      }
    }
    let wanted = ["insert item id=2", "reshape item item", "insert item id=3 x=NULL", "reshape item item"]
    #expect(try origin.lines().suffix(4) == wanted)
  }

  @Test(.timeLimit(.minutes(20))) func `a sequence that its owner is altering is left for later`() throws {
    let origin = try origin(
      """
      CREATE TABLE app.item(id serial PRIMARY KEY); CREATE TABLE app.low(id integer PRIMARY KEY);
      ALTER TABLE app.low OWNER TO low; SET ROLE low; CREATE SEQUENCE low.s; GRANT ALL ON SEQUENCE low.s TO PUBLIC;
      ALTER TABLE app.low ALTER id SET DEFAULT nextval('low.s'); INSERT INTO app.low DEFAULT VALUES
      """)
    try origin.take(TablePatterns(["app.*"]))
    try origin.run("INSERT INTO app.item DEFAULT VALUES; INSERT INTO app.low DEFAULT VALUES")
    try beside("ALTER SEQUENCE low.s INCREMENT BY 2", origin) {
      try origin.take(TablePatterns(["app.*"]))
      let catalog = PostgresCatalog(connection: try PostgresConnection(origin.uri), publication: "")
      let read = try catalog.sequences(["app.item_id_seq", "low.s"])
      #expect(read.found.map(\.name) == ["item_id_seq"] && read.found.first?.last == 1 && !read.isWhole)
    }
    let catalog = PostgresCatalog(connection: try PostgresConnection(origin.uri), publication: "")
    let read = try catalog.sequences(["app.item_id_seq", "low.s", "low.none"])
    #expect(read.found.map(\.last).sorted() == [1, 2] && read.isWhole)
  }

  /// PostgreSQL takes two names for different ones if their letters are composed differently, and so does a trail.
  @Test(arguments: [("app", "b\u{fc}cher", "app", "bu\u{308}cher"), ("app", "a.b", "app.a", "b")])
  func `a table that another role names alike ends the capture of none`(
    _ names: (String, String, String, String)
  ) throws {
    let one = "\(names.0.quotedName).\(names.1.quotedName)"
    let other = "\(names.2.quotedName).\(names.3.quotedName)"
    let origin = try origin(
      """
      CREATE TABLE \(one)(id integer PRIMARY KEY); INSERT INTO \(one) VALUES (1);
      CREATE SCHEMA IF NOT EXISTS \(names.2.quotedName); GRANT ALL ON SCHEMA \(names.2.quotedName) TO low
      """)
    try origin.take()
    let before = try origin.tables()
    try origin.run("SET ROLE low; CREATE TABLE \(other)(id integer PRIMARY KEY); INSERT INTO \(other) VALUES (7)")
    try origin.take()
    try origin.run("INSERT INTO \(one) VALUES (2)")
    try origin.take()
    let after = try origin.tables()
    #expect(before.count == 1 && after.count == (names.0 == names.2 ? 2 : 1), "\(after)")
    #expect(try origin.ddl().allSatisfy { $0.action != .drop })
  }

  @Test func `two-way, a table whose name differs from an older one only in case is left out`() throws {
    let origin = try origin("CREATE TABLE app.item(id integer PRIMARY KEY); INSERT INTO app.item VALUES (1)")
    origin.goesBothWays = true
    try origin.take()
    let names: [NameKey] = ["app.item"]
    // One made beside it, and one that gets the name.
    try origin.run("CREATE TABLE app.goods(id integer PRIMARY KEY); INSERT INTO app.goods VALUES (5)")
    try origin.take()
    try origin.run(
      "SET ROLE low; CREATE TABLE app.\"ITEM\"(id integer PRIMARY KEY); INSERT INTO app.\"ITEM\" VALUES (1)")
    for number in 2...3 {
      try origin.take()
      try origin.run("INSERT INTO app.item VALUES (\(number))")
    }
    try origin.take()
    #expect(try origin.tables().map(NameKey.init) == ["app.goods", "app.item"])
    try origin.run("ALTER TABLE app.goods RENAME TO \"Item\"")
    #expect(origin.code { try origin.take() } == .tableRefused)
    try origin.run("INSERT INTO app.\"Item\" VALUES (6); INSERT INTO app.item VALUES (4)")
    #expect(origin.code { try origin.take() } == .tableRefused)
    let lines = try origin.lines()
    #expect(
      lines.contains("insert item id=4") && !lines.contains { $0.contains("ITEM") || $0.contains("id=6") }, "\(lines)")
    #expect(try origin.ddl().allSatisfy { $0.action != .drop })
    // Once it has another name, it is captured again.
    try origin.run("ALTER TABLE app.\"Item\" RENAME TO stuff")
    try origin.take()
    #expect(try origin.tables().map(NameKey.init) == names + ["app.stuff"])
    // One way, nothing is left out.
    origin.goesBothWays = false
    try origin.take()
    #expect(try origin.tables().count == 3)
    // Two-way again, as after the change of a conf, the capture of the younger one ends.
    origin.goesBothWays = true
    #expect(origin.code { try origin.take() } == .tableRefused)
    try origin.run("INSERT INTO app.\"ITEM\" VALUES (77); INSERT INTO app.item VALUES (78)")
    #expect(origin.code { try origin.take() } == .tableRefused)
    let later = try origin.lines()
    #expect(later.contains("insert item id=78") && !later.contains { $0.contains("id=77") }, "\(later)")
  }

  @Test func `a table with two such columns that was captured before is suspended once its trail goes both ways`()
    throws
  {
    let origin = try origin(
      "CREATE TABLE app.item(id integer PRIMARY KEY, v text, \"V\" text); CREATE TABLE app.other(id integer PRIMARY KEY)"
    )
    try origin.take()
    #expect(try origin.tables().count == 2)
    origin.goesBothWays = true
    #expect(origin.code { try origin.take() } == .tableRefused)
    try origin.run("INSERT INTO app.item VALUES (1, 'a', 'b'); INSERT INTO app.other VALUES (2)")
    #expect(origin.code { try origin.take() } == .tableRefused)
    let lines = try origin.lines()
    #expect(lines.contains("insert other id=2") && !lines.contains { $0.contains("id=1 ") }, "\(lines)")
  }

  @Test func `if a trail goes both ways, a start refuses names that differ only in the case of their letters`()
    throws
  {
    for (schema, said) in [
      ("CREATE TABLE app.item(id integer PRIMARY KEY); CREATE TABLE app.\"Item\"(id integer PRIMARY KEY)", "RENAME TO"),
      ("CREATE TABLE app.item(id integer PRIMARY KEY, v text, \"V\" text)", "RENAME COLUMN"),
    ] {
      let origin = try origin(schema)
      origin.goesBothWays = true
      do {
        try origin.take()
        Issue.record("captured: \(schema)")
      } catch let error as CairnError {
        #expect(error.code == .tableRefused && error.hint.contains(said), "\(error.message) \(error.hint)")
        #expect(error.message.contains("only in the case of ASCII letters"))
      }
    }
    let origin = try origin("CREATE TABLE app.item(id integer PRIMARY KEY, v text)")
    origin.goesBothWays = true
    try origin.take()
    try origin.run("ALTER TABLE app.item ADD COLUMN \"V\" text; INSERT INTO app.item VALUES (1, 'a', 'b')")
    #expect(origin.code { try origin.take() } == .tableRefused)
    #expect(try !origin.lines().contains { $0.contains("id=1") })
  }
}

extension PostgresOrigin {
  /// The names of the tables that capture knows, sorted.
  fileprivate func tables() throws -> [String] {
    try RegistryFile(folder: folder("state"), number: .max).registry.tables.values.map(\.schema.fullName).sorted()
  }
}
