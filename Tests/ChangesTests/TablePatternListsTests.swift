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

  /// Names that a list must give back, whatever is between names.
  static let hostile = [
    "a", "b", "\u{301}b", "k,m", "k,", ",", "", " ", "x\ny", "x\r", "\n", "!\u{301}c", "!k,m", "[[\"a\"]]", "[[", "\"",
    "\\", "a\u{0}b", "\u{1f}", "\u{10}1", "caf\u{e9}", "cafe\u{301}", "s.\u{301}t", "\u{fe0f}\u{200d}", "*", "?",
  ]

  @Test func `a list comes back from its text, whatever its names are`() {
    for one in Self.hostile {
      #expect(TablePatterns(text: TablePatterns([one]).text) == TablePatterns([one]), "\(one.debugDescription)")
      for other in Self.hostile {
        let pair = TablePatterns([one, other])
        #expect(TablePatterns(text: pair.text) == pair, "\(one.debugDescription), \(other.debugDescription)")
        let union = TablePatterns(anyOf: [TablePatterns([one]), pair, TablePatterns([other, "z"])])
        #expect(TablePatterns(text: union.text) == union, "\(one.debugDescription), \(other.debugDescription)")
      }
    }
  }

  @Test func `the text of an earlier version reads as it did, and plain lists are written so`() {
    let before = TablePatterns(text: "a*,!ab\nb")
    #expect(before == TablePatterns(anyOf: [TablePatterns(["a*", "!ab"]), TablePatterns(["b"])]))
    #expect(before.text == "a*,!ab\nb" && TablePatterns(["sales.*", "!sales.old"]).text == "sales.*,!sales.old")
    #expect(TablePatterns(text: "a,\u{301}b").patterns.hasSameBytes(as: ["a", "\u{301}b"]))
    #expect(TablePatterns(text: "a\r\nb").includes("b"))
  }

  /// A program that writes to a captured file, or a peer, may forge up to 1 MiB of names.
  @Test func `the time does not grow with the square of the lists`() {
    func seconds(_ count: Int) -> Double {
      let text = (0..<count).map { "t\($0)" }.joined(separator: "\n")
      return (0..<2).map { _ in
        ContinuousClock().measure {
          let list = TablePatterns(text: text)
          #expect(list.covers(list) && list.text.utf8.count == text.utf8.count)
        } / .seconds(1)
      }.min() ?? 0
    }
    // 32 times as much: about 1000 times as long if each list were compared with each.
    let (short, long) = (seconds(500), seconds(16_000))
    #expect(long < 200 * short, "\(short) s, then \(long) s")
  }

  @Test func `lists whose names only look alike are different ones`() {
    let union = TablePatterns(anyOf: [TablePatterns(["caf\u{e9}"]), TablePatterns(["cafe\u{301}"])])
    #expect(union.includes("caf\u{e9}") && union.includes("cafe\u{301}"))
    #expect(!TablePatterns(["caf\u{e9}"]).covers(TablePatterns(["cafe\u{301}"])))
  }

  @Test func `a pattern of a schema is one whose dot a combining character follows`() {
    let table = TableSchema(epoch: 0, engine: .postgres, namespace: "s", name: "\u{301}t", columns: [])
    #expect(table.matches("s.\u{301}t") && !table.matches("\u{301}t"))
  }
}
