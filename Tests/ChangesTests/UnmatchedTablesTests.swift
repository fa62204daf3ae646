import Testing

@testable import Changes

struct UnmatchedTablesTests {
  @Test(
    "a name that no table has is found, with the nearest",
    arguments: [
      (["itme", "sale"], [.init(name: "itme", nearest: "item", isExclusion: false)]),
      (["*", "!slae", "!tmp_*"], [.init(name: "slae", nearest: "sale", isExclusion: true)]),
      (
        ["*", "!pax", "!pkx"],
        [.init(name: "pax", nearest: "pay", isExclusion: true), .init(name: "pkx", isExclusion: true)]
      ),
      (["public.item", "HR.Pay"], []), (["zzz", "ITEM"], [.init(name: "zzz", nearest: nil, isExclusion: false)]),
    ] as [([String], [TablePatterns.Unmatched])])
  func unmatched(patterns: [String], found: [TablePatterns.Unmatched]) {
    let tables = ["item", "public.item", "sale", "public.sale", "hr.pay", "pay"]
    #expect(TablePatterns(patterns).unmatched(in: tables) == found)
  }

  @Test("a name that is meant for another table is a mistake, and one that is left out beforehand is none")
  func mistake() {
    let mistakes = TablePatterns(["*", "!itme", "!later", "itm"]).unmatched(in: ["item"]).map(\.isMistake)
    #expect(mistakes == [true, false, true])
  }
}
