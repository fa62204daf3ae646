import Conflicts
import Foundation
import TestServers
import Testing
import Trails

@testable import Versions

/// Nodes that write the same rows and apply each other's trails in any order. Their window forgets, spills, is lost and
/// read again. Trails are purged up to what the window needs.
@Suite struct WindowConvergenceTests {
  private static let rules: [ConflictRules] = [
    ConflictRules(), ConflictRules(rule: .oldest, deletes: .updateWins),
    ConflictRules(tracking: .column, columns: [2: .delta], deletes: .deleteWins),
    ConflictRules(columns: [2: .max, 3: .combine(separator: "/")]),
  ]

  @Test(arguments: Seeds.range(reduced: 5).map(Int.init))
  func `rows are those of the full history`(seed: Int) throws {
    var random = Seeded(UInt64(seed))
    let temp = try TempFolder()
    let rules = Self.rules[seed % Self.rules.count]
    let count = seed % 3 == 0 ? 2 : seed % 3 == 1 ? 3 : 5
    let nodes = try (0..<count).map {
      try SimulatedNode(temp, $0, rules, spillRows: seed % 2 == 0 ? 5 : 1000)
    }
    for node in nodes { try node.meet(nodes) }
    for _ in 0..<120 {
      let (node, other) = (nodes[random.below(count)], nodes[random.below(count)])
      switch random.below(15) {
      case 0...4: try node.write(random.below(5), &random)
      case 5: try node.start()
      case 6: try node.purge(nodes)
      default:
        if node !== other {
          try node.apply(other, 1 + random.below(3), commits: random.below(5) > 0)
        }
      }
    }
    for _ in 0..<3 {
      for node in nodes {
        for other in nodes where other !== node { try node.apply(other, .max, commits: true) }
      }
      // Heartbeats.
      for node in nodes { try node.write(0, &random) }
    }
    for id in Int64(0)..<4 {
      let all = RowHistory(nodes.flatMap { $0.made[id] ?? [] })
      let expected = try ConflictResolution(all, rules, columnCount: 4).row
      for node in nodes {
        #expect(node.rows[id] == expected, "seed \(seed), row \(id) of \(node.name)")
      }
    }
    #expect(nodes.contains { $0.conflictCount > 0 })
    for node in nodes {
      for other in nodes where other !== node { try node.apply(other, .max, commits: true) }
      try node.window.catchUp(rowNames: rowNames)
      #expect(node.window.count == 0, "seed \(seed): what all know is forgotten")
      #expect(try Array(node.window.needs().keys) == [node.name])
    }
  }
}
