import Applying
import Conflicts
import Foundation
import TestServers
import Testing

/// Invariant 8: random writes to a few rows at three nodes, brought to each other in random order, come to the same rows
/// everywhere. A seed that fails is printed, and `CAIRN_SEED` runs it again; `CAIRN_SOAK` runs 300 of them, or
/// as many as `CAIRN_SEEDS` says.
@Suite(.enabled(if: PostgresServer.isAvailable, "needs a PostgreSQL server"))
struct MeshConvergenceTests {
  private static let schema = "CREATE TABLE item(id INTEGER PRIMARY KEY, name TEXT, stock INTEGER, note TEXT)"
  private static let all = "SELECT id, name, stock, note FROM item ORDER BY id"

  /// Rules by seed, so that each is met.
  static let books: [(name: String, rules: ConflictRules)] = [
    ("newest", ConflictRules()), ("oldest", ConflictRules(rule: .oldest)),
    ("priority", ConflictRules(rule: .priority(["n2", "n0"]))),
    ("columns", ConflictRules(tracking: .column)),
    ("delta", ConflictRules(columns: [2: .delta])),
    ("max", ConflictRules(columns: [2: .max], deletes: .deleteWins)),
    ("min", ConflictRules(tracking: .column, columns: [2: .min], deletes: .updateWins)),
  ]

  static var seeds: [UInt64] {
    let environment = ProcessInfo.processInfo.environment
    if let seed = environment["CAIRN_SEED"].flatMap({ UInt64($0) }) { return [seed] }
    let first = UInt64.random(in: 0..<1_000_000)
    let count = environment["CAIRN_SEEDS"].flatMap { UInt64($0) } ?? (isSoak ? 300 : 30)
    return (0..<count).map { first + $0 }
  }

  static var decidedSeeds: [UInt64] { isSoak || seeds.count == 1 ? seeds : [0, 7, 14, 3, 10, 5] }

  /// For families that take long.
  static var fewSeeds: [UInt64] { isSoak || seeds.count == 1 ? seeds : [1, 2, 3] }

  @Test("random writes at three nodes converge", arguments: seeds)
  func converge(seed: UInt64) throws {
    let book = Self.books[Int(seed % UInt64(Self.books.count))]
    var random = Seeded(seed)
    let mesh = try Mesh(seed % 3 == 0 ? "ssp" : seed % 3 == 1 ? "spp" : "sss", schema: Self.schema) { _, _, _ in
      book.rules
    }
    for node in mesh.nodes where node.isPostgres { try node.execute("ALTER TABLE item REPLICA IDENTITY FULL") }
    if seed % 2 == 1 { mesh.commitRows = 1 }
    for step in 0..<40 {
      let node = mesh.nodes.indices.randomElement(using: &random) ?? 0
      switch Int.random(in: 0..<10, using: &random) {
      case 0..<6: try mesh.nodes[node].execute(Self.write(step, mesh.nodes[node].name, &random))
      case 6:
        if step % 4 == 0 {
          // Clocks are off, and set: within what applies take.
          try mesh.restart(mesh.nodes[node], clockAhead: Int64.random(in: -25...25, using: &random))
        } else {
          mesh.renew(mesh.nodes[node])
        }
      default:
        let from = mesh.nodes.indices.filter { $0 != node }.randomElement(using: &random) ?? 0
        try mesh.apply(from, to: node)
      }
    }
    // No node knows what the last of them has applied before its own trail says so.
    for _ in 0..<2 { try mesh.settle() }
    let rows = try mesh.nodes.map { try $0.rows(Self.all) }
    #expect(rows[1] == rows[0], "seed \(seed), rule \(book.name)")
    #expect(rows[2] == rows[0], "seed \(seed), rule \(book.name)")
    try mesh.close()
  }

  /// Rules whose outcome one node decides, and one that needs no decision.
  static let decidedBooks: [(name: String, rules: ConflictRules)] = [
    ("source", ConflictRules(rule: .source, decider: "n1")), ("target", ConflictRules(rule: .target, decider: "n1")),
    ("insert-only", ConflictRules(rule: .insertOnly, decider: "n1")),
    ("sql", ConflictRules(columns: [2: .sql("local * 100 + incoming")], deletes: .deleteWins, decider: "n1")),
    ("source by column", ConflictRules(tracking: .column, rule: .source, columns: [1: .target], decider: "n1")),
    ("merge-text", ConflictRules(columns: [1: .mergeText, 3: .mergeText])),
  ]

  @Test("what one node decides comes to three nodes", arguments: decidedSeeds)
  func decisions(seed: UInt64) throws {
    let book = Self.decidedBooks[Int(seed % UInt64(Self.decidedBooks.count))]
    var random = Seeded(seed)
    let mesh = try Mesh(["sps", "psp", "sss"][Int(seed / 6 % 3)], schema: Self.schema) { _, _, _ in book.rules }
    for node in mesh.nodes where node.isPostgres { try node.execute("ALTER TABLE item REPLICA IDENTITY FULL") }
    if seed % 2 == 1 { mesh.commitRows = 1 }
    for step in 0..<40 {
      let node = mesh.nodes.indices.randomElement(using: &random) ?? 0
      switch Int.random(in: 0..<10, using: &random) {
      case 0..<6: try mesh.nodes[node].execute(Self.write(step, mesh.nodes[node].name, &random))
      case 6: mesh.renew(mesh.nodes[node])
      default:
        let from = mesh.nodes.indices.filter { $0 != node }.randomElement(using: &random) ?? 0
        try mesh.apply(from, to: node)
      }
    }
    // A decision is one more write, which the other nodes see with the next round.
    for _ in 0..<3 { try mesh.settle() }
    let rows = try mesh.nodes.map { try $0.rows(Self.all) }
    #expect(rows[1] == rows[0], "seed \(seed), rule \(book.name)")
    #expect(rows[2] == rows[0], "seed \(seed), rule \(book.name)")
    for node in mesh.nodes {
      #expect(
        try node.rows("SELECT key FROM \(node.isPostgres ? "cairn.decision" : "cairn_decision")") == [],
        "seed \(seed), rule \(book.name): nothing is left to be decided")
    }
    let conflicts = try mesh.nodes.indices.map { from in
      try mesh.nodes.indices.filter { $0 != from }.map { try mesh.apply(from, to: $0) }.reduce(0, +)
    }
    #expect(conflicts == [0, 0, 0], "seed \(seed), rule \(book.name): nothing goes to and fro")
    try mesh.close()
  }

  /// How rows refer to others.
  private enum Referring: CaseIterable {
    case byKey, byCode, cascading, touching

    var column: String { self == .byCode ? "code" : "id" }

    var schema: String {
      """
      CREATE TABLE item(id INTEGER PRIMARY KEY, code INTEGER UNIQUE, name TEXT);
      CREATE TABLE part(id INTEGER PRIMARY KEY,
        item INTEGER REFERENCES item(\(column))\(self == .cascading ? " ON DELETE CASCADE" : ""), name TEXT)
      """
    }

    /// A write to one table that writes to the other one by itself.
    func trigger(isPostgres: Bool) -> String? {
      guard self == .touching else { return nil }
      let body = "UPDATE part SET name = NEW.name WHERE item = NEW.id;"
      guard isPostgres else { return "CREATE TRIGGER touch AFTER UPDATE OF name ON item BEGIN \(body) END" }
      return """
        CREATE FUNCTION touch() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \(body) RETURN NULL; END $$;
        CREATE TRIGGER touch AFTER UPDATE OF name ON item FOR EACH ROW EXECUTE FUNCTION touch()
        """
    }

    func delete(_ item: Int) -> String {
      (self == .cascading ? "" : "DELETE FROM part WHERE item = \(self == .byCode ? item + 10 : item); ")
        + "DELETE FROM item WHERE id = \(item)"
    }
  }

  @Test("rows that refer to others converge, and none refers to nothing", arguments: seeds)
  func references(seed: UInt64) throws {
    let referring = Referring.allCases[Int(seed / 6 % 4)]
    var random = Seeded(seed)
    let mesh = try Mesh(seed % 3 == 0 ? "ssp" : seed % 3 == 1 ? "spp" : "sss", schema: referring.schema)
    for node in mesh.nodes {
      // A row that comes back is as the trail has it.
      try node.execute(node.isPostgres ? "ALTER TABLE item REPLICA IDENTITY FULL" : "PRAGMA foreign_keys = ON")
      if let sql = referring.trigger(isPostgres: node.isPostgres) { try node.execute(sql) }
    }
    if seed % 2 == 1 { mesh.commitRows = 1 }
    for step in 0..<40 {
      let node = mesh.nodes.indices.randomElement(using: &random) ?? 0
      let (item, part) = (Int.random(in: 1...3, using: &random), Int.random(in: 1...5, using: &random))
      let text = "'n\(node) \(step)'"
      switch Int.random(in: 0..<9, using: &random) {
      case 0, 1:
        try mesh.nodes[node].execute(
          "INSERT INTO item VALUES (\(item), \(item + 10), \(text)) ON CONFLICT (id) DO NOTHING")
      case 2: try mesh.nodes[node].execute(referring.delete(item))
      case 3, 4:
        try mesh.nodes[node].execute(
          """
          INSERT INTO part SELECT \(part), \(referring.column), \(text) FROM item WHERE id = \(item)
          ON CONFLICT (id) DO NOTHING
          """)
      case 5: try mesh.nodes[node].execute("DELETE FROM part WHERE id = \(part)")
      case 6: try mesh.nodes[node].execute("UPDATE item SET name = \(text) WHERE id = \(item)")
      default:
        let from = mesh.nodes.indices.filter { $0 != node }.randomElement(using: &random) ?? 0
        try mesh.apply(from, to: node)
      }
    }
    for _ in 0..<2 { try mesh.settle() }
    for sql in ["SELECT id, name FROM item ORDER BY id", "SELECT id, item, name FROM part ORDER BY id"] {
      let rows = try mesh.nodes.map { try $0.rows(sql) }
      #expect(rows[1] == rows[0], "seed \(seed), \(referring)")
      #expect(rows[2] == rows[0], "seed \(seed), \(referring)")
    }
    let orphans = try mesh.nodes.map {
      try $0.rows("SELECT id FROM part WHERE item NOT IN (SELECT \(referring.column) FROM item)")
    }
    #expect(orphans == [[], [], []], "seed \(seed), \(referring)")
    try mesh.close()
  }

  /// In which nodes differed once.
  static var chainSeeds: [UInt64] { isSoak || seeds.count == 1 ? seeds : [171982, 171989, 171991] }

  @Test("rows that refer to rows that refer to others converge", arguments: chainSeeds)
  func chains(seed: UInt64) throws {
    var random = Seeded(seed)
    let mesh = try Mesh(
      seed % 3 == 0 ? "ssp" : seed % 3 == 1 ? "spp" : "sss",
      schema: """
        CREATE TABLE item(id INTEGER PRIMARY KEY, name TEXT);
        CREATE TABLE part(id INTEGER PRIMARY KEY, item INTEGER REFERENCES item(id), name TEXT);
        CREATE TABLE piece(id INTEGER PRIMARY KEY, part INTEGER REFERENCES part(id), name TEXT)
        """)
    for node in mesh.nodes where node.isPostgres {
      for table in ["item", "part"] { try node.execute("ALTER TABLE \(table) REPLICA IDENTITY FULL") }
    }
    if seed % 2 == 1 { mesh.commitRows = 1 }
    for step in 0..<50 {
      let node = mesh.nodes.indices.randomElement(using: &random) ?? 0
      let (item, part, piece) = (
        Int.random(in: 1...2, using: &random), Int.random(in: 1...3, using: &random),
        Int.random(in: 1...4, using: &random)
      )
      let text = "'n\(node) \(step)'"
      let pieces = "DELETE FROM piece WHERE part IN (SELECT id FROM part WHERE item = \(item))"
      let sql: String? =
        switch Int.random(in: 0..<11, using: &random) {
        case 0: "INSERT INTO item VALUES (\(item), \(text)) ON CONFLICT (id) DO NOTHING"
        case 1, 2:
          "INSERT INTO part SELECT \(part), id, \(text) FROM item WHERE id = \(item) ON CONFLICT (id) DO NOTHING"
        case 3, 4:
          "INSERT INTO piece SELECT \(piece), id, \(text) FROM part WHERE id = \(part) ON CONFLICT (id) DO NOTHING"
        case 5: "DELETE FROM piece WHERE id = \(piece)"
        case 6: "DELETE FROM piece WHERE part = \(part); DELETE FROM part WHERE id = \(part)"
        case 7: "BEGIN; \(pieces); DELETE FROM part WHERE item = \(item); DELETE FROM item WHERE id = \(item); COMMIT"
        case 8: "UPDATE item SET name = \(text) WHERE id = \(item)"
        default: nil
        }
      if let sql {
        try mesh.nodes[node].execute(sql)
      } else {
        let from = mesh.nodes.indices.filter { $0 != node }.randomElement(using: &random) ?? 0
        try mesh.apply(from, to: node)
      }
    }
    for _ in 0..<2 { try mesh.settle() }
    for table in ["item", "part", "piece"] {
      let rows = try mesh.nodes.map { try $0.rows("SELECT * FROM \(table) ORDER BY id") }
      #expect(rows[1] == rows[0], "seed \(seed)")
      #expect(rows[2] == rows[0], "seed \(seed)")
    }
    for (child, parent) in [("part", "item"), ("piece", "part")] {
      let sql = "SELECT id FROM \(child) WHERE \(parent) NOT IN (SELECT id FROM \(parent))"
      #expect(try mesh.nodes.map { try $0.rows(sql) } == [[], [], []], "seed \(seed)")
    }
    try mesh.close()
  }

  @Test("rows that would have one unique value converge, and who lost comes back", arguments: fewSeeds)
  func uniqueValues(seed: UInt64) throws {
    var random = Seeded(seed)
    let mesh = try Mesh(
      seed % 3 == 0 ? "ssp" : seed % 3 == 1 ? "spp" : "sss",
      schema: "CREATE TABLE item(id INTEGER PRIMARY KEY, name TEXT UNIQUE, step INTEGER)")
    for step in 0..<36 {
      let node = mesh.nodes.indices.randomElement(using: &random) ?? 0
      let (id, name) = (Int.random(in: 1...4, using: &random), "'\("abc".randomElement(using: &random) ?? "a")'")
      switch Int.random(in: 0..<8, using: &random) {
      case 0, 1, 2:
        try mesh.nodes[node].execute("INSERT INTO item VALUES (\(id), \(name), \(step)) ON CONFLICT DO NOTHING")
      case 3: try mesh.nodes[node].execute("DELETE FROM item WHERE id = \(id)")
      case 4:
        try mesh.nodes[node].execute(
          """
          UPDATE item SET name = \(name), step = \(step)
          WHERE id = \(id) AND NOT EXISTS (SELECT 1 FROM item AS other WHERE other.name = \(name))
          """)
      default:
        let from = mesh.nodes.indices.filter { $0 != node }.randomElement(using: &random) ?? 0
        try mesh.apply(from, to: node)
      }
    }
    for _ in 0..<2 { try mesh.settle() }
    let rows = try mesh.nodes.map { try $0.rows("SELECT id, name, step FROM item ORDER BY id") }
    #expect(rows[1] == rows[0], "seed \(seed)")
    #expect(rows[2] == rows[0], "seed \(seed)")
    try mesh.close()
  }

  @Test(
    "rows that would have one value of an index over an expression, and over part of them, converge",
    arguments: fewSeeds)
  func partsAndExpressions(seed: UInt64) throws {
    var random = Seeded(seed)
    let mesh = try Mesh(
      ["ssp", "spp", "sss"][Int(seed % 3)],
      schema: """
        CREATE TABLE item(id INTEGER PRIMARY KEY, name TEXT, code INTEGER, gone INTEGER NOT NULL, step INTEGER);
        CREATE UNIQUE INDEX item_name ON item(lower(name)) WHERE gone = 0;
        CREATE UNIQUE INDEX item_code ON item(abs(code))
        """)
    for step in 0..<36 {
      let node = mesh.nodes.indices.randomElement(using: &random) ?? 0
      let id = Int.random(in: 1...4, using: &random)
      let name = "'\("aAbBc".randomElement(using: &random) ?? "a")'"
      let code = ["NULL", "1", "-1", "2", "-2", "3"].randomElement(using: &random) ?? "NULL"
      let gone = Int.random(in: 0..<4, using: &random) / 3
      let isFree = """
        NOT EXISTS (SELECT 1 FROM item AS other
          WHERE other.id <> \(id) AND (\(gone) = 0 AND other.gone = 0 AND lower(other.name) = lower(\(name))
            OR abs(other.code) = abs(\(code))))
        """
      switch Int.random(in: 0..<9, using: &random) {
      case 0, 1, 2:
        try mesh.nodes[node].execute(
          "INSERT INTO item VALUES (\(id), \(name), \(code), \(gone), \(step)) ON CONFLICT DO NOTHING")
      case 3: try mesh.nodes[node].execute("DELETE FROM item WHERE id = \(id)")
      case 4: try mesh.nodes[node].execute("UPDATE item SET gone = 1, step = \(step) WHERE id = \(id)")
      case 5:
        try mesh.nodes[node].execute(
          """
          UPDATE item SET name = \(name), code = \(code), gone = \(gone), step = \(step) WHERE id = \(id) AND \(isFree)
          """)
      default:
        let from = mesh.nodes.indices.filter { $0 != node }.randomElement(using: &random) ?? 0
        try mesh.apply(from, to: node)
      }
    }
    for _ in 0..<2 { try mesh.settle() }
    let rows = try mesh.nodes.map { try $0.rows("SELECT id, name, code, gone, step FROM item ORDER BY id") }
    #expect(rows[1] == rows[0], "seed \(seed)")
    #expect(rows[2] == rows[0], "seed \(seed)")
    try mesh.close()
  }

  private static func write(_ step: Int, _ node: String, _ random: inout Seeded) -> String {
    let id = Int.random(in: 1...4, using: &random)
    switch Int.random(in: 0..<10, using: &random) {
    case 0, 1: return "INSERT INTO item VALUES (\(id), '\(node) \(step)', \(step), NULL) ON CONFLICT (id) DO NOTHING"
    case 8:
      let other = Int.random(in: 1...4, using: &random)
      return """
        UPDATE item SET id = \(other), name = '\(node) \(step)'
        WHERE id = \(id) AND NOT EXISTS (SELECT 1 FROM item AS other WHERE other.id = \(other))
        """
    case 9:
      return """
        INSERT INTO item VALUES (\(id), '\(node) \(step)', \(step), NULL)
        ON CONFLICT (id) DO UPDATE SET name = excluded.name, stock = item.stock + 1
        """
    case 2: return "DELETE FROM item WHERE id = \(id)"
    case 3: return "UPDATE item SET name = '\(node) \(step)' WHERE id = \(id)"
    case 4: return "UPDATE item SET note = 'note \(step)' WHERE id = \(id)"
    case 5:
      return """
        BEGIN; UPDATE item SET stock = stock + 1 WHERE id = \(id); DELETE FROM item WHERE id = \(id % 4 + 1);
        INSERT INTO item VALUES (\(id % 4 + 1), 'new', 0, '\(node)'); COMMIT
        """
    default: return "UPDATE item SET stock = stock + \(Int.random(in: -5...9, using: &random)) WHERE id <= \(id)"
    }
  }
}
