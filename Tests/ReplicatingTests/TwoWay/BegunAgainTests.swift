import Changes
import Conflicts
import Foundation
import TestServers
import Testing
import Trails

/// A trail that is begun again under its name, as after the loss of a node's state. Numbers count from 1 again, and the
/// knowledge of other nodes about the old trail says nothing of the new one.
@Suite(.enabled(if: PostgresServer.isAvailable, "needs a PostgreSQL server"))
struct BegunAgainTests {
  private func mesh(
    _ engines: String, _ rules: ConflictRules = ConflictRules(), _ keys: KeyPool = .numbers
  ) throws -> Mesh {
    let mesh = try Mesh(engines, schema: keys.table("item", "name TEXT, stock INTEGER")) { _, _, _ in keys.rules(rules)
    }
    for node in mesh.nodes where node.isPostgres { try node.execute("ALTER TABLE item REPLICA IDENTITY FULL") }
    return mesh
  }

  /// Has a trail count further than the new one will.
  private func count(_ mesh: Mesh, _ node: Int) throws {
    for id in 1...8 {
      try mesh.nodes[node].execute("INSERT INTO item VALUES (\(id), 'old', 100)")
      try mesh.nodes[node].capturePending()
    }
    for _ in 0..<2 { try mesh.settle() }
  }

  /// Clocks of SQLite's commits are those of its capture.
  private func write(_ mesh: Mesh, _ node: Int, _ sql: String) throws {
    usleep(3000)
    try mesh.nodes[node].execute(sql)
    try mesh.nodes[node].capturePending()
  }

  private func expect(_ mesh: Mesh, _ row: String, _ sql: String = "SELECT name, stock FROM item WHERE id = 1") throws {
    for _ in 0..<2 { try mesh.settle() }
    for node in mesh.nodes {
      let rows = try node.rows(sql)
      #expect(rows == [row], "\(node.name)")
    }
  }

  @Test(
    "what a peer knew of the old trail does not count for the new one",
    arguments: Seeds.half(of: ["ss", "sp", "ps", "pp"]),
    [true, false])
  func laterWrite(engines: String, isKnown: Bool) throws {
    let mesh = try mesh(engines)
    try count(mesh, 0)
    try mesh.beginAgain(mesh.nodes[0], isKnown: isKnown)
    try write(mesh, 1, "UPDATE item SET name = 'n1' WHERE id = 1")
    try write(mesh, 0, "UPDATE item SET name = 'n0' WHERE id = 1")
    try expect(mesh, "n0|100")
    // The next write follows, and is no conflict.
    try write(mesh, 1, "UPDATE item SET name = 'next' WHERE id = 1")
    try #expect(mesh.apply(1, to: 0) == 0)
    try mesh.close()
  }

  @Test(
    "sums count what each node added since a trail was begun again",
    arguments: Seeds.half(of: ["ss", "sp", "ps", "pp"]))
  func sums(engines: String) throws {
    let mesh = try mesh(engines, ConflictRules(columns: [2: .delta]))
    try count(mesh, 0)
    try mesh.beginAgain(mesh.nodes[0])
    try write(mesh, 0, "UPDATE item SET stock = stock + 5 WHERE id = 1")
    try write(mesh, 1, "UPDATE item SET stock = stock + 20 WHERE id = 1")
    try expect(mesh, "old|125")
    try mesh.close()
  }

  @Test(
    "of three nodes, one hears of the new trail from a peer first", arguments: Seeds.half(of: ["sss", "sps", "psp"]))
  func heardOf(engines: String) throws {
    let mesh = try mesh(engines)
    try count(mesh, 0)
    try mesh.beginAgain(mesh.nodes[0])
    try write(mesh, 0, "UPDATE item SET name = 'n0' WHERE id = 1")
    try mesh.apply(0, to: 1)
    // It follows what n0 wrote, which n2 has not heard of.
    try write(mesh, 1, "UPDATE item SET name = 'n1' WHERE id = 1")
    try write(mesh, 2, "UPDATE item SET name = 'n2' WHERE id = 1")
    try mesh.apply(1, to: 2)
    try expect(mesh, "n2|100")
    try mesh.close()
  }

  @Test("a peer that knows more of a trail than there is of it is not believed", arguments: ["ss", "ps"])
  func knownTooMuch(engines: String) throws {
    let mesh = try mesh(engines)
    try count(mesh, 0)
    let (node, files) = (mesh.nodes[0], FileManager.default)
    try node.stopCapture()
    try files.copyItem(atPath: node.folder, toPath: node.folder + ".before")
    try node.startCapture()
    try write(mesh, 0, "UPDATE item SET name = 'n0' WHERE id = 1")
    try mesh.apply(0, to: 1)
    try write(mesh, 1, "UPDATE item SET name = 'n1' WHERE id = 1")
    // As after a state folder was restored; to a peer that lies, it looks the same.
    try node.stopCapture()
    try files.removeItem(atPath: node.folder)
    try files.moveItem(atPath: node.folder + ".before", toPath: node.folder)
    mesh.renew(node)
    let error = #expect(throws: CairnError.self) { try mesh.apply(1, to: 0) }
    #expect(error?.code == .trailForked && error?.message.contains("trail n0.shop, which ends here with") == true)
    let rows = try node.rows("SELECT name FROM item WHERE id = 1")
    #expect(rows == ["n0"])
    try mesh.close()
  }

  @Test("a node that claims to know what others are still to write replaces none of it", arguments: ["sss", "psp"])
  func knownAhead(engines: String) throws {
    let mesh = try mesh(engines)
    try count(mesh, 0)
    let (victim, liar, other) = (mesh.nodes[0], mesh.nodes[1], mesh.nodes[2])
    let id = try Trail.info(folder: victim.folder).id
    // A program that may write to the file writes a note as apply does.
    try liar.execute(
      "INSERT INTO cairn_journal(code, v0) VALUES (1, '3 \(victim.trail) 4000000000 1 00000001:00000000 \(id)')")
    try write(mesh, 1, "UPDATE item SET name = 'lie' WHERE id IN (1, 2)")
    try mesh.apply(1, to: 2)
    for round in 1...3 {
      try write(mesh, 0, "UPDATE item SET name = 'late \(round)' WHERE id = 1")
      try mesh.apply(0, to: 2)
      let rows = try other.rows("SELECT name FROM item WHERE id = 1")
      #expect(rows == ["late \(round)"])
    }
    // After a start, and in another order, it comes to the same.
    mesh.renew(other)
    try write(mesh, 1, "UPDATE item SET name = 'lie' WHERE id = 3")
    try write(mesh, 0, "UPDATE item SET name = 'late' WHERE id IN (2, 3)")
    try mesh.apply(0, to: 2)
    // By now every node knows these versions, if the lie counts.
    try other.capturePending()
    try write(mesh, 0, "UPDATE item SET stock = 1 WHERE id = 8")
    try mesh.apply(0, to: 2)
    try mesh.apply(1, to: 2)
    let rows = try other.rows("SELECT name FROM item WHERE id IN (1, 2, 3) ORDER BY id")
    #expect(rows == ["late 3", "late", "late"])
    try mesh.close()
  }

  @Test(
    "random writes converge while trails are begun again",
    arguments: KeyPool.runs(MeshConvergenceTests.fewSeeds))
  func random(run: KeyPool.Run) throws {
    let (seed, keys) = (run.seed, run.keys)
    var random = Seeded(seed)
    let rules = [ConflictRules(), ConflictRules(rule: .oldest), ConflictRules(columns: [2: .delta])][Int(seed / 3 % 3)]
    let mesh = try mesh(["sss", "spp", "ssp"][Int(seed % 3)], rules, keys)
    if seed % 2 == 1 { mesh.commitRows = 1 }
    for round in 0..<4 {
      for step in 0..<15 {
        let node = mesh.nodes.indices.randomElement(using: &random) ?? 0
        let (id, text) = (Int.random(in: 1...3, using: &random), "'n\(node) \(round) \(step)'")
        switch Int.random(in: 0..<9, using: &random) {
        case 0, 1:
          try mesh.nodes[node].execute(
            "INSERT INTO item VALUES (\(keys[id]), \(text), 0) ON CONFLICT (\(keys.names)) DO NOTHING")
        case 2: try mesh.nodes[node].execute("DELETE FROM item WHERE \(keys.has(id))")
        case 3, 4: try mesh.nodes[node].execute("UPDATE item SET name = \(text) WHERE \(keys.has(id))")
        case 5: try mesh.nodes[node].execute("UPDATE item SET stock = stock + \(step) WHERE \(keys.has(id))")
        default:
          let from = mesh.nodes.indices.filter { $0 != node }.randomElement(using: &random) ?? 0
          try mesh.apply(from, to: node)
        }
      }
      for _ in 0..<2 { try mesh.settle() }
      let rows = try mesh.nodes.map { try KeyPool.plain($0.rows("SELECT * FROM item")) }
      #expect(rows[1] == rows[0], "seed \(seed), \(keys), round \(round)")
      #expect(rows[2] == rows[0], "seed \(seed), \(keys), round \(round)")
      if let node = mesh.nodes.randomElement(using: &random), round < 3 {
        try mesh.beginAgain(node, isKnown: Bool.random(using: &random))
      }
    }
    try mesh.close()
  }
}
