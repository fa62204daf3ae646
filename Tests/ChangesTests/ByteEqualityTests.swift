import Changes
import Testing

/// Texts that Swift's own comparisons take for equal, and the databases do not.
@Suite struct ByteEqualityTests {
  static let pairs = [
    ("caf\u{e9}", "cafe\u{301}"), ("K", "\u{212a}"), (";", "\u{37e}"), ("`", "\u{1fef}"), ("\u{c5}", "\u{212b}"),
  ]

  @Test(arguments: pairs)
  func `texts that look alike are not equal`(_ one: String, _ other: String) {
    let (maybe, others): (String?, [String]) = (one, [other])
    let maybeOthers: [String]? = others
    #expect(one != other && !(one == other))
    #expect(maybe != other && !(maybe == other) && maybe == one && maybe != nil)
    #expect(other != maybe && others.first != maybe && others.first == other)
    let ones = [one]
    #expect(maybeOthers != ones && !(maybeOthers == ones) && maybeOthers == others && maybeOthers != nil)
    #expect([others] != [[one]] && !([others] == [[one]]))
    #expect(others != [one] && !(others == [one]) && !others.contains(one) && others.firstIndex(of: one) == nil)
    #expect(!(one + "x").hasPrefix(other) && !("x" + one).hasSuffix(other))
    let (pair, otherPair) = ((namespace: one, name: "x"), (namespace: other, name: "x"))
    let maybePair: (namespace: String, name: String)? = pair
    #expect(pair != otherPair && !(pair == otherPair) && pair == (one, "x") && pair != (other, "x"))
    #expect(!(maybePair.map { $0 == otherPair } ?? false) && ![pair].contains { $0 == otherPair })
    #expect((pair < otherPair) == (one < other) && !(pair < pair) && ("a", one) < ("b", other))
    switch one {
    case other: Issue.record("the pattern \(other.debugDescription) matched \(one.debugDescription)")
    default: break
    }
  }

  @Test func `a combining character does not hide what is before it`() {
    #expect("cairn_\u{301}x".hasPrefix("cairn_") && "\u{301}.seg".hasSuffix(".seg"))
    #expect(["b", "a\u{301}", "\u{e1}", "a"].sorted() == ["a", "a\u{301}", "b", "\u{e1}"])
  }

  @Test func `only letters of ASCII are folded in words of SQL`() {
    #expect(SQLText.tokens(Array("in\u{17f}ert".utf8)).map(\.word) != ["INSERT"])
    #expect(SQLText.tokens(Array("insert".utf8)).map(\.word) == ["INSERT"])
    var column = TableSchema.Column(name: "a", declaredType: "\u{131}nt")
    #expect(column.affinity == "NUMERIC")
    column.declaredType = "int"
    #expect(column.affinity == "INTEGER")
  }

  @Test func `a default that only looks as it did is a change`() {
    let before = table { $0.defaultText = "'caf\u{e9}'" }
    let after = table { $0.defaultText = "'cafe\u{301}'" }
    #expect(TableDifference(before, after).changes == [.defaultOfColumn(1, to: 1)])
    #expect(TableDifference(before, before).isEmpty)
  }

  @Test func `a type that only looks as it did is a change`() {
    let before = table { $0.declaredType = "caf\u{e9}" }
    let after = table { $0.declaredType = "cafe\u{301}" }
    #expect(TableDifference(before, after).changes == [.retypeColumn(1, to: 1)])
  }

  private func table(_ change: (inout TableSchema.Column) -> Void) -> TableSchema {
    var schema = TableDifferenceTests.item
    change(&schema.columns[1])
    return schema
  }
}
