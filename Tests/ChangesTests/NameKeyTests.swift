import Changes
import Testing

@Suite struct NameKeyTests {
  @Test(arguments: [("caf\u{e9}", "cafe\u{301}"), ("K", "\u{212a}"), ("\u{c4}RZTE", "\u{e4}rzte")])
  func `names of other bytes are other keys`(_ one: String, _ other: String) {
    var found: [NameKey: Int] = [:]
    found[one] = 1
    found[other, default: 0] += 2
    #expect(found == [one.nameKey: 1, other.nameKey: 2])
    #expect(Set([one.nameKey, other.nameKey]).contains(other) && !Set([one.nameKey]).contains(other))
    #expect(one.sqliteKey != other.sqliteKey && (one.nameKey < other.nameKey) != (other.nameKey < one.nameKey))
  }

  @Test func `SQLite folds the letters of ASCII only`() {
    #expect("Items".sqliteKey == "iTEMS".sqliteKey && "Items".nameKey != "items".nameKey)
    #expect("\u{c4}RZTE".sqliteKey == "\u{c4}rzte".sqliteKey && "\u{c4}RZTE".sqliteKey != "\u{e4}rzte".sqliteKey)
    #expect("A".key(in: .sqlite) == "a".key(in: .sqlite) && "A".key(in: .postgres) != "a".key(in: .postgres))
    #expect("\u{e9}".nameKey > "e\u{301}".nameKey)
  }
}
