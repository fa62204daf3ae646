import Changes
@testable import Conflicts
import TestServers
import Testing

/// What is told of many versions at once is what is told of each two of them.
struct RowVersionsTests {
  @Test("many versions are as each two of them say", arguments: 0..<200 as Range<UInt64>)
  func agree(seed: UInt64) {
    var random = Seeded(seed)
    let versions = Self.versions(&random)
    func stamps(_ versions: [RowVersion]) -> [Stamp] { versions.map(\.stamp) }
    let heads = versions.filter { one in !versions.contains { $0.follows(one) } }
    let roots = versions.filter { one in !versions.contains { one.follows($0) } }
    let whole = versions.last { one in versions.allSatisfy { $0.stamp == one.stamp || one.follows($0) } }
    let border = versions.indices.dropFirst().last { border in
      versions[border...].allSatisfy { late in versions[..<border].allSatisfy { late.follows($0) } }
    }
    #expect(stamps(versions.heads) == stamps(heads))
    #expect(stamps(versions.roots) == stamps(roots))
    #expect(versions.whole?.stamp == whole?.stamp)
    #expect(stamps(versions.unshared) == stamps(border.map { Array(versions[$0...]) } ?? versions))
  }

  @Test("the order in which versions come does not count") func order() {
    var random = Seeded(1)
    let versions = Self.versions(&random)
    let stamps = RowHistory(versions).versions.map(\.stamp)
    #expect(stamps == versions.map(\.stamp).sorted())
    for _ in 0..<20 {
      let shuffled = versions.shuffled(using: &random)
      #expect(RowHistory(shuffled + shuffled).versions.map(\.stamp) == stamps)
    }
  }

  /// Of three origins, by rising stamps; each knew what it likes of the others', and no less than before.
  private static func versions(_ random: inout Seeded) -> [RowVersion] {
    let origins = ["a.db", "b.db", "c.db"]
    var numbers = [UInt64](repeating: 0, count: origins.count)
    var seen = [[String: UInt64]](repeating: [:], count: origins.count)
    return (0..<Int.random(in: 0...9, using: &random)).map { clock in
      let place = Int.random(in: 0..<origins.count, using: &random)
      numbers[place] += UInt64.random(in: 1...2, using: &random)
      for other in origins.indices where other != place && Bool.random(using: &random) {
        let known = seen[place][origins[other]] ?? 0
        seen[place][origins[other]] = max(known, UInt64.random(in: known...max(known, numbers[other]), using: &random))
      }
      return RowVersion(
        Stamp(clock: UInt64(clock), origin: origins[place], number: numbers[place]), seen: seen[place],
        .insert(row("tea", 1)))
    }
  }
}
