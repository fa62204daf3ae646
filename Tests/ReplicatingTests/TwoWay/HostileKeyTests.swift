import Applying
import Changes
import Conflicts
import TestServers
import Testing

/// Invariant 8 for keys that a careless comparison takes for one. Such keys are texts that are the same number, or
/// texts that PostgreSQL writes for other values. Others are texts that differ in case or in Unicode normalization
/// only.
@Suite(.enabled(if: PostgresServer.isAvailable, "needs a PostgreSQL server"))
struct HostileKeyTests {
  private static let keys = [
    "1", "1.0", "01", "+1", "t", "0", "f", "-0", "A", "a", "\u{E9}", "e\u{301}", "\\x01", "1 ", "1e0",
  ]

  /// How the rows are identified, and what else holds between them.
  private enum Shape: CaseIterable {
    case plain, composite, referred, unique

    var schema: String {
      switch self {
      case .plain: "CREATE TABLE item(code TEXT NOT NULL PRIMARY KEY, name TEXT, stock INTEGER)"
      case .composite:
        "CREATE TABLE item(shop TEXT NOT NULL, code TEXT NOT NULL, name TEXT, stock INTEGER, PRIMARY KEY (shop, code))"
      case .referred:
        """
        CREATE TABLE item(code TEXT NOT NULL PRIMARY KEY, name TEXT, stock INTEGER);
        CREATE TABLE part(id INTEGER PRIMARY KEY, item TEXT REFERENCES item(code))
        """
      case .unique: "CREATE TABLE item(code TEXT NOT NULL PRIMARY KEY, name TEXT UNIQUE, stock INTEGER)"
      }
    }

    var all: String { self == .composite ? "SELECT * FROM item ORDER BY 1, 2" : "SELECT * FROM item ORDER BY 1" }

    func write(_ step: Int, _ node: String, _ random: inout Seeded) -> String {
      func quoted(_ text: String) -> String { "'\(text)'" }
      let code = quoted(keys.randomElement(using: &random) ?? "")
      let other = quoted(keys.randomElement(using: &random) ?? "")
      let shop = quoted(["1", "01"].randomElement(using: &random) ?? "")
      let name = self == .unique ? quoted("u\(Int.random(in: 0..<5, using: &random))") : quoted("\(node) \(step)")
      let at = self == .composite ? "shop = \(shop) AND code = \(code)" : "code = \(code)"
      let key = self == .composite ? "\(shop), \(code)" : code
      let insert = "INSERT INTO item VALUES (\(key), \(name), \(step)) ON CONFLICT DO NOTHING"
      let free = self == .unique ? " AND NOT EXISTS (SELECT 1 FROM item AS o WHERE o.name = \(name))" : ""
      let moved =
        self == .composite
        ? "SELECT 1 FROM item AS o WHERE o.shop = \(shop) AND o.code = \(other)"
        : "SELECT 1 FROM item AS o WHERE o.code = \(other)"
      let move = "UPDATE item SET code = \(other), stock = \(step) WHERE \(at) AND NOT EXISTS (\(moved))"
      let delete = "DELETE FROM item WHERE \(at)"
      switch (self, Int.random(in: 0..<10, using: &random)) {
      case (.referred, 0...1):
        return """
          INSERT INTO part SELECT \(Int.random(in: 1...5, using: &random)), code FROM item WHERE \(at)
          ON CONFLICT (id) DO NOTHING
          """
      case (.referred, 2...3):
        let both = "(\(code), \(other))"
        return "BEGIN; DELETE FROM part WHERE item IN \(both); DELETE FROM item WHERE code IN \(both); COMMIT"
      case (.referred, 4): return insert
      case (_, 0...3): return insert
      case (_, 4): return delete
      case (_, 5): return "BEGIN; \(insert); UPDATE item SET stock = \(step) + 1000 WHERE \(at); COMMIT"
      case (.referred, _): return "UPDATE item SET name = \(name), stock = \(step) WHERE \(at)"
      case (_, 6): return move
      case (_, 7): return "UPDATE item SET stock = stock + 100000"
      default: return "UPDATE item SET name = \(name), stock = \(step) WHERE \(at)\(free)"
      }
    }
  }

  /// Every rule set of the other random tests. `isComposite`: the key has two columns, so the others are one further.
  private static func rules(_ seed: UInt64, isComposite: Bool) -> (name: String, rules: ConflictRules) {
    let books = MeshConvergenceTests.books + MeshConvergenceTests.decidedBooks
    var book = books[Int(seed % UInt64(books.count))]
    let columns = book.rules.columns.filter { $0.key < 3 }
    book.rules.columns = Dictionary(uniqueKeysWithValues: columns.map { ($0.key + (isComposite ? 1 : 0), $0.value) })
    return book
  }

  @Test("rows whose keys look alike converge", arguments: MeshConvergenceTests.seeds)
  func converge(seed: UInt64) throws {
    var random = Seeded(seed)
    let shape = Shape.allCases.randomElement(using: &random) ?? .plain
    let engines = ["ss", "sp", "pp", "ssp", "spp", "sss"].randomElement(using: &random) ?? "ss"
    let book = Self.rules(seed, isComposite: shape == .composite)
    let copies = shape == .plain && book.name == "newest" && Bool.random(using: &random)
    let rows = engines.indices.map { _ in
      Self.keys.filter { _ in Bool.random(using: &random) }
        .map { "INSERT INTO item VALUES ('\($0)', 'copied', \(Int.random(in: -9...(-1), using: &random)))" }
        .joined(separator: ";")
    }
    let mesh = try Mesh(engines, schema: shape.schema, rows: copies ? Array(rows) : nil) { _, table, _ in
      table == "item" ? book.rules : ConflictRules()
    }
    for node in mesh.nodes {
      try node.execute(node.isPostgres ? "ALTER TABLE item REPLICA IDENTITY FULL" : "PRAGMA foreign_keys = ON")
    }
    if seed % 2 == 1 { mesh.commitRows = 1 }
    for step in 0..<40 {
      let node = mesh.nodes.indices.randomElement(using: &random) ?? 0
      switch Int.random(in: 0..<10, using: &random) {
      case 0..<6: try mesh.nodes[node].execute(shape.write(step, mesh.nodes[node].name, &random))
      case 6:
        if copies, step % 3 == 0 { try mesh.nodes[node].askForCopies() } else { mesh.renew(mesh.nodes[node]) }
      default:
        let from = mesh.nodes.indices.filter { $0 != node }.randomElement(using: &random) ?? 0
        try mesh.apply(from, to: node)
      }
    }
    for _ in 0..<3 { try mesh.settle() }
    let found = try mesh.nodes.map { try $0.rows(shape.all).sorted { $0.utf8.lexicographicallyPrecedes($1.utf8) } }
    for index in found.indices.dropFirst() {
      let bytes = [index, 0].map { found[$0].map { Array($0.utf8) } }
      #expect(bytes[0] == bytes[1], "seed \(seed), \(shape), \(engines), rule \(book.name)")
    }
    try mesh.close()
  }

  /// PostgreSQL pads what SQLite's programs write.
  @Test("rows with a key of char(n) converge", arguments: MeshConvergenceTests.fewSeeds)
  func padded(seed: UInt64) throws {
    var random = Seeded(seed)
    let engines = ["ps", "pp", "pss"][Int(seed % 3)]
    let text = """
      CREATE TABLE item(code char(6) PRIMARY KEY, name text, stock integer);
      CREATE TABLE part(id integer PRIMARY KEY, item char(6) REFERENCES item(code));
      INSERT INTO item VALUES ('a', 'first', 0), ('b c', 'first', 0)
      """
    let mesh = try Mesh(
      engines, schema: "CREATE TABLE other(id INTEGER PRIMARY KEY)",
      rows: engines.indices.map { $0 == engines.startIndex ? text : "" })
    for _ in 0..<2 { try mesh.settle() }
    for node in mesh.nodes {
      let full = "ALTER TABLE item REPLICA IDENTITY FULL; ALTER TABLE part REPLICA IDENTITY FULL"
      try node.execute(node.isPostgres ? full : "PRAGMA foreign_keys = ON")
    }
    for step in 0..<40 {
      let node = mesh.nodes.indices.randomElement(using: &random) ?? 0
      let key = "'\(["a", "b", "b c", "", "\u{e9}"].randomElement(using: &random) ?? "")'"
      let other = "'\(["a", "b", "new"].randomElement(using: &random) ?? "")'"
      let name = mesh.nodes[node].name
      let statement =
        switch Int.random(in: 0..<12, using: &random) {
        case 0...2: "INSERT INTO item VALUES (\(key), '\(name) \(step)', \(step)) ON CONFLICT DO NOTHING"
        case 3: "BEGIN; DELETE FROM part WHERE item = \(key); DELETE FROM item WHERE code = \(key); COMMIT"
        case 4...6: "UPDATE item SET name = '\(name) \(step)', stock = \(step) WHERE code = \(key)"
        case 7:
          "UPDATE item SET code = \(other) WHERE code = \(key) AND NOT EXISTS (SELECT 1 FROM item WHERE code = \(other)) AND NOT EXISTS (SELECT 1 FROM part WHERE item = \(key))"
        case 8: "INSERT INTO part SELECT \(step), code FROM item WHERE code = \(key)"
        default: ""
        }
      if statement.isEmpty {
        try mesh.apply(mesh.nodes.indices.filter { $0 != node }.randomElement(using: &random) ?? 0, to: node)
      } else {
        try mesh.nodes[node].execute(statement)
      }
    }
    for _ in 0..<3 { try mesh.settle() }
    for query in [
      "SELECT '<' || code || '>', name, stock FROM item ORDER BY code",
      "SELECT id, '<' || item || '>' FROM part ORDER BY id",
    ] {
      let found = try mesh.nodes.map { try $0.rows(query).sorted { $0.nameKey < $1.nameKey } }
      for other in found.dropFirst() { #expect(other == found[0], "seed \(seed), \(engines)") }
    }
    try mesh.close()
  }

  @Test("of two rows whose keys are one number, both are deleted", arguments: Seeds.half(of: ["ss", "sp", "ps", "pp"]))
  func deletedBoth(engines: String) throws {
    let mesh = try Mesh(
      engines,
      schema: """
        CREATE TABLE item(sku TEXT NOT NULL PRIMARY KEY);
        CREATE TABLE sale(id INTEGER PRIMARY KEY, sku TEXT REFERENCES item(sku))
        """)
    try mesh.nodes[0].execute("INSERT INTO item VALUES ('0123'), ('123')")
    try mesh.settle()
    try mesh.nodes[0].execute("DELETE FROM item WHERE sku IN ('0123', '123')")
    try mesh.settle()
    #expect(try mesh.nodes.map { try $0.rows("SELECT sku FROM item") } == [[], []])
    try mesh.close()
  }

  @Test(
    "an update that gives a row a key of the same number moves it", arguments: Seeds.half(of: ["ss", "sp", "ps", "pp"]))
  func moved(engines: String) throws {
    let mesh = try Mesh(engines, schema: "CREATE TABLE item(sku TEXT NOT NULL PRIMARY KEY, stock INTEGER)")
    try mesh.nodes[0].execute("INSERT INTO item VALUES ('0123', 1)")
    try mesh.settle()
    try mesh.nodes[0].execute("UPDATE item SET sku = '123'")
    try mesh.nodes[1].execute("UPDATE item SET stock = 2")
    for _ in 0..<2 { try mesh.settle() }
    let rows = try mesh.nodes.map { try $0.rows("SELECT * FROM item ORDER BY sku") }
    #expect(rows[0] == rows[1])
    try mesh.close()
  }

  private static let sales = """
    CREATE TABLE item(sku TEXT NOT NULL PRIMARY KEY);
    CREATE TABLE sale(id INTEGER PRIMARY KEY, sku TEXT REFERENCES item(sku))
    """

  @Test(
    "a reference to another key of the same number brings no deleted row back",
    arguments: Seeds.half(of: ["ss", "sp", "ps", "pp"]))
  func referredNamesake(engines: String) throws {
    let mesh = try Mesh(engines, schema: Self.sales)
    try mesh.nodes[0].execute("INSERT INTO item VALUES ('0123'), ('123')")
    try mesh.settle()
    try mesh.nodes[0].execute("DELETE FROM item WHERE sku = '0123'")
    try mesh.nodes[1].execute("INSERT INTO sale VALUES (1, '123')")
    for _ in 0..<2 { try mesh.settle() }
    for node in mesh.nodes {
      #expect(try node.rows("SELECT sku FROM item") == ["123"], "\(node.name)")
      #expect(try node.rows("SELECT id, sku FROM sale") == ["1|123"], "\(node.name)")
    }
    try mesh.close()
  }

  @Test(
    "a deleted row comes back though a later reference is to its namesake",
    arguments: Seeds.half(of: ["ss", "sp", "ps", "pp"]))
  func referredBoth(engines: String) throws {
    let mesh = try Mesh(engines, schema: Self.sales)
    try mesh.nodes[0].execute("INSERT INTO item VALUES ('0123'), ('123'), ('00123')")
    try mesh.settle()
    try mesh.nodes[0].execute("DELETE FROM item WHERE sku IN ('0123', '00123')")
    try mesh.nodes[1].execute("INSERT INTO sale VALUES (1, '0123')")
    try mesh.nodes[1].capturePending()
    try mesh.nodes[1].execute("INSERT INTO sale VALUES (2, '123')")
    for _ in 0..<2 { try mesh.settle() }
    for node in mesh.nodes {
      #expect(try node.rows("SELECT sku FROM item ORDER BY sku") == ["0123", "123"], "\(node.name)")
      #expect(try node.rows("SELECT id, sku FROM sale ORDER BY id") == ["1|0123", "2|123"], "\(node.name)")
    }
    try mesh.close()
  }

  @Test(
    "a row goes with its child though a namesake of it is referenced",
    arguments: Seeds.half(of: ["ss", "sp", "ps", "pp"]))
  func referredLeaver(engines: String) throws {
    let mesh = try Mesh(
      engines,
      schema: """
        CREATE TABLE item(sku TEXT NOT NULL PRIMARY KEY);
        CREATE TABLE box(code TEXT NOT NULL PRIMARY KEY, sku TEXT REFERENCES item(sku));
        CREATE TABLE sale(id INTEGER PRIMARY KEY, code TEXT REFERENCES box(code))
        """)
    for node in mesh.nodes where node.isPostgres { try node.execute("ALTER TABLE box REPLICA IDENTITY FULL") }
    try mesh.nodes[0].execute(
      "INSERT INTO item VALUES ('0123'), ('123'); INSERT INTO box VALUES ('07', '0123'), ('7', '123')")
    try mesh.settle()
    try mesh.nodes[0].execute("BEGIN; DELETE FROM box WHERE code = '07'; DELETE FROM item WHERE sku = '0123'; COMMIT")
    try mesh.nodes[1].execute("INSERT INTO sale VALUES (1, '7')")
    for _ in 0..<2 { try mesh.settle() }
    for node in mesh.nodes {
      #expect(try node.rows("SELECT sku FROM item") == ["123"], "\(node.name)")
      #expect(try node.rows("SELECT code, sku FROM box") == ["7|123"], "\(node.name)")
    }
    try mesh.close()
  }
}
