import Changes
import Conflicts
import Operating
import TestServers
import Testing

/// What the start of a two-way replication refuses.
@Suite(.enabled(if: PostgresServer.isAvailable, "needs a PostgreSQL server"))
struct KeyCheckTests {
  private func refusal(_ engine: String, _ schema: String) throws -> CairnError? {
    let mesh = try Mesh(engine, schema: schema, isCaptured: false)
    func check() throws -> CairnError? {
      let end = try SourceEnd(mesh.nodes[0].url)
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
    "a collation of another column, or one that tells texts apart, is not refused",
    arguments: [
      ("s", "CREATE TABLE item(id TEXT NOT NULL PRIMARY KEY, name TEXT COLLATE NOCASE)"),
      ("s", "CREATE TABLE item(id TEXT COLLATE BINARY NOT NULL PRIMARY KEY, name TEXT UNIQUE COLLATE NOCASE)"),
      ("p", "CREATE TABLE item(id text COLLATE \"C\" PRIMARY KEY)"),
    ])
  func exact(engine: String, schema: String) throws { #expect(try refusal(engine, schema) == nil) }

  @Test func `a column that is to be summed needs whole rows before their changes`() throws {
    let mesh = try Mesh("p", schema: "CREATE TABLE item(id integer PRIMARY KEY, stock integer)", isCaptured: false)
    let end = try SourceEnd(mesh.nodes[0].url)
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
    let error = #expect(throws: CairnError.self) { try Detaching.run(mesh.nodes[0].url) }
    #expect(error?.code == .constraintFailed)
    #expect(error?.message.contains("bert@x") == true, "the row is shown")
    let table = mesh.nodes[0].isPostgres ? "cairn.candidate" : "cairn_candidate"
    try mesh.nodes[0].execute("DELETE FROM \(table)")
    #expect(try Detaching.run(mesh.nodes[0].url))
    try mesh.close()
  }
}
