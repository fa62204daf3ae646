import Applying
import Changes
import Conflicts
import Foundation
import Mapping
import SystemKit
import TestServers
import Testing

/// Invariants 7 and 8: nothing comes back to where it came from, and all come to the same rows.
@Suite(.enabled(if: PostgresServer.isAvailable, "needs a PostgreSQL server"))
struct TwoWayTests {
  private static let schema = "CREATE TABLE item(id INTEGER PRIMARY KEY, name TEXT, stock INTEGER)"
  private static let all = "SELECT id, name, stock FROM item ORDER BY id"

  @Test("writes at both ends come to the other", arguments: Seeds.half(of: ["ss", "sp", "pp"]))
  func bothWays(engines: String) throws {
    let mesh = try Mesh(engines, schema: Self.schema)
    let (a, b) = (mesh.nodes[0], mesh.nodes[1])
    try a.execute("INSERT INTO item VALUES (1, 'tea', 10), (2, 'milk', 5)")
    try b.execute("INSERT INTO item VALUES (3, 'rice', 7)")
    try mesh.settle()
    try a.execute("UPDATE item SET stock = 9 WHERE id = 3")
    try b.execute("DELETE FROM item WHERE id = 2")
    try mesh.settle()
    for node in mesh.nodes {
      let rows = try node.rows(Self.all)
      #expect(rows == ["1|tea|10", "3|rice|9"], "\(node.name)")
    }
    try mesh.close()
  }

  @Test func `padding of char(n) makes no difference where both ends write`() throws {
    let mesh = try Mesh(
      "ps", schema: "CREATE TABLE other(id INTEGER PRIMARY KEY)",
      rows: [
        "CREATE TABLE item(id integer PRIMARY KEY, code char(6), stock integer); INSERT INTO item VALUES (1, 'a', 1)",
        "",
      ])
    for _ in 0..<2 { try mesh.settle() }
    let (server, file) = (mesh.nodes[0], mesh.nodes[1])
    try file.execute("INSERT INTO item VALUES (2, 'b', 1)")
    try mesh.settle()
    try server.execute("UPDATE item SET stock = 5")
    try mesh.settle()
    try file.execute("UPDATE item SET stock = stock + 1 WHERE code IN ('a', 'b')")
    try mesh.settle()
    #expect(try server.rows("SELECT id, code || '.', stock FROM item ORDER BY id") == ["1|a.|6", "2|b.|6"])
    #expect(try file.rows("SELECT id, code || '.', stock FROM item ORDER BY id") == ["1|a.|6", "2|b.|6"])
    try mesh.close()
  }

  @Test(
    "both ends have the later of two writes to one row, and the conflict log has the other",
    arguments: Seeds.half(of: ["ss", "sp", "pp"]))
  func newest(engines: String) throws {
    let mesh = try Mesh(engines, schema: Self.schema)
    let (a, b) = (mesh.nodes[0], mesh.nodes[1])
    try a.execute("INSERT INTO item VALUES (1, 'tea', 10)")
    try mesh.settle()
    try a.execute("UPDATE item SET stock = 11")
    try a.capturePending()
    try b.execute("UPDATE item SET name = 'green tea'")
    try b.capturePending()
    try #expect(mesh.apply(0, to: 1) == 1)
    try #expect(mesh.apply(1, to: 0) == 1)
    try mesh.settle()
    for node in mesh.nodes {
      let rows = try node.rows(Self.all)
      #expect(rows == ["1|green tea|10"], "\(node.name)")
    }
    try mesh.close()
  }

  @Test(
    "of two inserts of one key, the delete of the row that won ends both",
    arguments: Seeds.half(of: ["ss", "sp", "pp", "sss"]))
  func deletedWinner(engines: String) throws {
    let mesh = try Mesh(engines, schema: Self.schema)
    let (a, b) = (mesh.nodes[0], mesh.nodes[1])
    try a.execute("INSERT INTO item VALUES (1, 'superseded', 1)")
    try a.capturePending()
    // Each is a transaction of the trail: one that makes a row and takes it away again makes no version of it.
    for sql in ["INSERT INTO item VALUES (1, 'later', 2)", "UPDATE item SET stock = 3", "DELETE FROM item"] {
      try b.execute(sql)
      try b.capturePending()
    }
    for _ in 0..<2 { try mesh.settle() }
    #expect(try mesh.nodes.map { try $0.rows(Self.all) } == mesh.nodes.map { _ in [] })
    try mesh.close()
  }

  @Test(
    "an apply that shares what was replaced takes no turn, and what it did is known",
    arguments: Seeds.half(of: ["ss", "sp", "pp"]))
  func replaced(engines: String) throws {
    let mesh = try Mesh(engines, schema: Self.schema)
    let (a, b) = (mesh.nodes[0], mesh.nodes[1])
    try a.execute("INSERT INTO item VALUES (1, 'tea', 10)")
    try mesh.settle()
    let old = try #require(b.twoWay)
    b.twoWay = TwoWay(
      own: (b.trail, b.folder), applied: [(a.trail, a.folder, AdmittedTables(TargetScope()))], captured: b.tables,
      link: b.link, after: old,
      rules: b.rules)
    try b.execute("UPDATE item SET stock = 11")
    try b.capturePending()
    try a.execute("UPDATE item SET stock = 12")
    try a.capturePending()
    try #expect(mesh.apply(0, to: 1) == 1, "a conflict that the new one knows of")
    b.twoWay = old
    try a.execute("UPDATE item SET stock = 13")
    try a.capturePending()
    #expect(throws: (any Error).self) { try mesh.apply(0, to: 1) }
    try mesh.close()
  }

  @Test(
    "a row that a transaction changes, deletes and inserts as it was is written by it",
    arguments: Seeds.half(of: ["ss", "sp", "ps"]))
  func insertedAgain(engines: String) throws {
    let mesh = try Mesh(engines, schema: Self.schema)
    let (a, b) = (mesh.nodes[0], mesh.nodes[1])
    try a.execute("INSERT INTO item VALUES (1, 'tea', 10)")
    try mesh.settle()
    try b.execute("DELETE FROM item")
    try b.capturePending()
    try a.execute(
      "BEGIN; UPDATE item SET stock = 11; DELETE FROM item; INSERT INTO item VALUES (1, 'tea', 10); COMMIT")
    try mesh.settle()
    for node in mesh.nodes {
      let rows = try node.rows(Self.all)
      #expect(rows == ["1|tea|10"], "\(node.name): the later of both transactions left it there")
    }
    try mesh.close()
  }

  @Test(
    "copies of several nodes that did not know each other come to all their rows",
    arguments: Seeds.half(of: ["ss", "sp", "pp", "spp"]))
  func copies(engines: String) throws {
    let mesh = try Mesh(
      engines, schema: Self.schema,
      rows: [
        "INSERT INTO item VALUES (1, 'n0', 1), (2, 'n0', 1)", "INSERT INTO item VALUES (2, 'n1', 2), (3, 'n1', 2)",
      ]
        + ["INSERT INTO item VALUES (2, 'n2', 3), (4, 'n2', 3)"].prefix(engines.count - 2))
    for _ in 0..<2 { try mesh.settle() }
    let rows = try mesh.nodes.map { try $0.rows(Self.all) }
    #expect(rows.allSatisfy { $0 == rows[0] }, "\(rows)")
    let owners = rows[0].map { $0.split(separator: "|")[1] }
    #expect(rows[0].compactMap(\.first) == Array("1234".prefix(engines.count + 1)), "\(rows[0])")
    #expect(owners[0] == "n0" && owners[2] == "n1", "\(rows[0])")
    try mesh.close()
  }

  @Test(
    "a row that a program's write met, and apply has changed since, is not taken for replaced",
    arguments: ["id", "email"])
  func stagedRow(column: String) throws {
    let mesh = try Mesh("ss", schema: "CREATE TABLE item(id TEXT PRIMARY KEY, email TEXT UNIQUE, stock INTEGER)")
    let (a, b) = (mesh.nodes[0], mesh.nodes[1])
    try a.execute("INSERT INTO item VALUES ('1', 'e1', 0)")
    try mesh.settle()
    try a.stopCapture()
    let met = column == "id" ? "('1', 'e9', 5)" : "('2', 'e1', 5)"
    try a.execute("INSERT INTO item VALUES \(met) ON CONFLICT DO NOTHING")
    #expect(try a.rows("SELECT count(*) FROM cairn_stage") == ["1"])
    try b.execute("UPDATE item SET stock = 1")
    try b.capturePending()
    try mesh.apply(1, to: 0)
    try a.execute("INSERT INTO item VALUES ('3', 'e3', 0)")
    try a.startCapture()
    try mesh.settle()
    for node in mesh.nodes {
      let rows = try node.rows("SELECT * FROM item ORDER BY id")
      #expect(rows == ["1|e1|1", "3|e3|0"], "\(node.name)")
    }
    try mesh.close()
  }

  @Test func `a primary key that may be NULL is no stricter where both tables are made alike`() throws {
    let mesh = try Mesh("ss", schema: "CREATE TABLE item(id TEXT PRIMARY KEY, code TEXT NOT NULL UNIQUE)")
    try mesh.nodes[0].execute("INSERT INTO item VALUES ('1', 'a')")
    try mesh.nodes[1].execute("INSERT INTO item VALUES ('2', 'b')")
    try mesh.settle()
    for node in mesh.nodes {
      let rows = try node.rows("SELECT * FROM item ORDER BY id")
      #expect(rows == ["1|a", "2|b"], "\(node.name)")
    }
    try mesh.close()
  }

  @Test(
    "a row that comes back waits for a unique value that has another one by then",
    arguments: Seeds.half(of: ["ss", "sp", "pp"]))
  func backWithoutValue(engines: String) throws {
    let mesh = try Mesh(
      engines,
      schema: """
        CREATE TABLE item(id INTEGER PRIMARY KEY, code INTEGER NOT NULL UNIQUE);
        CREATE TABLE part(id INTEGER PRIMARY KEY, code INTEGER REFERENCES item(code))
        """)
    for node in mesh.nodes where node.isPostgres { try node.execute("ALTER TABLE item REPLICA IDENTITY FULL") }
    let (a, b) = (mesh.nodes[0], mesh.nodes[1])
    try a.execute("INSERT INTO item VALUES (1, 7)")
    try mesh.settle()
    try a.execute("DELETE FROM item")
    try a.execute("INSERT INTO item VALUES (2, 7)")
    try b.execute("INSERT INTO part VALUES (1, 7)")
    for _ in 0..<2 { try mesh.settle() }
    for node in mesh.nodes {
      let rows = try node.rows("SELECT * FROM item") + node.rows("SELECT * FROM part")
      #expect(rows == ["2|7", "1|7"], "\(node.name)")
    }
    try mesh.close()
  }

  @Test("a table that is emptied at one end keeps what that end had not heard of", arguments: ["ps", "pp"])
  func truncate(engines: String) throws {
    let mesh = try Mesh(engines, schema: Self.schema)
    let (a, b) = (mesh.nodes[0], mesh.nodes[1])
    try a.execute("INSERT INTO item VALUES (1, 'tea', 10), (2, 'milk', 5), (3, 'rice', 7)")
    try mesh.settle()
    try a.execute("TRUNCATE item")
    try a.execute("INSERT INTO item VALUES (5, 'salt', 1)")
    try b.execute("INSERT INTO item VALUES (4, 'oil', 2); UPDATE item SET stock = 6 WHERE id = 2")
    try mesh.settle()
    for node in mesh.nodes {
      let rows = try node.rows(Self.all)
      #expect(rows == ["2|milk|6", "4|oil|2", "5|salt|1"], "\(node.name)")
    }
    try mesh.close()
  }

  @Test("a table that only takes rows in keeps what is there, conflict or not", arguments: ["sp", "ps"], [nil, "n1"])
  func insertOnly(engines: String, decider: String?) throws {
    let mesh = try Mesh(engines, schema: Self.schema) { trail, _, _ in
      trail.origin == "n0" ? ConflictRules(rule: .insertOnly, decider: decider) : ConflictRules()
    }
    for node in mesh.nodes where node.isPostgres { try node.execute("ALTER TABLE item REPLICA IDENTITY FULL") }
    let (till, hq) = (mesh.nodes[0], mesh.nodes[1])
    try till.execute("INSERT INTO item VALUES (1, 'tea', 10), (2, 'milk', 5)")
    try till.execute("BEGIN; INSERT INTO item VALUES (3, 'rice', 1); UPDATE item SET stock = 7 WHERE id = 3; COMMIT")
    try mesh.settle()
    try hq.execute("UPDATE item SET stock = 6 WHERE id = 2")
    for _ in 0..<2 { try mesh.settle() }
    try till.execute("UPDATE item SET stock = 11 WHERE id = 1")
    try till.execute("UPDATE item SET stock = 12 WHERE id = 1")
    try till.execute("UPDATE item SET name = 'cream' WHERE id = 2")
    try till.execute("DELETE FROM item WHERE id = 3")
    try till.capturePending()
    #expect(try mesh.apply(0, to: 1) >= 3, "they are in the log")
    let kept = ["1|tea|10", "2|milk|6", "3|rice|7"]
    #expect(try hq.rows(Self.all) == kept)
    for _ in 0..<2 { try mesh.settle() }
    #expect(try hq.rows(Self.all) == kept)
    #expect(try till.rows(Self.all) == (decider == nil ? ["1|tea|12", "2|cream|6"] : kept))
    // The same for a row that came in just now.
    try till.execute("INSERT INTO item VALUES (4, 'salt', 1)")
    try till.capturePending()
    try till.execute("UPDATE item SET stock = 2 WHERE id = 4")
    try till.capturePending()
    #expect(try mesh.apply(0, to: 1) >= 1, "it is in the log")
    #expect(try hq.rows(Self.all) == kept + ["4|salt|1"])
    try mesh.close()
  }

  @Test("what is in quarantine counts as not known, and is settled when it comes back", arguments: ["sp", "pp"])
  func quarantine(engines: String) throws {
    let mesh = try Mesh(engines, schema: Self.schema)
    mesh.quarantines = true
    let (a, b) = (mesh.nodes[0], mesh.nodes[1])
    try a.execute("INSERT INTO item VALUES (1, 'tea', 10), (2, 'milk', 5)")
    try mesh.settle()
    try b.execute("ALTER TABLE item ADD CONSTRAINT positive CHECK (stock >= 0)")
    try a.execute("UPDATE item SET stock = -1 WHERE id = 1")
    try mesh.settle()
    try a.execute("UPDATE item SET name = 'green tea' WHERE id = 1")
    try a.capturePending()
    try a.execute("UPDATE item SET stock = 6 WHERE id = 2")
    try mesh.settle()
    #expect(try b.rows(Self.all) == ["1|tea|10", "2|milk|6"])
    #expect(try a.rows(Self.all) == ["1|green tea|-1", "2|milk|6"])
    // A program that writes to the row there does not know what waits.
    try b.execute("UPDATE item SET stock = 9 WHERE id = 1")
    try b.capturePending()
    #expect(try mesh.apply(1, to: 0) > 0)
    #expect(try a.rows(Self.all) == ["1|tea|9", "2|milk|6"])
    try b.execute("ALTER TABLE item DROP CONSTRAINT positive")
    let log = try QuarantineLog(#require(b.server))
    for one in try log.list() where one.heldBy == nil { #expect(try log.ask(one.id, for: .retry)) }
    try mesh.settle()
    #expect(try log.list().isEmpty)
    for node in mesh.nodes { #expect(try node.rows(Self.all) == ["1|tea|9", "2|milk|6"], "\(node.name)") }
    try mesh.close()
  }

  // MARK: One node decides

  private static let decided = ConflictRules(rule: .target, decider: "n0")

  @Test("what one node decides stands everywhere, also where a third version meets it", arguments: ["sps", "psp"])
  func decision(engines: String) throws {
    let mesh = try Mesh(engines, schema: Self.schema) { _, _, _ in Self.decided }
    try mesh.nodes[0].execute("INSERT INTO item VALUES (1, 'tea', 10), (2, 'milk', 5)")
    try mesh.settle()
    for (index, node) in mesh.nodes.enumerated() where index < 2 {
      try node.execute("UPDATE item SET stock = \(11 + index) WHERE id = 1")
      try node.capturePending()
    }
    // Until it is decided, the later one wins.
    try #expect(mesh.apply(0, to: 1) == 1)
    try #expect(mesh.nodes[1].rows(Self.all).first == "1|tea|12")
    try #expect(mesh.apply(1, to: 0) == 1)
    try #expect(mesh.nodes[0].rows(Self.all).first == "1|tea|11")
    try mesh.nodes[2].execute("UPDATE item SET stock = 13 WHERE id = 1; UPDATE item SET stock = 6 WHERE id = 2")
    for _ in 0..<3 { try mesh.settle() }
    for node in mesh.nodes {
      let rows = try node.rows(Self.all)
      #expect(rows == ["1|tea|11", "2|milk|6"], "\(node.name)")
    }
    let log = "SELECT DISTINCT rule, winner FROM \(mesh.nodes[0].isPostgres ? "cairn.conflict" : "cairn_conflict")"
    try #expect(mesh.nodes[0].rows(log) == ["priority:n0.shop|local"])
    try mesh.close()
  }

  @Test("a function in PostgreSQL decides over whole rows", arguments: ["ps", "psp"])
  func function(engines: String) throws {
    let mesh = try Mesh(engines, schema: Self.schema + "; ALTER TABLE item ADD COLUMN note TEXT") { _, _, _ in
      ConflictRules(rule: .function("public.settle"), decider: "n0")
    }
    let all = "SELECT id, name, stock, note FROM item ORDER BY id"
    // Quotes next to combining characters are no characters of their own.
    let note = "a \"b\" \\ c, (d) \"\u{301},\\\u{301}\"\u{200D}"
    for node in mesh.nodes where node.isPostgres { try node.execute("ALTER TABLE item REPLICA IDENTITY FULL") }
    let decider = mesh.nodes[0]
    try decider.execute("INSERT INTO item VALUES (1, 'tea', 10, '\(note)'), (2, 'milk', NULL, NULL)")
    try mesh.settle()
    func clash() throws {
      for (index, node) in mesh.nodes.enumerated() where index < 2 {
        try node.execute("UPDATE item SET stock = \(12 + 4 * index) WHERE id = 1")
        try node.capturePending()
      }
    }
    try clash()
    // It is not there yet: nothing is decided in silence.
    let missing = #expect(throws: CairnError.self) { try mesh.apply(1, to: 0) }
    #expect(missing?.code == .ruleRefused && missing?.message.contains("public.settle") == true, "\(missing as Any)")
    let body = """
      CREATE FUNCTION settle(local item, incoming item, before item) RETURNS item LANGUAGE plpgsql %% AS $$
      BEGIN
        local.id := 99;
        local.stock := local.stock + incoming.stock - before.stock;
        local.name := local.name || '/' || incoming.name;
        RETURN local;
      END $$
      """
    try decider.execute(body.replacing("%%", with: ""))
    mesh.renew(decider)
    let volatile = #expect(throws: CairnError.self) { try mesh.apply(1, to: 0) }
    #expect(volatile?.message.contains("VOLATILE") == true)
    try decider.execute("DROP FUNCTION settle; " + body.replacing("%%", with: "STABLE"))
    mesh.renew(decider)
    for _ in 0..<3 { try mesh.settle() }
    for node in mesh.nodes {
      let rows = try node.rows(all)
      #expect(rows == ["1|tea/tea|18|\(note)", "2|milk|NULL|NULL"], "\(node.name)")
    }
    try mesh.close()
  }

  @Test("a function that another role owns, or may replace, decides nothing")
  func foreignFunction() throws {
    let mesh = try Mesh("ps", schema: Self.schema) { _, _, _ in
      ConflictRules(rule: .function("rules.settle"), decider: "n0")
    }
    let (decider, role) = (mesh.nodes[0], "owner_\(UUID().uuidString.prefix(8).lowercased())")
    try decider.execute(
      """
      ALTER TABLE item REPLICA IDENTITY FULL; CREATE ROLE \(role); CREATE SCHEMA rules;
      CREATE FUNCTION rules.settle(local item, incoming item, before item) RETURNS item STABLE LANGUAGE sql
        AS 'SELECT incoming'
      """)
    try decider.execute("INSERT INTO item VALUES (1, 'tea', 10)")
    try mesh.settle()
    for (index, node) in mesh.nodes.enumerated() {
      try node.execute("UPDATE item SET stock = \(20 + index) WHERE id = 1")
      try node.capturePending()
    }
    for part in ["FUNCTION rules.settle", "SCHEMA rules"] {
      try decider.execute("ALTER \(part) OWNER TO \(role)")
      mesh.renew(decider)
      let refused = #expect(throws: CairnError.self) { try mesh.apply(1, to: 0) }
      #expect(refused?.code == .ownersCode && refused?.message.contains(role) == true, "\(refused as Any)")
      try decider.execute("ALTER \(part) OWNER TO postgres")
    }
    mesh.renew(decider)
    for _ in 0..<3 { try mesh.settle() }
    for node in mesh.nodes { #expect(try node.rows(Self.all) == ["1|tea|21"], "\(node.name)") }
    try decider.execute("DROP ROLE \(role)")
    try mesh.close()
  }

  @Test("both ends have the whole row that an expression prefers", arguments: Seeds.half(of: ["sp", "ps", "ss"]))
  func rowExpression(engines: String) throws {
    let mesh = try Mesh(engines, schema: Self.schema) { _, _, _ in
      ConflictRules(rule: .sql("incoming_stock > local_stock"))
    }
    let (a, b) = (mesh.nodes[0], mesh.nodes[1])
    try a.execute("INSERT INTO item VALUES (1, 'tea', 10), (2, 'milk', 5)")
    try mesh.settle()
    try a.execute("UPDATE item SET stock = 20, name = 'a'")
    try a.capturePending()
    try b.execute("UPDATE item SET stock = stock * 3, name = 'b'")
    try b.capturePending()
    for _ in 0..<2 { try mesh.settle() }
    for node in mesh.nodes {
      let rows = try node.rows(Self.all)
      #expect(rows == ["1|b|30", "2|a|20"], "\(node.name)")
    }
    try mesh.close()
  }

  @Test("a decision that is not taken is made after the next start", arguments: ["sp", "ps"])
  func refusedDecision(engines: String) throws {
    let mesh = try Mesh(engines, schema: Self.schema) { _, _, _ in Self.decided }
    let (a, b) = (mesh.nodes[0], mesh.nodes[1])
    try a.execute("INSERT INTO item VALUES (1, 'tea', 10)")
    try mesh.settle()
    try a.execute("UPDATE item SET stock = 11")
    try a.capturePending()
    try b.execute("UPDATE item SET stock = 12")
    try b.capturePending()
    try a.execute(
      a.isPostgres
        ? """
        CREATE FUNCTION no() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'no'; END $$;
        CREATE TRIGGER no BEFORE UPDATE ON item FOR EACH ROW EXECUTE FUNCTION no()
        """ : "CREATE TRIGGER no BEFORE UPDATE ON item BEGIN SELECT raise(ABORT, 'no'); END")
    try mesh.settle()
    for node in mesh.nodes { try #expect(node.rows(Self.all) == ["1|tea|12"], "\(node.name)") }
    #expect(mesh.notices.contains { $0.hasPrefix("table item, row ") && $0.contains("no") }, "\(mesh.notices)")
    try a.execute(a.isPostgres ? "DROP TRIGGER no ON item" : "DROP TRIGGER no")
    mesh.renew(a)
    try mesh.apply(1, to: 0)
    try mesh.settle()
    for node in mesh.nodes { try #expect(node.rows(Self.all) == ["1|tea|11"], "\(node.name)") }
    try mesh.close()
  }

  @Test func `a row with NULL in its key is refused`() throws {
    let mesh = try Mesh("ss", schema: "CREATE TABLE item(id TEXT PRIMARY KEY, name TEXT)")
    try mesh.nodes[0].execute("INSERT INTO item VALUES ('a', 'tea')")
    try mesh.settle()
    try mesh.nodes[0].execute("INSERT INTO item VALUES (NULL, 'milk')")
    let error = #expect(throws: CairnError.self) { try mesh.settle() }
    #expect(error?.code == .constraintFailed)
    #expect(error?.message.contains("item") == true)
    try mesh.close()
  }

  @Test("a node that writes nothing tells what it has, so that the others need not keep it", arguments: ["sps", "psp"])
  func silentNodes(engines: String) throws {
    let mesh = try Mesh(engines, schema: Self.schema)
    for step in 0..<20 { try mesh.nodes[0].execute("INSERT INTO item VALUES (\(step), 'tea', 1)") }
    func kept() -> [Int?] { mesh.nodes.map { $0.twoWay?.window.count } }
    let window = try #require(mesh.nodes[0].twoWay?.window)
    for node in mesh.nodes { try node.capturePending() }
    try mesh.apply(0, to: 1)
    let limit = Clock.monotonicMilliseconds + 20_000
    repeat { try mesh.apply(1, to: 0) } while window.count < 20 && Clock.monotonicMilliseconds < limit
    #expect(try window.count == 20 && window.isKept(for: mesh.nodes[2].trail))
    repeat { try mesh.settle() } while kept() != [0, 0, 0] && Clock.monotonicMilliseconds < limit
    #expect(kept() == [0, 0, 0])
    #expect(try !window.isKept(for: mesh.nodes[2].trail))
    try mesh.close()
  }

  @Test("a row that came back is judged anew when more refer to it", arguments: ["sss", "psp"])
  func laterReference(engines: String) throws {
    let mesh = try Mesh(
      engines,
      schema: """
        CREATE TABLE item(id INTEGER PRIMARY KEY, name TEXT);
        CREATE TABLE part(id INTEGER PRIMARY KEY, item INTEGER REFERENCES item(id))
        """)
    for node in mesh.nodes where node.isPostgres { try node.execute("ALTER TABLE item REPLICA IDENTITY FULL") }
    func write(_ node: Int, _ sql: String) throws {
      try mesh.nodes[node].execute(sql)
      try mesh.nodes[node].capturePending()
    }
    try write(2, "INSERT INTO item VALUES (3, 'first')")
    try mesh.apply(2, to: 1)
    try write(1, "DELETE FROM item")
    try write(0, "INSERT INTO item VALUES (3, 'second')")
    try mesh.apply(0, to: 2)
    try write(0, "INSERT INTO part VALUES (5, 3)")
    try write(0, "DELETE FROM part; DELETE FROM item")
    try mesh.apply(1, to: 0)
    try mesh.apply(2, to: 0)
    // The delete at n1 does not count, by the part that n0 had. But the second one won over the first, and n0 deleted it.
    try #expect(mesh.nodes[0].rows("SELECT * FROM item") == [])
    // The delete at n0 does not count, either, now.
    try write(2, "INSERT INTO part VALUES (6, 3)")
    for _ in 0..<2 { try mesh.settle() }
    for node in mesh.nodes { try #expect(node.rows("SELECT * FROM item") == ["3|second"], "\(node.name)") }
    try mesh.close()
  }

  @Test(
    "a row that stays is as it was before the transaction that deleted it",
    arguments: Seeds.half(of: ["ss", "sp", "ps"]))
  func keptRow(engines: String) throws {
    let mesh = try Mesh(
      engines,
      schema: """
        CREATE TABLE item(id INTEGER PRIMARY KEY, name TEXT);
        CREATE TABLE part(id INTEGER PRIMARY KEY, item INTEGER REFERENCES item(id))
        """)
    for node in mesh.nodes where node.isPostgres { try node.execute("ALTER TABLE item REPLICA IDENTITY FULL") }
    try mesh.nodes[0].execute("INSERT INTO item VALUES (1, 'old')")
    for _ in 0..<2 { try mesh.settle() }
    try mesh.nodes[1].execute("INSERT INTO part VALUES (1, 1)")
    try mesh.nodes[0].execute(
      "BEGIN; UPDATE item SET name = 'new'; UPDATE item SET name = 'newer'; DELETE FROM item; COMMIT")
    for _ in 0..<2 { try mesh.settle() }
    for node in mesh.nodes { try #expect(node.rows("SELECT * FROM item") == ["1|old"], "\(node.name)") }
    try mesh.close()
  }

  @Test func `a row is kept for one that refers to it from a schema with a dot in its name`() throws {
    let mesh = try Mesh(
      "ppp",
      schema: """
        CREATE SCHEMA "a.b"; CREATE TABLE public.item(id INTEGER PRIMARY KEY, name TEXT);
        CREATE TABLE "a.b"."p.art"(id INTEGER PRIMARY KEY, item INTEGER REFERENCES public.item(id))
        """)
    for node in mesh.nodes { try node.execute("ALTER TABLE item REPLICA IDENTITY FULL") }
    try mesh.nodes[0].execute("INSERT INTO item VALUES (1, 'kept'), (2, 'gone')")
    for _ in 0..<2 { try mesh.settle() }
    try mesh.nodes[1].execute("INSERT INTO \"a.b\".\"p.art\" VALUES (1, 1)")
    try mesh.nodes[0].execute("DELETE FROM item")
    for _ in 0..<2 { try mesh.settle() }
    for node in mesh.nodes { try #expect(node.rows("SELECT name FROM item") == ["kept"], "\(node.name)") }
    try mesh.close()
  }

  @Test(
    "a row that comes back takes no value from a later one, also when that is forgotten", arguments: ["sss", "psp"])
  func forgottenRank(engines: String) throws {
    let mesh = try Mesh(engines, schema: "CREATE TABLE item(id INTEGER PRIMARY KEY, name TEXT UNIQUE)")
    func write(_ node: Int, _ sql: String) throws {
      try mesh.nodes[node].execute(sql)
      try mesh.nodes[node].capturePending()
    }
    try write(2, "INSERT INTO item VALUES (2, 'b')")
    try write(1, "INSERT INTO item VALUES (2, 'c')")
    try write(1, "INSERT INTO item VALUES (1, 'b')")
    try mesh.apply(1, to: 0)
    try mesh.apply(1, to: 2)
    // All know of row 1 now, and node 2 knows that they do.
    try write(2, "INSERT INTO item VALUES (8, 'y')")
    try write(0, "INSERT INTO item VALUES (9, 'z')")
    try mesh.apply(0, to: 2)
    try write(1, "DELETE FROM item WHERE id = 2")
    try mesh.apply(1, to: 2)
    try #expect(mesh.nodes[2].rows("SELECT * FROM item ORDER BY id") == ["1|b", "8|y", "9|z"])
    for _ in 0..<2 { try mesh.settle() }
    for node in mesh.nodes {
      try #expect(node.rows("SELECT * FROM item ORDER BY id") == ["1|b", "8|y", "9|z"], "\(node.name)")
    }
    try mesh.close()
  }

  @Test(
    "a row that a foreign key brings back has the rank of its last write, also where only its delete is left",
    arguments: ["sss", "psp"])
  func referredRank(engines: String) throws {
    let mesh = try Mesh(
      engines,
      schema: """
        CREATE TABLE item(id INTEGER PRIMARY KEY, name TEXT UNIQUE);
        CREATE TABLE part(id INTEGER PRIMARY KEY, item INTEGER REFERENCES item(id))
        """)
    for node in mesh.nodes where node.isPostgres { try node.execute("ALTER TABLE item REPLICA IDENTITY FULL") }
    mesh.commitRows = 1
    func write(_ node: Int, _ sql: String) throws {
      Clock.sleep(milliseconds: 3)
      try mesh.nodes[node].execute(sql)
      try mesh.nodes[node].capturePending()
    }
    try write(2, "INSERT INTO item VALUES (2, 'x')")
    // The later one, which has the value.
    try write(0, "INSERT INTO item VALUES (1, 'x')")
    for to in 1...2 { try mesh.apply(0, to: to) }
    try write(2, "INSERT INTO item VALUES (8, 'y')")
    try write(1, "INSERT INTO item VALUES (9, 'z')")
    try write(1, "INSERT INTO part VALUES (1, 1)")
    try write(0, "DELETE FROM item WHERE id = 1")
    try mesh.apply(2, to: 0)
    try #expect(mesh.nodes[0].rows("SELECT * FROM item ORDER BY id") == ["2|x", "8|y"])
    // With its first transaction node 0 learns that all know row 1, and keeps only that it deleted it.
    try mesh.apply(1, to: 0)
    try #expect(mesh.nodes[0].rows("SELECT * FROM item ORDER BY id") == ["1|x", "8|y", "9|z"])
    for _ in 0..<2 { try mesh.settle() }
    for node in mesh.nodes {
      try #expect(node.rows("SELECT * FROM item ORDER BY id") == ["1|x", "8|y", "9|z"], "\(node.name)")
    }
    try mesh.close()
  }

  @Test(
    "an index over part of the rows lets those be that leave it, and those come back that waited",
    arguments: Seeds.half(of: ["ss", "sp", "pp"]))
  func softDeletes(engines: String) throws {
    let mesh = try Mesh(
      engines,
      schema: """
        CREATE TABLE item(id INTEGER PRIMARY KEY, name TEXT, deleted INTEGER NOT NULL DEFAULT 0);
        CREATE UNIQUE INDEX item_name ON item(lower(name)) WHERE deleted = 0
        """)
    func expect(_ rows: [String]) throws {
      for _ in 0..<2 { try mesh.settle() }
      for node in mesh.nodes { try #expect(node.rows("SELECT * FROM item ORDER BY id") == rows, "\(node.name)") }
    }
    try mesh.nodes[0].execute("INSERT INTO item VALUES (1, 'Tea', 0), (3, 'Milk', 1)")
    try mesh.nodes[0].capturePending()
    try mesh.nodes[1].execute("INSERT INTO item VALUES (2, 'tea', 0), (4, 'milk', 0)")
    try expect(["2|tea|0", "3|Milk|1", "4|milk|0"])
    try mesh.nodes[0].execute("UPDATE item SET deleted = 1 WHERE id = 2")
    try expect(["1|Tea|0", "2|tea|1", "3|Milk|1", "4|milk|0"])
    try mesh.close()
  }

  @Test("a reference counts also where the row it led to was made and taken away beside it", arguments: ["ss", "ps"])
  func passingReference(engines: String) throws {
    let mesh = try Mesh(
      engines,
      schema: """
        CREATE TABLE item(id INTEGER PRIMARY KEY, name TEXT);
        CREATE TABLE part(id INTEGER PRIMARY KEY, item INTEGER REFERENCES item(id))
        """)
    for node in mesh.nodes where node.isPostgres { try node.execute("ALTER TABLE item REPLICA IDENTITY FULL") }
    for sql in ["INSERT INTO item VALUES (2, 'one')", "DELETE FROM item"] {
      try mesh.nodes[1].execute(sql)
      try mesh.nodes[1].capturePending()
    }
    try mesh.nodes[0].execute(
      """
      BEGIN; INSERT INTO item VALUES (2, 'zero'); INSERT INTO part VALUES (1, 2); DELETE FROM part; DELETE FROM item; COMMIT
      """)
    for _ in 0..<2 { try mesh.settle() }
    for node in mesh.nodes { try #expect(node.rows("SELECT * FROM item") == ["2|one"], "\(node.name)") }
    try mesh.close()
  }
}
