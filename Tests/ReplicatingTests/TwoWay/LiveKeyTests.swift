import Applying
import Changes
import Conflicts
import TestServers
import Testing

/// Tables that come, or change, while both ends write, and that the start of a two-way replication would refuse.
@Suite(.enabled(if: PostgresServer.isAvailable, "needs a PostgreSQL server"))
struct LiveKeyTests {
  /// Applies a trail; returns the error of a table that waits.
  private func bring(_ from: Int, to: Int, _ mesh: Mesh) throws -> CairnError? {
    try mesh.nodes[from].capturePending()
    do {
      try mesh.apply(from, to: to)
      return nil
    } catch let error as CairnError where [.tableRefused, .schemaStopped].contains(error.code) { return error }
  }

  @Test(
    "a new table whose rows two nodes do not tell apart alike waits alone",
    arguments: [
      ("ss", "CREATE TABLE item(name TEXT COLLATE NOCASE NOT NULL PRIMARY KEY, stock INTEGER)", "NOCASE"),
      ("sp", "CREATE TABLE item(name TEXT COLLATE NOCASE NOT NULL PRIMARY KEY, stock INTEGER)", "NOCASE"),
      ("pp", "CREATE TABLE item(name interval PRIMARY KEY, stock integer)", "interval"),
      ("ps", "CREATE TABLE item(name jsonb PRIMARY KEY, stock integer)", "jsonb"),
      ("pp", "CREATE EXTENSION citext; CREATE TABLE item(name citext PRIMARY KEY, stock integer)", "citext"),
      ("ps", "CREATE EXTENSION citext; CREATE TABLE item(name citext PRIMARY KEY, stock integer)", "citext"),
      ("ss", "CREATE TABLE item(name TEXT, stock INTEGER)", "no key"),
      ("pp", "CREATE TABLE item(name text, stock integer); ALTER TABLE item REPLICA IDENTITY FULL", "no key"),
    ])
  func newTable(engines: String, table: String, why: String) throws {
    let mesh = try Mesh(engines, schema: "CREATE TABLE other(id INTEGER PRIMARY KEY, note TEXT)")
    try mesh.settle()
    try mesh.nodes[0].execute(table)
    try mesh.nodes[0].execute("INSERT INTO item VALUES ('1', 10)")
    try mesh.nodes[0].execute("INSERT INTO other VALUES (1, 'tea')")
    let error = try bring(0, to: 1, mesh)
    #expect(
      error?.message.contains("table \(mesh.nodes[0].isPostgres ? "public." : "")item cannot be replicated two-way")
        == true)
    #expect(error?.message.contains(why) == true, "\(error?.message ?? "no error")")
    #expect(try mesh.nodes[1].rows("SELECT * FROM other") == ["1|tea"])
    #expect(try mesh.nodes[1].rows("SELECT count(*) FROM item") == ["0"])
    // The others go on, both ways and after a start.
    mesh.renew(mesh.nodes[1])
    try mesh.nodes[1].execute("INSERT INTO other VALUES (2, 'milk')")
    try mesh.nodes[0].execute("UPDATE other SET note = 'green tea' WHERE id = 1")
    _ = try bring(1, to: 0, mesh)
    #expect(try bring(0, to: 1, mesh) != nil)
    for node in mesh.nodes {
      #expect(try node.rows("SELECT * FROM other ORDER BY id") == ["1|green tea", "2|milk"], "\(node.name)")
    }
    try mesh.close()
  }

  @Test(
    "a sum stops its table when PostgreSQL no longer logs whole rows", arguments: Seeds.half(of: ["pp", "ps", "psp"]))
  func identityTaken(engines: String) throws {
    let schema = "CREATE TABLE item(id INTEGER PRIMARY KEY, stock INTEGER); CREATE TABLE other(id INTEGER PRIMARY KEY)"
    let mesh = try Mesh(engines, schema: schema) { _, _, columns in
      var rules = ConflictRules()
      for (index, column) in columns.enumerated() where column == "stock" { rules.columns[index] = .delta }
      return rules
    }
    for node in mesh.nodes where node.isPostgres { try node.execute("ALTER TABLE item REPLICA IDENTITY FULL") }
    try mesh.nodes[0].execute("INSERT INTO item VALUES (1, 5)")
    for _ in 0..<2 { try mesh.settle() }
    for (index, node) in mesh.nodes.enumerated() {
      try node.execute("UPDATE item SET stock = stock + \([10, 100, 1000][index])")
    }
    for _ in 0..<2 { try mesh.settle() }
    for node in mesh.nodes {
      #expect(try node.rows("SELECT stock FROM item") == ["\(engines.count == 3 ? 1115 : 115)"])
    }
    try mesh.nodes[0].execute("ALTER TABLE item REPLICA IDENTITY DEFAULT")
    try mesh.nodes[0].execute("UPDATE item SET stock = stock + 1; INSERT INTO other VALUES (7)")
    for to in mesh.nodes.indices.dropFirst() {
      let error = try bring(0, to: to, mesh)
      #expect(error?.message.contains("column stock of table public.item has the rule delta") == true)
      #expect(error?.hint.contains(#"ALTER TABLE "public"."item" REPLICA IDENTITY FULL"#) == true)
      #expect(try mesh.nodes[to].rows("SELECT id FROM other") == ["7"])
    }
    try mesh.close()
  }
}
