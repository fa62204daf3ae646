import Changes
@testable import Conflicts
import TestServers
import Testing

/// Answers about many versions at once agree with the answers about each two of them.
struct RowVersionsTests {
  @Test("many versions are as each two of them say", arguments: 0..<200 as Range<UInt64>)
  func agree(seed: UInt64) {
    var random = Seeded(seed)
    // Every second time, authors claim to know what is still to be written.
    let versions = Self.versions(&random, claims: seed % 2 == 0 ? 0 : 3)
    func stamps(_ versions: [RowVersion]) -> [VersionStamp] { versions.map(\.stamp) }
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

  @Test func `a version whose clock is not earlier was not known`() {
    func version(_ clock: UInt64, _ origin: String, _ number: UInt64, seen: [String: UInt64] = [:]) -> RowVersion {
      RowVersion(VersionStamp(clock: clock, origin: origin, number: number), seen: seen, .insert(row("tea", 1)))
    }
    let lie = version(5, "e.db", 1, seen: ["p.db": 4_000_000_000])
    #expect(
      lie.follows(version(4, "p.db", 7)) && !lie.follows(version(5, "p.db", 8)) && !lie.follows(version(6, "p.db", 9)))
    #expect([version(4, "p.db", 7), lie].areCausal && ![version(5, "p.db", 8), lie].areCausal)
    #expect(![lie, version(6, "p.db", 9)].areCausal && [lie, version(6, "p.db", 9)].heads.count == 2)
    let runs = CondensedVersions([lie, version(6, "p.db", 9), version(7, "p.db", 10)], beside: version(8, "p.db", 11))
    #expect(runs.versions.count == 3)
  }

  /// Versions of three origins, by rising stamps. Each origin knew any number of the others', and no less than before.
  ///
  /// - Parameter claims: How many transactions more than there are an author may claim to know.
  private static func versions(_ random: inout Seeded, claims: UInt64 = 0) -> [RowVersion] {
    let origins = ["a.db", "b.db", "c.db"]
    var numbers = [UInt64](repeating: 0, count: origins.count)
    var seen = [[String: UInt64]](repeating: [:], count: origins.count)
    return (0..<Int.random(in: 0...9, using: &random)).map { clock in
      let place = Int.random(in: 0..<origins.count, using: &random)
      numbers[place] += UInt64.random(in: 1...2, using: &random)
      for other in origins.indices where other != place && Bool.random(using: &random) {
        let known = seen[place][origins[other]] ?? 0
        seen[place][origins[other]] = max(
          known, UInt64.random(in: known...max(known, numbers[other] + claims), using: &random))
      }
      return RowVersion(
        // Now and then two have one clock.
        VersionStamp(clock: UInt64(claims > 0 ? clock / 2 : clock), origin: origins[place], number: numbers[place]),
        seen: seen[place],
        .insert(row("tea", 1)))
    }
  }
}
