import Applying
import Conflicts
import Foundation
import TestServers
import Testing

/// Invariant 8: random writes to a few rows at three nodes, brought to each other in random order, come to the same rows
/// everywhere. A seed that fails is printed, and `CAIRN_SEED` runs it again.
@Suite(.enabled(if: PostgresServer.isAvailable, "needs a PostgreSQL server"))
struct MeshConvergenceTests {
  private static let columns = "name TEXT, stock INTEGER, note TEXT"

  /// Rules by seed, so that each is met.
  static let books: [(name: String, rules: ConflictRules)] = [
    ("newest", ConflictRules()), ("oldest", ConflictRules(rule: .oldest)),
    ("priority", ConflictRules(rule: .priority(["n2", "n0"]))),
    ("columns", ConflictRules(tracking: .column)),
    ("delta", ConflictRules(columns: [2: .delta])),
    ("max", ConflictRules(columns: [2: .max], deletes: .deleteWins)),
    ("min", ConflictRules(tracking: .column, columns: [2: .min], deletes: .updateWins)),
  ]

  static var seeds: [UInt64] { Seeds.drawn(reduced: 12) }

  static var decidedSeeds: [UInt64] { Seeds.drawn(reduced: [0, 7, 14, 3, 10, 5]) }

  /// For families that take long.
  static var fewSeeds: [UInt64] { Seeds.half(of: Seeds.drawn(reduced: [1, 2, 3])) }

  /// Expects the same rows at all nodes.
  private func expectEqual(_ mesh: Mesh, of tables: [String] = ["item"], _ note: String) throws {
    for table in tables {
      let rows = try mesh.nodes.map { try KeyPool.plain($0.rows("SELECT * FROM \(table)")) }
      for (node, found) in zip(mesh.nodes, rows).dropFirst() {
        #expect(found == rows[0], "\(table) at \(node.name): \(note)")
      }
    }
  }

  @Test("random writes at three nodes converge", arguments: KeyPool.runs(seeds))
  func converge(run: KeyPool.Run) throws {
    let (seed, keys) = (run.seed, run.keys)
    let book = Self.books[Int(seed % UInt64(Self.books.count))]
    var random = Seeded(seed)
    let schema = keys.table("item", Self.columns)
    let mesh = try Mesh(seed % 3 == 0 ? "ssp" : seed % 3 == 1 ? "spp" : "sss", schema: schema) { _, _, _ in
      keys.rules(book.rules)
    }
    for node in mesh.nodes where node.isPostgres { try node.execute("ALTER TABLE item REPLICA IDENTITY FULL") }
    if seed % 2 == 1 { mesh.commitRows = 1 }
    for step in 0..<40 {
      let node = mesh.nodes.indices.randomElement(using: &random) ?? 0
      switch Int.random(in: 0..<10, using: &random) {
      case 0..<6: try mesh.nodes[node].execute(Self.write(step, mesh.nodes[node].name, keys, &random))
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
    try expectEqual(mesh, "seed \(seed), \(keys), rule \(book.name)")
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

  @Test("what one node decides comes to three nodes", arguments: KeyPool.runs(decidedSeeds))
  func decisions(run: KeyPool.Run) throws {
    let (seed, keys) = (run.seed, run.keys)
    let book = Self.decidedBooks[Int(seed % UInt64(Self.decidedBooks.count))]
    var random = Seeded(seed)
    let engines = ["sps", "psp", "sss"][Int(seed / 6 % 3)]
    let mesh = try Mesh(engines, schema: keys.table("item", Self.columns)) { _, _, _ in keys.rules(book.rules) }
    for node in mesh.nodes where node.isPostgres { try node.execute("ALTER TABLE item REPLICA IDENTITY FULL") }
    if seed % 2 == 1 { mesh.commitRows = 1 }
    for step in 0..<40 {
      let node = mesh.nodes.indices.randomElement(using: &random) ?? 0
      switch Int.random(in: 0..<10, using: &random) {
      case 0..<6: try mesh.nodes[node].execute(Self.write(step, mesh.nodes[node].name, keys, &random))
      case 6: mesh.renew(mesh.nodes[node])
      default:
        let from = mesh.nodes.indices.filter { $0 != node }.randomElement(using: &random) ?? 0
        try mesh.apply(from, to: node)
      }
    }
    // A decision is one more write, which the other nodes see with the next round.
    for _ in 0..<3 { try mesh.settle() }
    try expectEqual(mesh, "seed \(seed), \(keys), rule \(book.name)")
    for node in mesh.nodes {
      #expect(
        try node.rows("SELECT key FROM \(node.isPostgres ? "cairn.decision" : "cairn_decision")") == [],
        "seed \(seed), \(keys), rule \(book.name): nothing is left to be decided")
    }
    let conflicts = try mesh.nodes.indices.map { from in
      try mesh.nodes.indices.filter { $0 != from }.map { try mesh.apply(from, to: $0) }.reduce(0, +)
    }
    #expect(conflicts == [0, 0, 0], "seed \(seed), \(keys), rule \(book.name): nothing goes to and fro")
    try mesh.close()
  }

  /// How rows refer to others.
  private enum Referring: CaseIterable {
    case byKey, byCode, cascading, touching

    /// The columns of an item to which a part refers.
    func target(_ keys: KeyPool) -> [String] { self == .byCode ? ["code"] : keys.columns }

    /// The columns of a part that refer to an item.
    func columns(_ keys: KeyPool) -> [String] { self == .byCode ? ["item"] : keys.columns(to: "item") }

    func schema(_ keys: KeyPool) -> String {
      let code = keys.kind == .numbers ? "INTEGER" : "TEXT"
      let part =
        self == .byCode
        ? keys.table("part", "item \(code) REFERENCES item(code), name TEXT")
        : keys.table(
          "part", "name TEXT", parents: ["item"], onDelete: self == .cascading ? " ON DELETE CASCADE" : "")
      return "\(keys.table("item", "code \(code) UNIQUE, name TEXT")); \(part)"
    }

    /// A write to one table that writes to the other one by itself.
    func trigger(_ keys: KeyPool, isPostgres: Bool) -> String? {
      guard self == .touching else { return nil }
      let part = zip(columns(keys), target(keys)).map { "\($0) = NEW.\($1)" }.joined(separator: " AND ")
      let body = "UPDATE part SET name = NEW.name WHERE \(part);"
      guard isPostgres else { return "CREATE TRIGGER touch AFTER UPDATE OF name ON item BEGIN \(body) END" }
      return """
        CREATE FUNCTION touch() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \(body) RETURN NULL; END $$;
        CREATE TRIGGER touch AFTER UPDATE OF name ON item FOR EACH ROW EXECUTE FUNCTION touch()
        """
    }

    func delete(_ item: Int, _ keys: KeyPool) -> String {
      let part = self == .byCode ? "item = \(keys.single(item + 10))" : keys.has(item, columns(keys))
      return (self == .cascading ? "" : "DELETE FROM part WHERE \(part); ")
        + "DELETE FROM item WHERE \(keys.has(item))"
    }
  }

  @Test("rows that refer to others converge, and none refers to nothing", arguments: KeyPool.runs(seeds))
  func references(run: KeyPool.Run) throws {
    let (seed, keys) = (run.seed, run.keys)
    let referring = Referring.allCases[Int(seed / 6 % 4)]
    let (target, columns) = (referring.target(keys), referring.columns(keys))
    var random = Seeded(seed)
    let mesh = try Mesh(seed % 3 == 0 ? "ssp" : seed % 3 == 1 ? "spp" : "sss", schema: referring.schema(keys))
    for node in mesh.nodes {
      // A row that comes back is as the trail has it.
      try node.execute(node.isPostgres ? "ALTER TABLE item REPLICA IDENTITY FULL" : "PRAGMA foreign_keys = ON")
      if let sql = referring.trigger(keys, isPostgres: node.isPostgres) { try node.execute(sql) }
    }
    if seed % 2 == 1 { mesh.commitRows = 1 }
    for step in 0..<40 {
      let node = mesh.nodes.indices.randomElement(using: &random) ?? 0
      let (item, part) = (Int.random(in: 1...3, using: &random), Int.random(in: 1...5, using: &random))
      let text = "'n\(node) \(step)'"
      switch Int.random(in: 0..<9, using: &random) {
      case 0, 1:
        try mesh.nodes[node].execute(
          """
          INSERT INTO item VALUES (\(keys[item]), \(keys.single(item + 10)), \(text))
          ON CONFLICT (\(keys.names)) DO NOTHING
          """)
      case 2: try mesh.nodes[node].execute(referring.delete(item, keys))
      case 3, 4:
        try mesh.nodes[node].execute(
          """
          INSERT INTO part SELECT \(keys[part]), \(target.joined(separator: ", ")), \(text)
          FROM item WHERE \(keys.has(item)) ON CONFLICT (\(keys.names)) DO NOTHING
          """)
      case 5: try mesh.nodes[node].execute("DELETE FROM part WHERE \(keys.has(part))")
      case 6: try mesh.nodes[node].execute("UPDATE item SET name = \(text) WHERE \(keys.has(item))")
      default:
        let from = mesh.nodes.indices.filter { $0 != node }.randomElement(using: &random) ?? 0
        try mesh.apply(from, to: node)
      }
    }
    for _ in 0..<2 { try mesh.settle() }
    try expectEqual(mesh, of: ["item", "part"], "seed \(seed), \(keys), \(referring)")
    let orphans = try mesh.nodes.map {
      try $0.rows(
        """
        SELECT \(keys.names) FROM part
        WHERE \(KeyPool.tuple(columns)) NOT IN (SELECT \(target.joined(separator: ", ")) FROM item)
        """)
    }
    #expect(orphans == [[], [], []], "seed \(seed), \(keys), \(referring)")
    try mesh.close()
  }

  /// In which nodes differed once.
  static var chainSeeds: [UInt64] { Seeds.drawn(reduced: [171982, 171989, 171991]) }

  @Test("rows that refer to rows that refer to others converge", arguments: KeyPool.runs(chainSeeds))
  func chains(run: KeyPool.Run) throws {
    let (seed, keys) = (run.seed, run.keys)
    var random = Seeded(seed)
    let mesh = try Mesh(
      seed % 3 == 0 ? "ssp" : seed % 3 == 1 ? "spp" : "sss",
      schema: """
        \(keys.table("item", "name TEXT"));
        \(keys.table("part", "name TEXT", parents: ["item"]));
        \(keys.table("piece", "name TEXT", parents: ["part"]))
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
      let (ofItem, ofPart) = (keys.has(item, keys.columns(to: "item")), keys.has(part, keys.columns(to: "part")))
      let absent = "ON CONFLICT (\(keys.names)) DO NOTHING"
      let pieces = """
        DELETE FROM piece WHERE \(KeyPool.tuple(keys.columns(to: "part"))) IN (SELECT \(keys.names) FROM part WHERE \(ofItem))
        """
      let sql: String? =
        switch Int.random(in: 0..<11, using: &random) {
        case 0: "INSERT INTO item VALUES (\(keys[item]), \(text)) \(absent)"
        case 1, 2:
          "INSERT INTO part SELECT \(keys[part]), \(keys.names), \(text) FROM item WHERE \(keys.has(item)) \(absent)"
        case 3, 4:
          "INSERT INTO piece SELECT \(keys[piece]), \(keys.names), \(text) FROM part WHERE \(keys.has(part)) \(absent)"
        case 5: "DELETE FROM piece WHERE \(keys.has(piece))"
        case 6: "DELETE FROM piece WHERE \(ofPart); DELETE FROM part WHERE \(keys.has(part))"
        case 7:
          "BEGIN; \(pieces); DELETE FROM part WHERE \(ofItem); DELETE FROM item WHERE \(keys.has(item)); COMMIT"
        case 8: "UPDATE item SET name = \(text) WHERE \(keys.has(item))"
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
    try expectEqual(mesh, of: ["item", "part", "piece"], "seed \(seed), \(keys)")
    for (child, parent) in [("part", "item"), ("piece", "part")] {
      let columns = KeyPool.tuple(keys.columns(to: parent))
      let sql = "SELECT \(keys.names) FROM \(child) WHERE \(columns) NOT IN (SELECT \(keys.names) FROM \(parent))"
      #expect(try mesh.nodes.map { try $0.rows(sql) } == [[], [], []], "seed \(seed), \(keys)")
    }
    try mesh.close()
  }

  @Test("rows that would have one unique value converge, and who lost comes back", arguments: KeyPool.runs(fewSeeds))
  func uniqueValues(run: KeyPool.Run) throws {
    let (seed, keys) = (run.seed, run.keys)
    var random = Seeded(seed)
    let mesh = try Mesh(
      seed % 3 == 0 ? "ssp" : seed % 3 == 1 ? "spp" : "sss",
      schema: keys.table("item", "name TEXT UNIQUE, step INTEGER"))
    for step in 0..<36 {
      let node = mesh.nodes.indices.randomElement(using: &random) ?? 0
      let (id, name) = (Int.random(in: 1...4, using: &random), "'\("abc".randomElement(using: &random) ?? "a")'")
      switch Int.random(in: 0..<8, using: &random) {
      case 0, 1, 2:
        try mesh.nodes[node].execute("INSERT INTO item VALUES (\(keys[id]), \(name), \(step)) ON CONFLICT DO NOTHING")
      case 3: try mesh.nodes[node].execute("DELETE FROM item WHERE \(keys.has(id))")
      case 4:
        try mesh.nodes[node].execute(
          """
          UPDATE item SET name = \(name), step = \(step)
          WHERE \(keys.has(id)) AND NOT EXISTS (SELECT 1 FROM item AS other WHERE other.name = \(name))
          """)
      default:
        let from = mesh.nodes.indices.filter { $0 != node }.randomElement(using: &random) ?? 0
        try mesh.apply(from, to: node)
      }
    }
    for _ in 0..<2 { try mesh.settle() }
    try expectEqual(mesh, "seed \(seed), \(keys)")
    try mesh.close()
  }

  @Test(
    "rows that would have one value of an index over an expression, and over part of them, converge",
    arguments: KeyPool.runs(fewSeeds))
  func partsAndExpressions(run: KeyPool.Run) throws {
    let (seed, keys) = (run.seed, run.keys)
    var random = Seeded(seed)
    let mesh = try Mesh(
      ["ssp", "spp", "sss"][Int(seed % 3)],
      schema: """
        \(keys.table("item", "name TEXT, code INTEGER, gone INTEGER NOT NULL, step INTEGER"));
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
          WHERE NOT \(keys.has(id, in: "other")) AND (\(gone) = 0 AND other.gone = 0 AND lower(other.name) = lower(\(name))
            OR abs(other.code) = abs(\(code))))
        """
      switch Int.random(in: 0..<9, using: &random) {
      case 0, 1, 2:
        try mesh.nodes[node].execute(
          "INSERT INTO item VALUES (\(keys[id]), \(name), \(code), \(gone), \(step)) ON CONFLICT DO NOTHING")
      case 3: try mesh.nodes[node].execute("DELETE FROM item WHERE \(keys.has(id))")
      case 4: try mesh.nodes[node].execute("UPDATE item SET gone = 1, step = \(step) WHERE \(keys.has(id))")
      case 5:
        try mesh.nodes[node].execute(
          """
          UPDATE item SET name = \(name), code = \(code), gone = \(gone), step = \(step)
          WHERE \(keys.has(id)) AND \(isFree)
          """)
      default:
        let from = mesh.nodes.indices.filter { $0 != node }.randomElement(using: &random) ?? 0
        try mesh.apply(from, to: node)
      }
    }
    for _ in 0..<2 { try mesh.settle() }
    try expectEqual(mesh, "seed \(seed), \(keys)")
    try mesh.close()
  }

  private static func write(_ step: Int, _ node: String, _ keys: KeyPool, _ random: inout Seeded) -> String {
    let id = Int.random(in: 1...4, using: &random)
    let inserted = "INSERT INTO item VALUES (\(keys[id]), '\(node) \(step)', \(step), NULL)"
    switch Int.random(in: 0..<10, using: &random) {
    case 0, 1: return "\(inserted) ON CONFLICT (\(keys.names)) DO NOTHING"
    case 8:
      let other = Int.random(in: 1...4, using: &random)
      return """
        UPDATE item SET \(keys.setting(other)), name = '\(node) \(step)'
        WHERE \(keys.has(id)) AND NOT EXISTS (SELECT 1 FROM item AS other WHERE \(keys.has(other, in: "other")))
        """
    case 9:
      return "\(inserted) ON CONFLICT (\(keys.names)) DO UPDATE SET name = excluded.name, stock = item.stock + 1"
    case 2: return "DELETE FROM item WHERE \(keys.has(id))"
    case 3: return "UPDATE item SET name = '\(node) \(step)' WHERE \(keys.has(id))"
    case 4: return "UPDATE item SET note = 'note \(step)' WHERE \(keys.has(id))"
    case 5:
      let next = id % 4 + 1
      return """
        BEGIN; UPDATE item SET stock = stock + 1 WHERE \(keys.has(id)); DELETE FROM item WHERE \(keys.has(next));
        INSERT INTO item VALUES (\(keys[next]), 'new', 0, '\(node)'); COMMIT
        """
    default:
      let some = (1...id).map { keys.has($0) }.joined(separator: " OR ")
      return "UPDATE item SET stock = stock + \(Int.random(in: -5...9, using: &random)) WHERE \(some)"
    }
  }
}
