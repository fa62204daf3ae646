import Changes
import TestServers
import Testing
import Trails

/// Chains in one direction whose nodes have clocks that differ, by as much as `max_clock_skew` lets in and more.
@Suite(.enabled(if: PostgresServer.isAvailable, "needs a PostgreSQL server"), .timeLimit(.minutes(20)))
struct SkewedRelayTests {
  /// The clocks of the transactions in a trail, in its order.
  private static func clocks(_ node: Mesh.Node) throws -> [UInt64] {
    let reader = try TrailReader.open(folder: node.folder, at: nil)
    var clocks: [UInt64] = []
    while let item = try reader.next() { if case .begin(let header) = item { clocks.append(header.clock) } }
    return clocks
  }

  @Test(
    arguments: Seeds.half(of: ["sss", "psp", "sps", "ppp"]),
    [[-7200, 50, 0], [50, -7200, 0], [55, 0, -7200], [-50, -100, 50]])
  func `rows arrive in the order of their writes, whatever the clocks are`(engines: String, skews: [Int64]) throws {
    let mesh = try CascadeTests.chain(engines)
    var random = Seeded(UInt64(abs(skews[0])) &+ UInt64(engines.utf8.count))
    try mesh.nodes[0].execute("INSERT INTO item VALUES (1, 'a', 0), (2, 'b', 0), (3, 'c', 0)")
    try CascadeTests.bringOn(mesh)
    for round in 0..<4 {
      for (node, skew) in zip(mesh.nodes, skews) {
        // In each second round the clock is set back to what it should be.
        try mesh.restart(node, clockAhead: round % 2 == 0 ? skew : 0)
      }
      for step in 1...6 {
        let id = Int.random(in: 1...3, using: &random)
        let value = round * 100 + step
        switch Int.random(in: 0..<4, using: &random) {
        case 0:
          try mesh.nodes[0].execute("DELETE FROM item WHERE id = \(id)")
          try mesh.nodes[0].execute("INSERT INTO item VALUES (\(id), 'n\(value)', \(value))")
        case 1: try mesh.nodes[0].execute("INSERT INTO line VALUES (\(value), 'x')")
        default: try mesh.nodes[0].execute("UPDATE item SET stock = \(value) WHERE id = \(id)")
        }
        // An application in the middle has rows of its own.
        if step == 3 { try mesh.nodes[1].execute("INSERT INTO item VALUES (\(1000 + value), 'own\(value)', 1)") }
        if step == 5 { try mesh.nodes[1].execute("UPDATE item SET stock = \(value) WHERE id > 1000") }
        if step % 2 == 0 { try CascadeTests.bringOn(mesh) }
      }
    }
    for _ in 0..<2 { try CascadeTests.bringOn(mesh) }
    let query = "SELECT id, code, stock FROM item WHERE id < 1000 ORDER BY id"
    let wanted = try mesh.nodes[0].rows(query)
    for node in mesh.nodes { #expect(try node.rows(query) == wanted, "\(node.name)") }
    let own = "SELECT id, code, stock FROM item WHERE id > 1000 ORDER BY id"
    #expect(try mesh.nodes[2].rows(own) == mesh.nodes[1].rows(own))
    #expect(try mesh.nodes[1].rows(own).count == 4)
    let lines = try mesh.nodes[0].rows(CascadeTests.lines)
    for node in mesh.nodes { #expect(try node.rows(CascadeTests.lines) == lines, "\(node.name)") }
    for node in mesh.nodes {
      let clocks = try Self.clocks(node)
      #expect(zip(clocks, clocks.dropFirst()).allSatisfy { $0 < $1 }, "\(node.name)")
    }
    try mesh.close()
  }
}
