import Changes
import TestServers
import Testing

@testable import Mapping

/// The order of renames, also with names that other columns keep.
@Suite struct RenameOrderTests {
  private func steps(_ renames: [(String, String)], _ taken: [String]) -> [String] {
    RenameOrder(renames.map { (old: $0.0, new: $0.1) }, taken: Set(taken.map(\.nameKey))).steps
      .map { "\($0.old) \($0.new)" }
  }

  @Test func `a name is free before a column gets it`() {
    #expect(steps([("a", "b"), ("b", "c")], ["a", "b"]) == ["b c", "a b"])
    #expect(steps([("a", "b"), ("b", "a")], ["a", "b"]) == ["a cairn_moving_2", "b a", "cairn_moving_2 b"])
    let aside = ["a", "b", "cairn_moving_2"]
    #expect(steps([("a", "b"), ("b", "a")], aside) == ["a cairn_moving_3", "b a", "cairn_moving_3 b"])
    // Another column keeps the name c: the database refuses the first statement.
    #expect(steps([("a", "b"), ("b", "c")], ["a", "b", "c"]) == ["b c", "a b"])
    #expect(steps([("a", "b"), ("c", "b")], ["a", "b", "c"]).count == 2)
  }

  @Test func `random renames end, and give the names if they can`() {
    var random = Seeded(7)
    for _ in 0..<20_000 {
      let names = (0..<8).map { "n\($0)" }
      let count = random.below(7)
      let isPossible = random.below(2) == 0
      let old = isPossible ? Array(names.shuffled(using: &random).prefix(count)) : drawn(count, names, &random)
      let new = isPossible ? Array(names.shuffled(using: &random).prefix(count)) : drawn(count, names, &random)
      let others = isPossible ? names.filter { !old.contains($0) && !new.contains($0) } : drawn(3, names, &random)
      let renames = zip(old, new).filter { $0 != $1 }
      var there = Set(renames.map(\.0) + others)
      let kept = zip(old, new).filter { $0 == $1 }.map(\.0)
      if isPossible { there.formUnion(kept) }
      let steps = RenameOrder(renames.map { (old: $0.0, new: $0.1) }, taken: Set(there.map(\.nameKey))).steps
      #expect(steps.count <= 2 * renames.count, "\(renames), \(there)")
      guard isPossible else { continue }
      for (from, to) in steps {
        #expect(there.remove(from) != nil && there.insert(to).inserted, "\(renames): \(steps)")
      }
      #expect(there == Set(renames.map(\.1) + others + kept), "\(renames): \(steps)")
    }
  }

  private func drawn(_ count: Int, _ names: [String], _ random: inout Seeded) -> [String] {
    (0..<count).map { _ in names[random.below(names.count)] }
  }

  @Test func `many renames in a chain take one pass`() {
    let count = 30_000
    let renames = (0..<count).map { (old: "c\($0)", new: "c\($0 + 1)") }
    let order = RenameOrder(renames, taken: Set((0..<count).map { "c\($0)".nameKey }))
    #expect(order.steps.count == count && order.steps.first?.new == "c\(count)")
    let ring = (0..<count).map { (old: "c\($0)", new: "c\(($0 + 1) % count)") }
    #expect(RenameOrder(ring, taken: Set(ring.map(\.old.nameKey))).steps.count == count + 1)
  }
}
