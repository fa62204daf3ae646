import Changes
import TestServers
import Testing

/// Columns that both ends add, or that one end adds while rows are on their way.
@Suite(.enabled(if: PostgresServer.isAvailable, "needs a PostgreSQL server"))
struct AddedColumnTests {
  private static let all = "SELECT id, name, coalesce(note, '-') FROM item ORDER BY id"

  private static func mesh(_ engines: String, _ keys: KeyPool = .numbers) throws -> Mesh {
    let mesh = try Mesh(engines, schema: keys.table("item", "name TEXT"))
    mesh.ddl = .follow
    for node in mesh.nodes where node.isPostgres { try node.execute("ALTER TABLE item REPLICA IDENTITY FULL") }
    try mesh.nodes[0].execute(
      "INSERT INTO item VALUES (\(keys[1]), 'tea'), (\(keys[2]), 'milk'), (\(keys[5]), 'oil'), (\(keys[6]), 'salt')")
    for _ in 0..<2 { try mesh.settle() }
    return mesh
  }

  /// Applies everything everywhere, and runs the statements in the hints of tables that wait.
  ///
  /// - Returns: The errors of tables that waited.
  @discardableResult
  static func settleByHints(_ mesh: Mesh, rounds: Int = 6) throws -> [CairnError] {
    var errors: [CairnError] = []
    for _ in 0..<rounds {
      for node in mesh.nodes { try node.capturePending() }
      for (from, to) in [(0, 1), (1, 0)] { errors += try apply(mesh, from, to: to) }
    }
    return errors
  }

  /// Applies a trail, and runs the statements in the hint of a table that waits.
  ///
  /// - Returns: The error of a table that waited.
  @discardableResult
  private static func apply(_ mesh: Mesh, _ from: Int, to: Int) throws -> [CairnError] {
    do { try mesh.apply(from, to: to) } catch let error as CairnError where error.code == .schemaStopped {
      if let script = error.hint.firstRange(of: "by itself:\n").map({ error.hint[$0.upperBound...] }) {
        try mesh.nodes[to].execute(String(script))
      }
      return [error]
    }
    return []
  }

  @Test(
    "rows that are written right after their column is added arrive",
    arguments: Seeds.half(of: ["ss", "sp", "ps", "pp"]),
    ["", " DEFAULT 'a'", " NOT NULL DEFAULT 'a'"])
  func atOnce(engines: String, definition: String) throws {
    let mesh = try Self.mesh(engines)
    let (a, b) = (mesh.nodes[0], mesh.nodes[1])
    try a.execute("ALTER TABLE item ADD COLUMN note TEXT\(definition)")
    try a.execute("INSERT INTO item(id, name) VALUES (3, 'new')")
    try a.execute("INSERT INTO item(id, name, note) VALUES (4, 'noted', 'n')")
    try a.execute("UPDATE item SET note = 'u' WHERE id = 1")
    try a.execute("UPDATE item SET name = 'cream' WHERE id = 2")
    try a.execute("DELETE FROM item WHERE id = 5")
    for _ in 0..<3 { try mesh.settle() }
    let old = definition.isEmpty ? "-" : "a"
    for node in mesh.nodes {
      try #expect(
        node.rows(Self.all) == ["1|tea|u", "2|cream|\(old)", "3|new|\(old)", "4|noted|n", "6|salt|\(old)"],
        "\(node.name)")
    }
    try b.execute("UPDATE item SET note = 'b' WHERE id = 3")
    for _ in 0..<2 { try mesh.settle() }
    for node in mesh.nodes { try #expect(node.rows("SELECT note FROM item WHERE id = 3") == ["b"], "\(node.name)") }
    try mesh.close()
  }

  @Test(
    "of a column that both ends add with different defaults, old rows come to one value",
    arguments: Seeds.half(of: ["ss", "sp", "ps", "pp"]))
  func bothDefaults(engines: String) throws {
    let mesh = try Self.mesh(engines)
    let (a, b) = (mesh.nodes[0], mesh.nodes[1])
    try a.execute("ALTER TABLE item ADD COLUMN note TEXT DEFAULT 'a'")
    try a.execute("INSERT INTO item(id, name) VALUES (3, 'new')")
    try b.execute("ALTER TABLE item ADD COLUMN note TEXT DEFAULT 'b'")
    try b.execute("INSERT INTO item(id, name) VALUES (4, 'other')")
    let errors = try Self.settleByHints(mesh)
    #expect(errors.count == 1)
    #expect(errors.first?.message.contains("has another value in rows that have 'a' at the source") == true)
    for node in mesh.nodes {
      try #expect(
        node.rows(Self.all) == ["1|tea|a", "2|milk|a", "3|new|a", "4|other|a", "5|oil|a", "6|salt|a"], "\(node.name)")
    }
    try mesh.close()
  }

  @Test(
    "NULL that a program wrote into a column that both ends add suspends nothing",
    arguments: Seeds.half(of: ["ss", "sp", "ps", "pp"]),
    [("'a'", "'b'"), ("'a'", "'a'"), ("'b'", "'a'")])
  func writtenNull(engines: String, defaults: (String, String)) throws {
    let mesh = try Self.mesh(engines)
    let (a, b) = (mesh.nodes[0], mesh.nodes[1])
    try a.execute("ALTER TABLE item ADD COLUMN note TEXT DEFAULT \(defaults.0)")
    try b.execute("ALTER TABLE item ADD COLUMN note TEXT DEFAULT \(defaults.1)")
    for node in mesh.nodes { try node.capturePending() }
    try a.execute("UPDATE item SET note = NULL WHERE id = 1")
    try b.execute("UPDATE item SET note = NULL WHERE id = 2")
    let errors = try Self.settleByHints(mesh)
    #expect(!errors.contains { $0.message.contains("NULL in rows") })
    let old = defaults.0.filter(\.isLetter)
    // The UPDATE of the hint is a later write of row 1.
    let first = errors.isEmpty ? "-" : old
    for node in mesh.nodes {
      try #expect(
        node.rows(Self.all) == ["1|tea|\(first)", "2|milk|-", "5|oil|\(old)", "6|salt|\(old)"], "\(node.name)")
    }
    try mesh.close()
  }

  @Test("a row that was written before capture saw its column arrives with its value")
  func beforeCapture() throws {
    let mesh = try Self.mesh("ss")
    let (a, b) = (mesh.nodes[0], mesh.nodes[1])
    try b.stopCapture()
    try b.execute("ALTER TABLE item ADD COLUMN note TEXT DEFAULT 'b'")
    try a.execute("ALTER TABLE item ADD COLUMN note TEXT DEFAULT 'a'")
    try a.capturePending()
    for _ in 0..<2 { try Self.apply(mesh, 0, to: 1) }
    try b.execute("INSERT INTO item(id, name) VALUES (4, 'other')")
    try b.startCapture()
    try Self.settleByHints(mesh)
    let rows = try a.rows(Self.all)
    #expect(rows.count == 5)
    #expect(rows.contains("4|other|b"))
    try #expect(b.rows(Self.all) == rows)
    try mesh.close()
  }

  @Test(
    "a row that the other end changed meanwhile gets the new column from a copy of the table",
    arguments: ["ss", "sp"])
  func changedMeanwhile(engines: String) throws {
    let mesh = try Self.mesh(engines)
    let (a, b) = (mesh.nodes[0], mesh.nodes[1])
    try a.execute("ALTER TABLE item ADD COLUMN note TEXT DEFAULT 'a'")
    // A new unique key beside the column makes capture copy the whole table.
    try a.execute("CREATE UNIQUE INDEX item_name ON item(id, name)")
    try a.execute("UPDATE item SET note = 'n' WHERE id IN (1, 2, 5)")
    // Captures stamp changes when they read them, so the later ones must be written after this.
    try a.capturePending()
    try b.execute("UPDATE item SET name = 'cream' WHERE id = 2")
    try b.execute("DELETE FROM item WHERE id = 5")
    for _ in 0..<3 { try mesh.settle() }
    for node in mesh.nodes {
      try #expect(node.rows(Self.all) == ["1|tea|n", "2|cream|n", "6|salt|a"], "\(node.name)")
    }
    try mesh.close()
  }

  /// Statements that a program may run whether the column is there or not.
  private static func write(_ random: inout Seeded, _ keys: KeyPool, hasNote: Bool) -> String {
    let id = Int.random(in: 1...9, using: &random)
    let name = "'\(["tea", "oil", "rye", "fig"].randomElement(using: &random) ?? "")'"
    let note = ["'a'", "'b'", "'c'", "NULL"].randomElement(using: &random) ?? ""
    let (key, isKey) = (keys[id], keys.has(id))
    let plain = [
      "INSERT OR IGNORE INTO item(\(keys.names), name) VALUES (\(key), \(name))",
      "UPDATE item SET name = \(name) WHERE \(isKey)",
      "REPLACE INTO item(\(keys.names), name) VALUES (\(key), \(name))", "DELETE FROM item WHERE \(isKey)",
      "UPDATE OR REPLACE item SET \(keys.setting(id)) WHERE \(keys.has(id % 9 + 1))",
    ]
    let noted = [
      "INSERT OR IGNORE INTO item VALUES (\(key), \(name), \(note))", "UPDATE item SET note = \(note) WHERE \(isKey)",
      "REPLACE INTO item VALUES (\(key), \(name), \(note))",
    ]
    return (hasNote ? plain + noted : plain).randomElement(using: &random) ?? ""
  }

  @Test(
    "rows come to one state whatever both ends write around the moment when they add a column",
    arguments: KeyPool.runs(Seeds.range(from: 0, reduced: 8)), [false, true])
  func aroundAddedColumn(run: KeyPool.Run, isCopied: Bool) throws {
    let (seed, keys) = (run.seed, run.keys)
    var random = Seeded(seed)
    let mesh = try Self.mesh("ss", keys)
    let (a, b) = (mesh.nodes[0], mesh.nodes[1])
    let late = Int.random(in: 0...1, using: &random)
    let other = 1 - late
    let defaults = ["", " DEFAULT 'a'", " DEFAULT 'b'"].shuffled(using: &random)
    func write(_ node: Mesh.Node, hasNote: Bool) throws {
      for _ in 0..<Int.random(in: 0...3, using: &random) {
        try node.execute(Self.write(&random, keys, hasNote: hasNote))
      }
    }
    func some(_ body: () throws -> Void) rethrows { if Bool.random(using: &random) { try body() } }
    try mesh.nodes[late].stopCapture()
    // An apply waits for the capture of rows that a program wrote at its target, so it comes before these.
    let isAppliedEarly = Bool.random(using: &random)
    if !isAppliedEarly { try write(mesh.nodes[late], hasNote: false) }
    try write(mesh.nodes[other], hasNote: false)
    try mesh.nodes[late].execute("ALTER TABLE item ADD COLUMN note TEXT\(defaults[0])")
    // A new unique key beside the column makes capture copy the whole table.
    if isCopied { try mesh.nodes[late].execute("CREATE UNIQUE INDEX item_name ON item(\(keys.names), name)") }
    if !isAppliedEarly { try write(mesh.nodes[late], hasNote: true) }
    try mesh.nodes[other].execute("ALTER TABLE item ADD COLUMN note TEXT\(defaults[1])")
    try mesh.nodes[other].capturePending()
    try write(mesh.nodes[other], hasNote: true)
    if isAppliedEarly { try Self.apply(mesh, other, to: late) }
    try write(mesh.nodes[late], hasNote: true)
    try write(mesh.nodes[other], hasNote: true)
    try mesh.nodes[late].startCapture()
    try some { try mesh.nodes[late].capturePending() }
    try some { try write(mesh.nodes[late], hasNote: true) }
    try some {
      try mesh.nodes[late].capturePending()
      try Self.apply(mesh, late, to: other)
    }
    try write(mesh.nodes[other], hasNote: true)
    try Self.settleByHints(mesh, rounds: 3)
    let all = "SELECT \(keys.names), name, note FROM item"
    try #expect(
      KeyPool.plain(a.rows(all)) == KeyPool.plain(b.rows(all)), "seed \(seed), \(keys), copied \(isCopied)")
    for node in mesh.nodes { try write(node, hasNote: true) }
    try Self.settleByHints(mesh, rounds: 3)
    try #expect(
      KeyPool.plain(a.rows(all)) == KeyPool.plain(b.rows(all)),
      "seed \(seed), \(keys), copied \(isCopied), after later writes")
    try mesh.close()
  }
}
