import CairnCapture
import Changes
import Glibc
import SQLiteKit
import Testing

/// Whatever a program does to its tables between two looks, the target takes it in order and ends with the same tables.
@Suite struct SchemaSequenceTests {
  private var seeds: [UInt64] {
    if let text = getenv("CAIRN_SEED").map({ String(cString: $0) }), let seed = UInt64(text) { return [seed] }
    let first = UInt64.random(in: 0...1_000_000_000)
    return (0..<(getenv("CAIRN_SOAK") == nil ? 4 : 300)).map { first + $0 }
  }

  /// Statements of tables and indexes, and the rows of all tables.
  private func contents(_ database: Database) throws -> [String] {
    let objects = try database.query(
      "SELECT name, type, sql FROM sqlite_master WHERE name NOT LIKE 'cairn%' AND name NOT LIKE 'sqlite%' ORDER BY name"
    )
    return try objects.flatMap { object in
      let rows = try object[1].string == "table" ? database.query("SELECT * FROM \(object[0].string) ORDER BY id") : []
      return [object[2].string] + rows.map { "\(object[0].string): \($0.map(\.shown).joined(separator: "|"))" }
    }
  }

  private func proveReplay(withOther: Bool, folds: Bool = false) throws {
    for seed in seeds {
      let till = try Till()
      (till.options.folds, till.options.needsTables) = (folds, false)
      let other = withOther ? try Database(path: till.folder("shop.db")) : nil
      var steps = SchemaSteps(till.shop, other: other, seed: seed)
      do {
        for _ in 0..<4 {
          try steps.take(2 + Int(seed % 7))
          try till.take()
          try till.replay()
          if seed % 3 == 0 { till.endCapture() }
          let (here, there) = (
            try contents(Database(path: till.folder("shop.db"))), try contents(Database(path: till.folder("copy.db")))
          )
          #expect(here == there, "seed \(seed): \(steps.done)")
          guard here == there else { return }
        }
      } catch {
        Issue.record("seed \(seed): \(error), after \(steps.done)")
        return
      }
    }
  }

  @Test func `an index that a new table loses again is told behind the table`() throws {
    let till = try Till("CREATE TABLE item(id INTEGER PRIMARY KEY)")
    let told = try till.told { shop in
      try shop.execute("CREATE TABLE v(id INTEGER PRIMARY KEY, a INTEGER)")
      try shop.execute("CREATE INDEX i ON v(a)")
      try shop.execute("DROP INDEX i")
      try shop.execute("ANALYZE")
      try shop.execute("CREATE INDEX j ON v(a)")
      try shop.execute("ALTER TABLE v RENAME TO w")
    }
    #expect(
      told.filter { $0.contains("shape") || $0.contains("create") || $0.contains("rename") }
        == ["create v", "reshape v", "reshape v", "reshape v", "rename w"])
    #expect(!told.contains { $0.hasPrefix("copy") })
    try till.replay()
    #expect(try till.rows("w").target.isEmpty)
  }

  @Test func `one after the other, they come to an SQLite target`() throws { try proveReplay(withOther: false) }

  @Test func `so they do where other programs write as well`() throws { try proveReplay(withOther: true) }

  @Test func `folded, too`() throws { try proveReplay(withOther: true, folds: true) }
}
