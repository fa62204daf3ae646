import Applying
import Capturing
import Changes
import Foundation
import TestServers
import Testing
import Trails

/// Chains: what an apply writes to a captured database goes on, with the node that wrote it first.
@Suite(.enabled(if: PostgresServer.isAvailable, "needs a PostgreSQL server"))
struct CascadeTests {
  static let schema = """
    CREATE TABLE item(id INTEGER PRIMARY KEY, code TEXT UNIQUE, stock INTEGER); CREATE TABLE line(a INTEGER NOT NULL, b TEXT NOT NULL, PRIMARY KEY (a, b))
    """
  static let all = "SELECT id, code, stock FROM item ORDER BY id"
  static let lines = "SELECT a, b FROM line ORDER BY a, b"

  /// The tables are at the first node; capture and applies bring them to the others.
  static func chain(
    _ engines: String, schema: String = Self.schema, relays: Bool = true, everywhere: Bool = false,
    tables: [TablePatterns]? = nil
  ) throws -> Mesh {
    let first = everywhere ? "" : schema
    let mesh = try Mesh(
      engines, schema: everywhere ? schema : "CREATE TABLE other(id INTEGER PRIMARY KEY)", tables: tables,
      rows: everywhere ? nil : engines.indices.map { $0 == engines.startIndex ? first : "" }, isCaptured: false)
    mesh.isOneWay = true
    for node in mesh.nodes {
      node.relays = relays
      try node.startCapture()
    }
    return mesh
  }

  /// Brings everything on, node by node.
  static func bringOn(_ mesh: Mesh) throws {
    for from in mesh.nodes.indices.dropLast() {
      try mesh.nodes[from].capturePending()
      try mesh.apply(from, to: from + 1)
    }
  }

  static func expectEqual(_ mesh: Mesh, _ why: String = "") throws {
    for query in [all, lines] {
      let first = try KeyPool.plain(mesh.nodes[0].rows(query))
      for node in mesh.nodes.dropFirst() {
        let rows = try KeyPool.plain(node.rows(query))
        #expect(rows == first, "\(node.name) \(why)")
      }
    }
  }

  @Test(
    "what comes to the second goes on to the third and the fourth",
    arguments: Seeds.half(of: ["spsp", "psps", "sss", "ppp"]))
  func goesOn(engines: String) throws {
    let mesh = try Self.chain(engines)
    try mesh.nodes[0].execute("INSERT INTO item VALUES (1, 'a', 1), (2, 'b', 2)")
    try Self.bringOn(mesh)
    try Self.expectEqual(mesh, "first rows")
    try mesh.nodes[0].execute("UPDATE item SET stock = 9 WHERE id = 1")
    try mesh.nodes[0].execute("DELETE FROM item WHERE id = 2")
    try mesh.nodes[0].execute("INSERT INTO line VALUES (1, 'x'), (1, 'y')")
    try Self.bringOn(mesh)
    try Self.expectEqual(mesh, "changes")
    try mesh.nodes[0].execute("ALTER TABLE item ADD COLUMN note TEXT")
    try mesh.nodes[0].execute("INSERT INTO item(id, code, stock, note) VALUES (3, 'c', 3, 'new')")
    for _ in 0..<2 { try Self.bringOn(mesh) }
    for node in mesh.nodes {
      #expect(try node.rows("SELECT id, note FROM item ORDER BY id").last == "3|new", "\(node.name)")
    }
    // Programs in the middle write as well.
    try mesh.nodes[1].execute("INSERT INTO item(id, code, stock) VALUES (100, 'mine', 1)")
    try mesh.nodes[0].execute("UPDATE item SET stock = 10 WHERE id = 1")
    try Self.bringOn(mesh)
    for node in mesh.nodes.dropFirst() {
      #expect(try node.rows("SELECT id, stock FROM item WHERE id IN (1, 100) ORDER BY id") == ["1|10", "100|1"])
    }
    try mesh.close()
  }

  @Test("the trail names the first node, and a row does not go round", arguments: Seeds.half(of: ["sss", "ppp", "sp"]))
  func ring(engines: String) throws {
    let mesh = try Self.chain(engines, everywhere: true)
    let last = mesh.nodes.count - 1
    try mesh.nodes[0].execute("INSERT INTO item VALUES (1, 'a', 1)")
    try Self.bringOn(mesh)
    try mesh.nodes[last].capturePending()
    let reader = try TrailReader.open(folder: mesh.nodes[last].folder, at: nil)
    var origins: Set<String> = []
    var times: [Int64] = []
    while let record = try reader.next() {
      guard case .begin(let header) = record, let relay = header.relay else { continue }
      origins.insert(relay.origin)
      times.append(header.commitTime)
    }
    #expect(origins == ["n0.shop"])
    #expect(times.allSatisfy { $0 > 1_700_000_000_000_000 }, "the time of the commit, \(times)")
    // Back at the first node it is passed over; without that it would be there twice.
    for _ in 0..<3 {
      try mesh.apply(last, to: 0)
      try Self.bringOn(mesh)
    }
    try mesh.nodes[last].execute("INSERT INTO item VALUES (2, 'of the last', 2)")
    for _ in 0..<3 {
      try mesh.nodes[last].capturePending()
      try mesh.apply(last, to: 0)
      try Self.bringOn(mesh)
    }
    for node in mesh.nodes {
      let rows = try node.rows(Self.all)
      #expect(rows == ["1|a|1", "2|of the last|2"], "\(node.name)")
    }
    try mesh.close()
  }

  @Test("two databases feed a third, and both go on to a fourth", arguments: Seeds.half(of: ["ssss", "pspp", "sppp"]))
  func consolidation(engines: String) throws {
    let all = TablePatterns()
    let mesh = try Self.chain(
      engines, everywhere: true, tables: [TablePatterns(["item"]), TablePatterns(["line"]), all, all])
    mesh.commitRows = 1000
    for step in 1...6 {
      try mesh.nodes[0].execute("INSERT INTO item VALUES (\(step), 'c\(step)', \(step))")
      try mesh.nodes[1].execute("INSERT INTO line VALUES (\(step), 'x')")
      for from in 0..<2 {
        try mesh.nodes[from].capturePending()
        try mesh.apply(from, to: 2)
      }
      try mesh.nodes[2].execute("INSERT INTO item VALUES (\(step + 100), 'p\(step)', 0)")
    }
    try mesh.nodes[2].capturePending()
    // Groups end where the origin changes, and what was read beyond such an end is not lost.
    try mesh.apply(2, to: 3)
    for query in [Self.all, Self.lines] {
      let (third, fourth) = (try mesh.nodes[2].rows(query), try mesh.nodes[3].rows(query))
      #expect(third == fourth)
    }
    #expect(try mesh.nodes[3].rows("SELECT count(*) FROM item UNION ALL SELECT count(*) FROM line") == ["12", "6"])
    try mesh.close()
  }

  @Test("a second way by which the rows of a table come is refused", arguments: ["sss", "ppp"])
  func secondWay(engines: String) throws {
    let mesh = try Self.chain(engines, everywhere: true)
    try mesh.nodes[0].execute("INSERT INTO item VALUES (1, 'a', 1)")
    try Self.bringOn(mesh)
    let error = #expect(throws: CairnError.self) { try mesh.apply(0, to: 2) }
    let message = error?.message ?? ""
    #expect(message.contains("no column separates the rows of trail n0.shop from them"), "\(message)")
    try mesh.close()
  }

  @Test("what comes behind a first transaction that is put aside goes on", arguments: ["sss", "ppp"])
  func quarantined(engines: String) throws {
    let mesh = try Self.chain(engines, everywhere: true)
    mesh.quarantines = true
    try mesh.nodes[1].execute("INSERT INTO item VALUES (9, 'a', 1)")
    try mesh.nodes[1].capturePending()
    try mesh.nodes[0].execute("INSERT INTO item VALUES (1, 'a', 1)")
    try mesh.nodes[0].capturePending()
    try mesh.nodes[0].execute("INSERT INTO line VALUES (1, 'x')")
    try Self.bringOn(mesh)
    #expect(try mesh.nodes[1].rows(Self.all) == ["9|a|1"])
    #expect(try mesh.nodes[2].rows(Self.lines) == ["1|x"])
    try mesh.close()
  }

  @Test("without it nothing goes on", arguments: ["sss", "ppp"])
  func skipped(engines: String) throws {
    let mesh = try Self.chain(engines, relays: false, everywhere: true)
    try mesh.nodes[0].execute("INSERT INTO item VALUES (1, 'a', 1)")
    try Self.bringOn(mesh)
    #expect(try mesh.nodes.map { try $0.rows(Self.all) } == [["1|a|1"], ["1|a|1"], []])
    try mesh.close()
  }

  @Test("triggers of programs in the middle do not fire")
  func triggers() throws {
    let mesh = try Self.chain("sss", everywhere: true)
    try mesh.nodes[1].execute(
      "CREATE TABLE seen(id INTEGER PRIMARY KEY); CREATE TRIGGER mine AFTER INSERT ON item BEGIN INSERT INTO seen VALUES (NEW.id); END"
    )
    try mesh.nodes[1].capturePending()
    try mesh.nodes[0].execute("INSERT INTO item VALUES (1, 'a', 1)")
    try Self.bringOn(mesh)
    try Self.expectEqual(mesh)
    #expect(try mesh.nodes[1].rows("SELECT count(*) FROM seen") == ["0"])
    try mesh.close()
  }

  @Test("random writes, with captures and applies that start again", arguments: Seeds.range(reduced: 2))
  func random(seed: UInt64) throws { try bringRandomly(seed, .numbers) }

  /// SQLite takes NULL in a key of texts.
  @Test(
    "random writes to rows whose keys look alike, also to rows whose key is NULL in files",
    arguments: Seeds.range(reduced: 2))
  func randomTexts(seed: UInt64) throws { try bringRandomly(seed, .texts) }

  private func bringRandomly(_ seed: UInt64, _ keys: KeyPool) throws {
    var random = Seeded(seed)
    let engines = ["spsp", "ssss", "psps"][Int(seed % 3)]
    let hasNull = keys.kind == .texts && engines == "ssss"
    let type = hasNull ? "TEXT" : keys.type
    let schema = """
      CREATE TABLE item(id \(type) PRIMARY KEY, code TEXT UNIQUE, stock INTEGER);
      CREATE TABLE line(a \(keys.type)\(keys.kind == .numbers ? " NOT NULL" : ""), b TEXT NOT NULL, PRIMARY KEY (a, b))
      """
    let spare = keys.kind == .numbers ? "100" : "'spare'"
    let mesh = try Self.chain(engines, schema: schema)
    for step in 0..<(isSoak ? 300 : 80) {
      let (first, second) = (Int.random(in: 1...12, using: &random), Int.random(in: 1...12, using: &random))
      let (id, other) = (keys[first], keys.kind == .numbers ? "'\(second)'" : keys[second])
      let sql =
        switch Int.random(in: 0..<(hasNull ? 12 : 9), using: &random) {
        case 0..<3: "INSERT INTO item VALUES (\(id), 'c\(second)', \(step)) ON CONFLICT DO NOTHING"
        case 3, 4: "UPDATE item SET stock = \(step) WHERE id >= \(id)"
        case 5: "DELETE FROM item WHERE id = \(id) OR code = 'c\(second)'"
        case 6: "UPDATE item SET id = \(spare) WHERE id = \(id); UPDATE item SET id = \(id) WHERE id = \(spare)"
        case 7: "INSERT INTO line VALUES (\(id), \(other)) ON CONFLICT DO NOTHING"
        case 8: "DELETE FROM line; INSERT INTO line VALUES (\(id), 'only')"
        case 9: "INSERT INTO item VALUES (NULL, 'n\(second)', \(step)) ON CONFLICT DO NOTHING"
        case 10: "UPDATE item SET stock = \(step) WHERE id IS NULL"
        default: "DELETE FROM item WHERE id IS NULL AND code = 'n\(second)'"
        }
      try mesh.nodes[0].execute(sql)
      if step % 10 == 9 { try Self.bringOn(mesh) }
      if step % 23 == 22 {
        let node = mesh.nodes[Int.random(in: 0..<4, using: &random)]
        try node.stopCapture()
        try node.startCapture()
      }
    }
    for _ in 0..<2 { try Self.bringOn(mesh) }
    try Self.expectEqual(mesh, "seed \(seed), \(keys)")
    #expect(try !mesh.nodes[3].rows(Self.all).isEmpty)
    try mesh.close()
  }
}
