import Applying
import Changes
import Mapping
import TestServers
import Testing

/// A peer's acts in its own database say nothing of tables that its trail may not write, nor of changes that were not
/// made here.
@Suite(.enabled(if: PostgresServer.isAvailable, "needs a PostgreSQL server"))
struct PeerReachTests {
  private static let columns = "(id INTEGER PRIMARY KEY, price INTEGER, cost INTEGER)"

  /// Returns a hub, a peer, and a second peer whose trail is mostly not taken.
  private static func mesh(_ engines: String, _ policy: DDLPolicy?, tables: [String] = ["*"]) throws -> Mesh {
    let mesh = try Mesh(engines, schema: "CREATE TABLE item\(columns); CREATE TABLE vault\(columns)")
    let hub = mesh.nodes[0]
    (hub.scopes["n2"], hub.policies["n2"]) = (TargetScope(tables), policy)
    mesh.renew(hub)
    for node in mesh.nodes where node.isPostgres {
      for table in ["item", "vault"] { try node.execute("ALTER TABLE \(table) REPLICA IDENTITY FULL") }
    }
    for table in ["item", "vault"] { try hub.execute("INSERT INTO \(table) VALUES (1, 1, 2), (2, 3, 4)") }
    for _ in 0..<2 { try mesh.settle() }
    return mesh
  }

  private static func write(_ node: Mesh.Node, _ sql: String) throws {
    try node.execute(sql)
    try node.capturePending()
  }

  /// Applies the trail of the peer whose trail is mostly not taken; returns why its table waits.
  private static func applyLast(_ mesh: Mesh) throws -> CairnError? {
    do { try mesh.apply(2, to: 0) } catch let error as CairnError where error.code == .schemaStopped { return error }
    return nil
  }

  @Test(
    "a peer's row of a table that its trail may not write is no version of it after a start",
    arguments: Seeds.half(of: ["sss", "spp", "ppp"]))
  func leftOut(engines: String) throws {
    let mesh = try Self.mesh(engines, nil, tables: ["item"])
    let (hub, good, bad) = (mesh.nodes[0], mesh.nodes[1], mesh.nodes[2])
    try Self.write(good, "UPDATE vault SET price = 500, cost = 600 WHERE id = 1")
    try Self.write(bad, "UPDATE vault SET price = 666, cost = 666 WHERE id = 1")
    try Self.write(bad, "UPDATE item SET price = 7 WHERE id = 1")
    try mesh.apply(2, to: 0)
    mesh.renew(hub)
    #expect(try mesh.apply(1, to: 0) == 0)
    try #expect(hub.rows("SELECT * FROM vault WHERE id = 1") == ["1|500|600"])
    try #expect(hub.rows("SELECT * FROM item WHERE id = 1") == ["1|7|2"])
    try mesh.close()
  }

  /// How the foreign key from the peer's table to a table outside its list is known.
  enum Reference: CaseIterable { case claimed, listed, own }

  @Test(
    "a peer's reference to a table that its trail may not write keeps no row there, unless the hub has that reference",
    arguments: ["sss", "ppp"], Reference.allCases)
  func claimedReference(engines: String, reference: Reference) throws {
    for isDeletedFirst in [true, false] {
      let column = "v INTEGER REFERENCES vault(id)"
      let mesh = try Mesh(
        engines,
        schema:
          "CREATE TABLE vault\(Self.columns); CREATE TABLE item\(reference == .own ? "(id INTEGER PRIMARY KEY, price INTEGER, cost INTEGER, \(column))" : Self.columns)"
      )
      let (hub, good, bad) = (mesh.nodes[0], mesh.nodes[1], mesh.nodes[2])
      hub.scopes["n2"] = TargetScope(reference == .listed ? ["*"] : ["item"])
      mesh.renew(hub)
      for node in mesh.nodes where node.isPostgres {
        for table in ["item", "vault"] { try node.execute("ALTER TABLE \(table) REPLICA IDENTITY FULL") }
      }
      try hub.execute("INSERT INTO vault VALUES (1, 1, 2), (2, 3, 4)")
      for _ in 0..<2 { try mesh.settle() }
      // The hub adds the column, with the reference only if the trail may write both tables.
      hub.policies["n2"] = .follow
      if reference != .own { try Self.write(bad, "ALTER TABLE item ADD COLUMN \(column)") }
      try Self.write(bad, "INSERT INTO item(id, price, cost, v) VALUES (9, 1, 1, 1)")
      try Self.write(good, "DELETE FROM vault WHERE id = 1")
      for from in isDeletedFirst ? [1, 2] : [2, 1] { try mesh.apply(from, to: 0) }
      try #expect(hub.rows("SELECT price FROM item WHERE id = 9") == ["1"])
      let wanted = reference == .claimed ? [] : ["1|1|2"]
      try #expect(hub.rows("SELECT * FROM vault WHERE id = 1") == wanted, "\(isDeletedFirst)")
      try mesh.close()
    }
  }

  @Test func `a table whose name differs only in case settles no row of another table`() throws {
    let mesh = try Mesh("pp", schema: "CREATE TABLE item\(Self.columns); ALTER TABLE item REPLICA IDENTITY FULL")
    let (a, b) = (mesh.nodes[0], mesh.nodes[1])
    try a.execute("INSERT INTO item VALUES (1, 1, 2)")
    for _ in 0..<2 { try mesh.settle() }
    try Self.write(b, "UPDATE item SET price = 7 WHERE id = 1")
    try Self.write(a, "CREATE TABLE \"ITEM\"\(Self.columns); INSERT INTO \"ITEM\" VALUES (1, 666, 666)")
    try Self.write(a, "UPDATE \"ITEM\" SET price = 667")
    #expect(try mesh.apply(1, to: 0) == 0)
    for _ in 0..<2 { try mesh.settle() }
    for node in mesh.nodes { try #expect(node.rows("SELECT * FROM item") == ["1|7|2"], "\(node.name)") }
    try #expect(a.rows("SELECT * FROM \"ITEM\"") == ["1|667|666"])
    try #expect(b.rows("SELECT count(*) FROM pg_class WHERE relname = 'ITEM'") == ["0"])
    try mesh.close()
  }

  @Test(
    "a peer's row of a table that its trail may not write is no version of it under another spelling either",
    arguments: ["ssp", "ppp"])
  func leftOutSpelling(engines: String) throws {
    let mesh = try Self.mesh(engines, nil, tables: ["*", "!vault"])
    let (hub, good, bad) = (mesh.nodes[0], mesh.nodes[1], mesh.nodes[2])
    try Self.write(bad, "ALTER TABLE vault RENAME TO \"VAULT\"")
    try Self.write(good, "UPDATE vault SET price = 500, cost = 600 WHERE id = 1")
    try Self.write(bad, "UPDATE \"VAULT\" SET price = 666, cost = 666 WHERE id = 1")
    try Self.write(bad, "UPDATE item SET price = 7 WHERE id = 1")
    try mesh.apply(2, to: 0)
    mesh.renew(hub)
    #expect(try mesh.apply(1, to: 0) == 0)
    try #expect(hub.rows("SELECT * FROM vault WHERE id = 1") == ["1|500|600"])
    try #expect(hub.rows("SELECT * FROM item WHERE id = 1") == ["1|7|2"])
    try mesh.close()
  }

  /// A capture for one direction takes both tables. So did captures of earlier versions for both directions.
  @Test(
    "rows of two tables whose names differ only in case stay apart, also if their node captured both before",
    arguments: Seeds.half(of: ["ssp", "spp", "psp", "ppp"]), [false, true])
  func capturedBefore(engines: String, isRenewed: Bool) throws {
    let mesh = try Self.mesh(engines, nil)
    let (hub, good, node) = (mesh.nodes[0], mesh.nodes[1], mesh.nodes[2])
    var errors: [String] = []
    func apply(_ from: Int, to: Int) throws {
      do { #expect(try mesh.apply(from, to: to) == 0, "\(from) -> \(to)") } catch let error as CairnError {
        errors.append("\(from) -> \(to): \(error)")
        // The node's second table may be refused; all others go on.
        #expect(from == 2 && error.message.contains("ITEM"), "\(error)")
      }
    }
    try mesh.restart(node, goesBothWays: false)
    try Self.write(node, "CREATE TABLE \"ITEM\"\(Self.columns)")
    try Self.write(node, "INSERT INTO \"ITEM\" VALUES (1, 666, 666), (2, 666, 666)")
    try apply(2, to: 0)
    // Each of these rows is written at the node, too, in the other table.
    try Self.write(hub, "UPDATE item SET price = 7 WHERE id = 1")
    try Self.write(good, "UPDATE item SET price = 8 WHERE id = 2")
    try Self.write(node, "UPDATE \"ITEM\" SET price = 667")
    try mesh.restart(node, goesBothWays: true)
    for (from, to) in [(2, 0), (1, 0), (0, 2), (1, 2), (0, 1), (2, 1)] { try apply(from, to: to) }
    for node in mesh.nodes {
      try #expect(
        node.rows("SELECT * FROM item ORDER BY id") == ["1|7|2", "2|8|4"], "\(node.name): \(errors); \(mesh.notices)")
    }
    if isRenewed { for node in mesh.nodes { mesh.renew(node) } }
    try Self.write(node, "UPDATE \"ITEM\" SET cost = 668")
    try Self.write(node, "UPDATE vault SET cost = 9 WHERE id = 1")
    try Self.write(hub, "UPDATE item SET cost = 10 WHERE id = 2")
    try Self.write(good, "UPDATE item SET cost = 11 WHERE id = 1")
    for (from, to) in [(1, 0), (1, 2), (2, 0), (0, 2), (0, 1), (2, 1)] { try apply(from, to: to) }
    for node in mesh.nodes {
      let shown = "\(node.name): \(errors); \(mesh.notices)"
      try #expect(node.rows("SELECT * FROM item ORDER BY id") == ["1|7|11", "2|8|10"], "\(shown)")
      try #expect(node.rows("SELECT * FROM vault WHERE id = 1") == ["1|1|9"], "\(shown)")
    }
    try #expect(node.rows("SELECT * FROM \"ITEM\" ORDER BY id") == ["1|667|668", "2|667|668"])
    try mesh.close()
  }

  @Test(
    "rows of two tables stay apart when a peer gives the one the name of the other, which is refused",
    arguments: ["sss", "ppp"], [false, true])
  func refusedName(engines: String, isRenewed: Bool) throws {
    for policy in [DDLPolicy.ignore, .stop, .follow] {
      let mesh = try Self.mesh(engines, policy)
      let (hub, good, bad) = (mesh.nodes[0], mesh.nodes[1], mesh.nodes[2])
      // The table's name is taken here, so that no policy makes the change.
      try Self.write(hub, "CREATE TABLE gone\(Self.columns)")
      try Self.write(bad, "ALTER TABLE item RENAME TO gone")
      try Self.write(bad, "UPDATE gone SET cost = 8 WHERE id = 2")
      try Self.write(bad, "ALTER TABLE vault RENAME TO item")
      try Self.write(bad, "UPDATE item SET cost = 8 WHERE id = 2")
      #expect(try Self.applyLast(mesh) != nil, "\(policy)")
      if isRenewed { mesh.renew(hub) }
      try Self.write(good, "UPDATE vault SET price = 500, cost = 600 WHERE id = 1")
      try Self.write(hub, "UPDATE item SET price = 111, cost = 222 WHERE id = 1")
      if isRenewed { mesh.renew(hub) }
      #expect(try mesh.apply(1, to: 0) == 0, "\(policy)")
      try #expect(hub.rows("SELECT * FROM vault WHERE id = 1") == ["1|500|600"], "\(policy)")
      try #expect(hub.rows("SELECT * FROM item WHERE id = 1") == ["1|111|222"], "\(policy)")
      try mesh.close()
    }
  }

  @Test(
    "rows of two tables stay apart when a peer renames tables to both that the hub has not",
    arguments: ["sss", "ppp"], [false, true])
  func borrowedName(engines: String, isRenewed: Bool) throws {
    for policy in [DDLPolicy.ignore, .stop] {
      let mesh = try Self.mesh(engines, policy)
      let (hub, good, bad) = (mesh.nodes[0], mesh.nodes[1], mesh.nodes[2])
      for (table, aside) in [("item", "a"), ("vault", "b")] {
        try Self.write(bad, "ALTER TABLE \(table) RENAME TO \(aside)")
        try Self.write(bad, "CREATE TABLE r\(Self.columns)")
        try Self.write(bad, "INSERT INTO r VALUES (1, 8, 8)")
        try Self.write(bad, "ALTER TABLE r RENAME TO \(table)")
        try Self.write(bad, "UPDATE \(table) SET cost = 9 WHERE id = 1")
        _ = try Self.applyLast(mesh)
      }
      if isRenewed { mesh.renew(hub) }
      try Self.write(good, "UPDATE vault SET price = 500, cost = 600 WHERE id = 2")
      try Self.write(hub, "UPDATE item SET price = 111, cost = 222 WHERE id = 2")
      if isRenewed { mesh.renew(hub) }
      #expect(try mesh.apply(1, to: 0) == 0, "\(policy)")
      try #expect(hub.rows("SELECT * FROM vault WHERE id = 2") == ["2|500|600"], "\(policy)")
      // The peer may write `item`. In a trail of SQLite its new table is one that is copied, in the place of the one that
      // waits.
      let isCopied = policy == .stop && !bad.isPostgres
      try #expect(
        hub.rows("SELECT * FROM item WHERE id = 2") == (isCopied ? [] : ["2|111|222"]), "\(policy)")
      try mesh.close()
    }
  }

  @Test(
    "columns whose names a peer swaps stay as they are, and its table waits",
    arguments: Seeds.half(of: ["sss", "sps", "spp", "ppp"]), [false, true])
  func swapped(engines: String, isRenewed: Bool) throws {
    for policy in [DDLPolicy.ignore, .stop, nil] {
      let mesh = try Self.mesh(engines, policy)
      let (hub, good, bad) = (mesh.nodes[0], mesh.nodes[1], mesh.nodes[2])
      try Self.write(good, "UPDATE item SET price = 11, cost = 21 WHERE id = 1")
      try Self.write(
        bad,
        """
        BEGIN; ALTER TABLE item RENAME COLUMN price TO x; ALTER TABLE item RENAME COLUMN cost TO price;
        ALTER TABLE item RENAME COLUMN x TO cost; COMMIT
        """)
      try Self.write(bad, "UPDATE item SET cost = 8 WHERE id = 2")
      let error = try Self.applyLast(mesh)
      let shown = "\(policy.map { "\($0)" } ?? "unset"): \(error?.hint ?? "")"
      #expect(error != nil, "\(shown)")
      // A capture of PostgreSQL reports each rename by itself, and the first is refused.
      if !bad.isPostgres { #expect(error?.hint.contains("cairn copy") == true, "\(shown)") }
      if isRenewed { mesh.renew(hub) }
      try mesh.apply(1, to: 0)
      try Self.write(good, "UPDATE item SET price = 12 WHERE id = 1")
      try mesh.apply(1, to: 0)
      try #expect(hub.rows("SELECT * FROM item ORDER BY id") == ["1|12|21", "2|3|4"])
      try mesh.close()
    }
  }

  @Test(
    "random writes converge while a peer renames the table and others start again",
    arguments: KeyPool.runs(MeshConvergenceTests.fewSeeds))
  func renamed(run: KeyPool.Run) throws {
    let (seed, keys) = (run.seed, run.keys)
    var random = Seeded(seed)
    let engines = ["sss", "ssp", "psp", "pps"][Int(seed % 4)]
    let mesh = try Mesh(engines, schema: keys.table("item", "price INTEGER, cost INTEGER"))
    mesh.ddl = .follow
    for node in mesh.nodes where node.isPostgres { try node.execute("ALTER TABLE item REPLICA IDENTITY FULL") }
    try mesh.nodes[0].execute(
      "INSERT INTO item VALUES (\(keys[1]), 1, 2), (\(keys[2]), 3, 4), (\(keys[5]), 0, 0)")
    for _ in 0..<2 { try mesh.settle() }
    var tables = ["item", "item", "item"]
    for step in 0..<40 {
      let node = Int.random(in: 0...2, using: &random)
      let id = Int.random(in: 1...4, using: &random)
      switch Int.random(in: 0..<12, using: &random) {
      case 0:
        try mesh.nodes[1].execute("ALTER TABLE \(tables[1]) RENAME TO t\(step)")
        tables[1] = "t\(step)"
        // Capture that has this row has seen the change.
        try Self.write(mesh.nodes[1], "UPDATE \(tables[1]) SET cost = cost WHERE \(keys.has(5))")
      case 1, 2:
        try Self.write(
          mesh.nodes[node],
          "INSERT INTO \(tables[node]) VALUES (\(keys[id]), \(step), \(step)) ON CONFLICT DO NOTHING")
      case 3: try Self.write(mesh.nodes[node], "DELETE FROM \(tables[node]) WHERE \(keys.has(id))")
      case 4, 5, 6:
        try Self.write(mesh.nodes[node], "UPDATE \(tables[node]) SET cost = \(step) WHERE \(keys.has(id))")
      case 7: mesh.renew(mesh.nodes[node])
      default:
        let from = (node + Int.random(in: 1...2, using: &random)) % 3
        do { try mesh.apply(from, to: node) } catch let error as CairnError where error.code == .schemaStopped {}
        try mesh.nodes[node].capturePending()
        if node != 1, (try? mesh.nodes[node].rows("SELECT 1 FROM \(tables[1])")) != nil { tables[node] = tables[1] }
      }
    }
    for _ in 0..<3 {
      for node in mesh.nodes { try node.capturePending() }
      for (from, to) in [(1, 0), (1, 2), (0, 1), (0, 2), (2, 0), (2, 1)] {
        do { try mesh.apply(from, to: to) } catch let error as CairnError where error.code == .schemaStopped {}
      }
    }
    try mesh.settle()
    let rows = try mesh.nodes.map { try KeyPool.plain($0.rows("SELECT * FROM \(tables[1])")) }
    #expect(rows[0] == rows[1] && rows[2] == rows[1], "seed \(seed), \(keys)")
    try mesh.close()
  }
}
