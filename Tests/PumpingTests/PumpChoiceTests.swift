import Changes
import Testing

@testable import Pumping

/// Which trails a pump brings if there are more than it may bring at one time.
@Suite struct PumpChoiceTests {
  private func names(_ origin: String, _ count: Int) -> Set<TrailName> {
    Set((0..<count).map { TrailName(origin: origin, name: "t\($0)") })
  }

  @Test func `the many trails of one node keep out no other node`() {
    let all = names("aaa", 3000).union(names("store-1", 2)).union(names("store-2", 1)).union(names("hq", 3))
    let chosen = Pump.chosen(all, most: 100, own: "hq")
    #expect(chosen.count == 100)
    for few in [names("store-1", 2), names("store-2", 1), names("hq", 3)] { #expect(few.isSubset(of: chosen)) }
    #expect(Pump.chosen(all, most: 100, own: "hq") == chosen)
    #expect(Pump.chosen(all, most: 3006, own: "hq") == all)
  }

  @Test func `never more than the limit`() {
    for most in [0, 1, 2, 7] {
      let all = names("a", 5).union(names("b", 5)).union(names("hq", 5))
      #expect(Pump.chosen(all, most: most, own: "hq").count == most)
      #expect(Pump.chosen(names("hq", 9), most: most, own: "hq").count == most)
    }
  }
}
