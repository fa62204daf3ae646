import Applying
import Capturing
import Changes
import Foundation
import Mapping
import SQLiteKit
import SystemKit
import TestServers
import Testing
import Trails

/// Copies of tables whose rows may clash in other values than their keys, where both ends write.
@Suite(.enabled(if: PostgresServer.isAvailable, "needs a PostgreSQL server"))
struct CopiedValueTests {
  private static let schema = "CREATE TABLE item(id INTEGER PRIMARY KEY, name TEXT UNIQUE, step INTEGER)"
  private static let all = "SELECT id, name, step FROM item ORDER BY id"

  /// The keys of rows that wait.
  private static func waiting(_ node: Mesh.Node) throws -> [String] {
    try node.rows("SELECT key FROM \(node.isPostgres ? "cairn.candidate" : "cairn_candidate")").map {
      $0.filter(\.isNumber)
    }.sorted()
  }

  private static func told(_ node: Mesh.Node) throws -> [String] {
    try node.rows("SELECT DISTINCT kind FROM \(node.isPostgres ? "cairn.conflict" : "cairn_conflict")")
  }

  @Test(
    "of rows that two nodes copy with one value one stands at both, and the other one comes back",
    arguments: zip(["ss", "sp", "ps", "pp"], [ExistingRows.merge, .overwrite, .merge, .merge]))
  func firstCopies(engines: String, existing: ExistingRows) throws {
    let mesh = try Mesh(
      engines, schema: Self.schema,
      rows: ["INSERT INTO item VALUES (1, 'a', 0)", "INSERT INTO item VALUES (2, 'a', 0), (3, 'b', 0)"])
    mesh.existing = existing
    let nodes = mesh.nodes
    for _ in 0..<2 { try mesh.settle() }
    let rows = try nodes.map { try $0.rows(Self.all) }
    #expect(rows[0] == rows[1])
    #expect([["1|a|0", "3|b|0"], ["2|a|0", "3|b|0"]].contains(rows[0]))
    let winner = rows[0][0].first == "1" ? 1 : 2
    for node in nodes {
      #expect(try Self.waiting(node) == ["\(3 - winner)"], "\(node.name)")
      #expect(try Self.told(node) == ["multiple_unique_conflicts"], "\(node.name)")
    }
    try nodes[0].execute("DELETE FROM item WHERE id = \(winner)")
    for _ in 0..<2 { try mesh.settle() }
    for node in nodes { #expect(try node.rows(Self.all) == ["\(3 - winner)|a|0", "3|b|0"], "\(node.name)") }
    try mesh.close()
  }

  @Test("a row is not taken away before its own copy has it", arguments: ["ps", "sp"])
  func copiedLater(engines: String) throws {
    let mesh = try Mesh(
      engines, schema: Self.schema,
      rows: ["INSERT INTO item VALUES (1, 'a', 0)", "INSERT INTO item VALUES (2, 'a', 0)"], isCaptured: false)
    mesh.existing = .merge
    try mesh.nodes[0].startCapture()
    try mesh.nodes[0].capturePending()
    try mesh.apply(0, to: 1)
    try mesh.nodes[1].startCapture()
    for _ in 0..<2 { try mesh.settle() }
    for node in mesh.nodes {
      #expect(try node.rows(Self.all) == ["2|a|0"], "\(node.name)")
      #expect(try Self.waiting(node) == ["1"], "\(node.name)")
    }
    try mesh.close()
  }

  @Test(
    "a copy asked for takes no row's place unseen, whichever way comes first",
    arguments: zip(["ss", "sp", "ps", "ss"], [false, false, false, true]))
  func askedCopy(engines: String, isBackFirst: Bool) throws {
    let mesh = try Mesh(engines, schema: Self.schema)
    let (a, b) = (mesh.nodes[0], mesh.nodes[1])
    try a.execute("INSERT INTO item VALUES (9, 'z', 0)")
    try mesh.settle()
    try a.execute("INSERT INTO item VALUES (1, 'a', 0)")
    try a.capturePending()
    try b.execute("INSERT INTO item VALUES (2, 'a', 0)")
    try b.capturePending()
    if isBackFirst { try mesh.apply(1, to: 0) }
    try a.askForCopies()
    for _ in 0..<2 { try mesh.settle() }
    let stands = isBackFirst ? 2 : 1
    for node in mesh.nodes {
      #expect(try node.rows(Self.all) == ["\(stands)|a|0", "9|z|0"], "\(node.name)")
      #expect(try Self.waiting(node) == ["\(3 - stands)"], "\(node.name)")
      #expect(try Self.told(node) == ["multiple_unique_conflicts"], "\(node.name)")
    }
    try mesh.close()
  }

  @Test(
    "a row that waits where a copy is read, and is back here, stays after a restart",
    arguments: zip(["ss", "sp", "ps", "ss"], [false, true, true, true]))
  func returnedBeforeRestart(engines: String, restarts: Bool) throws {
    let mesh = try Mesh(engines, schema: Self.schema)
    let (a, b) = (mesh.nodes[0], mesh.nodes[1])
    try a.execute("INSERT INTO item VALUES (1, 'x', 0)")
    try a.capturePending()
    try b.execute("INSERT INTO item VALUES (2, 'x', 0)")
    for _ in 0..<2 { try mesh.settle() }
    for node in mesh.nodes { #expect(try Self.waiting(node) == ["1"], "\(node.name)") }
    try b.execute("DELETE FROM item WHERE id = 2")
    try b.capturePending()
    try mesh.apply(0, to: 1)
    #expect(try b.rows(Self.all) == ["1|x|0"])
    if restarts { try mesh.restart(b) }
    try a.askForCopies()
    try a.capturePending()
    try mesh.apply(0, to: 1)
    #expect(try b.rows(Self.all) == ["1|x|0"])
    for _ in 0..<2 { try mesh.settle() }
    for node in mesh.nodes { #expect(try node.rows(Self.all) == ["1|x|0"], "\(node.name)") }
    try mesh.close()
  }

  @Test("a copy deletes no row that waits where it is read", arguments: Seeds.half(of: ["ss", "sp", "ps", "pp"]))
  func waitsAtSource(engines: String) throws {
    let mesh = try Mesh(engines, schema: Self.schema)
    let (a, b) = (mesh.nodes[0], mesh.nodes[1])
    try a.execute("INSERT INTO item VALUES (4, 'c', 0)")
    try a.capturePending()
    try b.execute("INSERT INTO item VALUES (2, 'c', 0)")
    try b.capturePending()
    try mesh.apply(0, to: 1)
    #expect(try Self.waiting(b) == ["4"])
    try b.askForCopies()
    try b.capturePending()
    // The value is free again, which the author of the copy does not know.
    try a.execute("INSERT INTO item VALUES (2, 'a', 0)")
    try a.capturePending()
    try mesh.apply(1, to: 0)
    #expect(try a.rows(Self.all) == ["2|a|0", "4|c|0"])
    for _ in 0..<2 { try mesh.settle() }
    for node in mesh.nodes {
      #expect(try node.rows(Self.all) == ["2|a|0", "4|c|0"], "\(node.name)")
      #expect(try Self.waiting(node) == [], "\(node.name)")
    }
    try mesh.close()
  }

  @Test(
    "a copy brings a row that waits to a node that never had it",
    arguments: Seeds.half(of: ["sss", "sps", "psp", "ppp"]),
    [false, true])
  func waitsAtNewNode(engines: String, isRequested: Bool) throws {
    let mesh = try Mesh(String(engines.prefix(2)), schema: Self.schema)
    let (a, b) = (mesh.nodes[0], mesh.nodes[1])
    try a.execute("INSERT INTO item VALUES (4, 'c', 7)")
    try a.capturePending()
    try b.execute("INSERT INTO item VALUES (5, 'c', 8), (6, 'd', 9)")
    for _ in 0..<2 { try mesh.settle() }
    for node in mesh.nodes { #expect(try Self.waiting(node) == ["4"], "\(node.name)") }
    // The new trails have what is there, and nothing of what was.
    for node in mesh.nodes {
      node.copiesRows = true
      try mesh.beginAgain(node)
    }
    let c = try mesh.add(engines.last ?? "s")
    for _ in 0..<2 { try mesh.settle() }
    if isRequested {
      try a.askForCopies()
      for _ in 0..<2 { try mesh.settle() }
    }
    #expect(try c.rows(Self.all) == ["5|c|8", "6|d|9"])
    #expect(try Self.waiting(c) == ["4"])
    #expect(try Self.told(c) == ["multiple_unique_conflicts"])
    try c.execute("DELETE FROM item WHERE id = 5")
    for _ in 0..<3 { try mesh.settle() }
    for node in mesh.nodes {
      #expect(try node.rows(Self.all) == ["4|c|7", "6|d|9"], "\(node.name)")
      #expect(try Self.waiting(node) == [], "\(node.name)")
    }
    try mesh.close()
  }

  @Test("a row that waits at the source of requested rows is not deleted", arguments: ["ss", "ps"])
  func waitsAsRequested(engines: String) throws {
    let mesh = try Mesh(engines, schema: Self.schema)
    let (a, b) = (mesh.nodes[0], mesh.nodes[1])
    try a.execute("INSERT INTO item VALUES (4, 'c', 0)")
    try a.capturePending()
    try b.execute("INSERT INTO item VALUES (2, 'c', 0)")
    try b.capturePending()
    try mesh.apply(0, to: 1)
    guard case .sqlite(let path) = b.url else { return }
    try Journal(Database(path: path, mode: .readWrite)).ask(RowRequest(table: "item", keys: [[.integer(4)]]))
    try b.capturePending()
    try a.execute("INSERT INTO item VALUES (2, 'a', 0)")
    try a.capturePending()
    for _ in 0..<2 { try mesh.settle() }
    for node in mesh.nodes { #expect(try node.rows(Self.all) == ["2|a|0", "4|c|0"], "\(node.name)") }
    try mesh.close()
  }

  @Test("the rows that copies bring to wait are bounded, whatever trail they name", arguments: ["ss", "sp"])
  func boundedRows(engines: String) throws {
    let mesh = try Mesh(engines, schema: Self.schema)
    let (a, b) = (mesh.nodes[0], mesh.nodes[1])
    mesh.waitingBytesMax = 100
    mesh.renew(b)
    try b.execute("INSERT INTO item VALUES (101, 'd', 0)")
    try a.execute("INSERT INTO item VALUES (100, 'c', 0)")
    try mesh.settle()
    try Self.forgeWaiting(20, of: "far.away", at: a)
    let error = #expect(throws: CairnError.self) { try mesh.apply(0, to: 1) }
    #expect(error?.code == .constraintFailed && error?.message.contains("would wait for unique values") == true)
    #expect(try Self.waiting(b) == [])
    try mesh.close()
  }

  /// Has a node copy its rows with forged rows that wait, and that name a trail.
  private static func forgeWaiting(_ count: Int, of trail: String, at node: Mesh.Node) throws {
    guard case .sqlite(let path) = node.url else { return }
    let forged = try Database(path: path)
    try forged.execute("BEGIN")
    for id in 1...count {
      try forged.run(
        """
        INSERT INTO cairn_candidate(schema_name, table_name, key, content, clock, origin, number, earlier)
        VALUES ('', 'item', ?, ?, 5, ?, 1, '')
        """, [.text("{\"id\":\(id)}"), .text("{\"id\":\(id),\"name\":\"c\",\"step\":0}"), .text(trail)])
    }
    try forged.execute("COMMIT")
    try node.askForCopies()
    try node.capturePending()
  }

  @Test("copies fill at most half of the room of another trail with rows that wait", arguments: [12, 24])
  func sharedRoom(count: Int) throws {
    let mesh = try Mesh("sss", schema: Self.schema)
    let (a, b, c) = (mesh.nodes[0], mesh.nodes[1], mesh.nodes[2])
    mesh.waitingBytesMax = 1600
    mesh.renew(c)
    try c.execute("INSERT INTO item VALUES (101, 'd', 0)")
    try a.execute("INSERT INTO item VALUES (100, 'c', 0)")
    for _ in 0..<2 { try mesh.settle() }
    // A row is 50 bytes or so: 24 rows fit into the room, but not into half of it.
    try Self.forgeWaiting(count, of: a.trail.description, at: b)
    if count == 12 {
      try mesh.apply(1, to: 2)
      #expect(try Self.waiting(c).count == count)
    } else {
      let error = #expect(throws: CairnError.self) { try mesh.apply(1, to: 2) }
      #expect(error?.code == .constraintFailed && error?.message.contains("copies of other trails") == true)
      #expect(try Self.waiting(c) == [])
    }
    try mesh.close()
  }

  @Test func `a row that never waited, and that the source does not have, goes with a copy after a restart`() throws {
    let mesh = try Mesh("ss", schema: Self.schema)
    let (a, b) = (mesh.nodes[0], mesh.nodes[1])
    try a.execute("INSERT INTO item VALUES (1, 'x', 0)")
    for _ in 0..<2 { try mesh.settle() }
    try b.execute("INSERT INTO item VALUES (2, 'y', 0)")
    try b.capturePending()
    guard case .sqlite(let path) = b.url else { return }
    do {
      let unseen = try Database(path: path)
      unseen.setTriggersEnabled(false)
      try unseen.execute("INSERT INTO item VALUES (7, 'q', 0)")
    }
    try mesh.restart(b)
    try a.askForCopies()
    try a.capturePending()
    try mesh.apply(0, to: 1)
    // The source does not know of row 2 yet; it comes there.
    #expect(try b.rows(Self.all) == ["1|x|0", "2|y|0"])
    for _ in 0..<2 { try mesh.settle() }
    for node in mesh.nodes { #expect(try node.rows(Self.all) == ["1|x|0", "2|y|0"], "\(node.name)") }
    try mesh.close()
  }

  @Test("a copy is not read while an apply writes, and no apply writes while one is read", arguments: ["sp", "ps"])
  func turns(engines: String) throws {
    let mesh = try Mesh(
      engines, schema: "CREATE TABLE item(id INTEGER PRIMARY KEY, name TEXT)",
      rows: ["INSERT INTO item VALUES (1, 'a')", "INSERT INTO item VALUES (2, 'b')"])
    try mesh.settle()
    let node = mesh.nodes[0]
    let before = try Trail.info(folder: node.folder).lastTransaction
    #expect(node.link.turns.tryLock(.writer))
    try node.askForCopies()
    Clock.sleep(milliseconds: 400)
    #expect(try !Self.hasChunk(node, behind: before))
    node.link.turns.unlock(.writer)
    let limit = Clock.monotonicMilliseconds + 20_000
    while try !Self.hasChunk(node, behind: before), Clock.monotonicMilliseconds < limit {
      Clock.sleep(milliseconds: 20)
    }
    #expect(try Self.hasChunk(node, behind: before))
    try node.capturePending()
    if case .sqlite(let path) = node.url {
      let copied = try Trail.info(folder: node.folder).lastTransaction
      while !node.link.turns.tryLock(.writer) { Clock.sleep(milliseconds: 1) }
      try Journal(Database(path: path, mode: .readWrite)).ask(RowRequest(table: "item", keys: [[.integer(1)]]))
      Clock.sleep(milliseconds: 400)
      #expect(try !Self.hasChunk(node, behind: copied))
      node.link.turns.unlock(.writer)
      let limit = Clock.monotonicMilliseconds + 20_000
      while try !Self.hasChunk(node, behind: copied), Clock.monotonicMilliseconds < limit {
        Clock.sleep(milliseconds: 20)
      }
      #expect(try Self.hasChunk(node, behind: copied))
    }

    try mesh.nodes[1].execute("UPDATE item SET name = 'c' WHERE id = 2")
    try mesh.nodes[1].capturePending()
    while !node.link.turns.tryLock(.reader) { Clock.sleep(milliseconds: 1) }
    let thread = try WorkerThread<String?> { [mesh = Unchecked(mesh)] in
      do {
        try mesh.value.apply(1, to: 0)
        return nil
      } catch { return "\(error)" }
    }
    Clock.sleep(milliseconds: 400)
    #expect(try node.rows("SELECT name FROM item WHERE id = 2") == ["b"])
    node.link.turns.unlock(.reader)
    #expect(thread.join() == .some(nil))
    #expect(try node.rows("SELECT name FROM item WHERE id = 2") == ["c"])
    try mesh.close()
  }

  private struct Unchecked<Value>: @unchecked Sendable {
    let value: Value
    init(_ value: Value) { self.value = value }
  }

  /// Whether the trail of a node has a chunk of a copy after a transaction.
  private static func hasChunk(_ node: Mesh.Node, behind number: UInt64) throws -> Bool {
    let reader = try TrailReader.open(folder: node.folder, at: nil)
    var isBehind = false
    while let record = try reader.next() {
      switch record {
      case .begin(let header): isBehind = header.number > number
      case .refresh(let refresh):
        if isBehind, case .chunk = refresh.event { return true }
      default: break
      }
    }
    return false
  }

  @Test(
    "random copies of rows that would have one unique value converge",
    arguments: Seeds.drawn(reduced: [1, 2, 3, 774083, 774131]))
  func random(seed: UInt64) throws { try converge(seed, Self.schema) }

  @Test(
    "random copies at both ends of rows that have no other unique value converge",
    arguments: Seeds.drawn(reduced: [1, 2, 3, 774083]))
  func randomPlain(seed: UInt64) throws {
    try converge(seed, "CREATE TABLE item(id INTEGER PRIMARY KEY, name TEXT, step INTEGER)")
  }

  @Test(
    "random copies at three nodes of rows that would have one unique value converge",
    arguments: MeshConvergenceTests.fewSeeds)
  func randomThree(seed: UInt64) throws { try converge(seed, Self.schema, nodes: 3) }

  @Test(
    "random copies of rows whose keys look alike, and that would have one unique value, converge",
    arguments: KeyPool.seeds, [2, 3])
  func randomTexts(seed: UInt64, nodes: Int) throws {
    let schema = "CREATE TABLE item(id \(KeyPool.texts.type) PRIMARY KEY, name TEXT UNIQUE, step INTEGER)"
    try converge(seed, schema, nodes: nodes, keys: KeyPool(.texts, seed: seed))
  }

  /// The key of a waiting row without the marks by which SQLite and PostgreSQL note its type differently.
  private static func keyText(_ json: String) -> String {
    json.replacing(/\{"exact": ?("[^"]*")\}/) { $0.output.1 }.filter { $0 != " " && $0 != "\"" }
  }

  private func converge(_ seed: UInt64, _ schema: String, nodes count: Int = 2, keys: KeyPool = .numbers) throws {
    var random = Seeded(seed)
    func name() -> String { "'\("abc".randomElement(using: &random) ?? "a")'" }
    let first = (0..<count).map { _ in
      "INSERT INTO item VALUES (\(keys[Int.random(in: 1...2, using: &random)]), \(name()), -1), (\(keys[3]), 'd', -2)"
    }
    let engines = count == 2 ? ["sp", "ss", "pp", "ps"] : ["sps", "sss", "ppp", "pss"]
    let mesh = try Mesh(engines[Int(seed % 4)], schema: schema, rows: first)
    if seed / 4 % 2 == 1 { mesh.existing = .merge }
    if seed / 8 % 2 == 1 { mesh.commitRows = 1 }
    for step in 0..<18 * count {
      let node = mesh.nodes.indices.randomElement(using: &random) ?? 0
      let (id, name) = (keys[Int.random(in: 1...4, using: &random)], name())
      switch Int.random(in: 0..<9, using: &random) {
      case 0, 1, 2:
        try mesh.nodes[node].execute("INSERT INTO item VALUES (\(id), \(name), \(step)) ON CONFLICT DO NOTHING")
      case 3: try mesh.nodes[node].execute("DELETE FROM item WHERE id = \(id)")
      case 4:
        try mesh.nodes[node].execute(
          """
          UPDATE item SET name = \(name), step = \(step)
          WHERE id = \(id) AND NOT EXISTS (SELECT 1 FROM item AS other WHERE other.name = \(name))
          """)
      case 5:
        // The copy is read while all else goes on.
        try mesh.nodes[node].askForCopies()
      default:
        let others = mesh.nodes.indices.filter { $0 != node }
        let from = others.count == 1 ? others[0] : others.randomElement(using: &random) ?? 0
        try mesh.apply(from, to: node)
      }
    }
    for _ in 0..<count { try mesh.settle() }
    let rows = try mesh.nodes.map { try KeyPool.plain($0.rows(Self.all)) }
    let waiting = try mesh.nodes.map { node in
      try KeyPool.plain(
        node.rows("SELECT CAST(key AS text) FROM \(node.isPostgres ? "cairn.candidate" : "cairn_candidate")")
      ).map(Self.keyText).sorted()
    }
    for (found, left) in zip(rows, waiting).dropFirst() {
      #expect(found == rows[0], "seed \(seed), \(keys)")
      #expect(left == waiting[0], "seed \(seed), \(keys)")
    }
    try mesh.close()
  }
}
