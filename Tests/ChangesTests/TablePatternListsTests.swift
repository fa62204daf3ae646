import Changes
import Testing

@Suite struct TablePatternListsTests {
  @Test func `several lists take what one of them takes`() {
    let lists = [TablePatterns(["a*", "!ab"]), TablePatterns(["b"]), TablePatterns(["a*", "!ab"])]
    let union = TablePatterns(anyOf: lists)
    for name in ["a", "ab", "ac", "b", "bc", "A", "B"] {
      #expect(union.includes(name) == lists.contains { $0.includes(name) }, "\(name)")
    }
    #expect(TablePatterns(text: union.text) == union)
    #expect(union.covers(lists[0]) && union.covers(lists[1]) && !union.covers(TablePatterns(["c"])))
    #expect(!lists[0].covers(union) && !union.covers(TablePatterns()))
  }

  @Test func `a list that takes all takes the place of every other one`() {
    let union = TablePatterns(anyOf: [TablePatterns(["!a"]), TablePatterns()])
    #expect(union == TablePatterns() && union.includes("a") && union.covers(TablePatterns(["x", "!y"])))
    #expect(!TablePatterns(["!a"]).takesAll && TablePatterns(["a", "*"]).takesAll)
    #expect(TablePatterns(anyOf: []) == TablePatterns() && TablePatterns(text: "") == TablePatterns())
    #expect(TablePatterns(text: "a,!b").patterns == ["a", "!b"])
  }
}
