import CairnCapture
import Changes
import SQLiteKit
import TestServers
import Testing

/// Whatever a program does to its tables between two looks, the target takes it in order and ends with the same tables.
@Suite struct SchemaSequenceTests {
  private var seeds: [UInt64] { Seeds.drawn(reduced: 3) }

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

  @Test func `an index that a new table loses again comes after the table`() throws {
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

  private func proveSynchronization(
    _ count: Int, steps length: Int, with peer: (Int) throws -> (url: String, contents: () throws -> [String]),
    here: (CapturedDatabase) throws -> [String], keepsTypes: Bool
  ) throws {
    for (number, seed) in seeds.prefix(max(1, count)).enumerated() {
      let folder = try TempFolder()
      let shop = try CapturedDatabase(path: folder("shop.db"), node: "till-7")
      let other = try Database(path: folder("shop.db"))
      try shop.execute("CREATE TABLE a(id INTEGER PRIMARY KEY, u INTEGER, v TEXT)")
      var steps = SchemaSteps(shop, other: seed % 2 == 0 ? other : nil, seed: seed)
      steps.keepsTypes = keepsTypes
      let peer = try peer(number)
      do {
        for round in 0..<4 {
          try steps.take(length)
          var options = Synchronizer.Options()
          (options.firstCopy, options.schemaChanges, options.folds) = (.up, .follow, seed % 3 == 0)
          let line = try Synchronizer(shop, with: peer.url, options: options)
          let outcome = try round == 0 ? line.initialize() : line.synchronize()
          let (one, two) = (try here(shop), try peer.contents())
          #expect(one == two, "seed \(seed): \(outcome) \(steps.done)")
          guard one == two else { return }
        }
      } catch {
        Issue.record("seed \(seed): \(error), after \(steps.done)")
        return
      }
    }
  }

  @Test func `a synchroniser brings them to another file`() throws {
    let folder = try TempFolder()
    try proveSynchronization(
      seeds.count / 2, steps: 6,
      with: { number in
        let path = folder("peer\(number).db")
        return ("sqlite://" + path, { try contents(Database(path: path)) })
      },
      here: { shop in
        let path = try shop.query("PRAGMA database_list")[0].value("file", as: String.self)
        return try contents(Database(path: path))
      }, keepsTypes: false)
  }

  @Test(.enabled(if: PostgresServer.isAvailable, "\(PostgresServer.problem ?? "")"))
  func `a synchroniser brings them to PostgreSQL`() throws {
    try proveSynchronization(
      seeds.count / 4, steps: 6,
      with: { _ in
        let server = try SyncedTill.Server()
        return (server.url, { try self.contents(server) })
      }, here: contents(inColumnsOf:), keepsTypes: true)
  }

  private static let tables = ["a", "b", "c", "d", "z"]

  /// Returns the contents that both engines can say alike: columns, the columns of indexes, and rows.
  private func contents(inColumnsOf shop: CapturedDatabase) throws -> [String] {
    try Self.tables.flatMap { table -> [String] in
      let columns = try shop.query("SELECT name FROM pragma_table_info('\(table)') ORDER BY name").map {
        try $0.decode(String.self)
      }
      guard !columns.isEmpty else { return [] }
      let indexes = try shop.query(
        """
        SELECT l."unique" || ' ' || (SELECT group_concat(i.name, ',') FROM pragma_index_info(l.name) i)
        FROM pragma_index_list('\(table)') l WHERE l.origin = 'c' ORDER BY 1
        """
      ).map { try $0.decode(String.self) }
      let rows = try shop.query("SELECT \(columns.joined(separator: ",")) FROM \(table)")
        .map { $0.values.map(\.description).joined(separator: "|") }
      return ["\(table) \(columns)"] + indexes + rows.sorted()
    }
  }

  private func contents(_ server: SyncedTill.Server) throws -> [String] {
    try Self.tables.flatMap { table -> [String] in
      let columns = try server.rows(
        "SELECT column_name FROM information_schema.columns WHERE table_schema = 'public' AND table_name = '\(table)' ORDER BY 1"
      )
      guard !columns.isEmpty else { return [] }
      let indexes = try server.rows(
        """
        SELECT indisunique::int || ' ' || (SELECT string_agg(attname, ',' ORDER BY array_position(indkey::int[], attnum::int))
        FROM pg_attribute WHERE attrelid = indrelid AND attnum = ANY(indkey))
        FROM pg_index WHERE indrelid = 'public.\(table)'::regclass AND NOT indisprimary ORDER BY 1
        """)
      let rows = try server.rows("SELECT \(columns.joined(separator: ",")) FROM \(table)")
      return ["\(table) \(columns)"] + indexes + rows.sorted()
    }
  }
}
