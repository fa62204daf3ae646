import Changes
import TestServers
import Testing

/// Names as databases compare them: by their bytes.
@Suite struct NameBytesTests {
  static let composed = "caf\u{e9}"
  static let decomposed = "cafe\u{301}"

  @Test func `names that Swift takes for one are two`() {
    #expect(Array(Self.composed) == Array(Self.decomposed))
    #expect(!Self.composed.hasSameBytes(as: Self.decomposed))
    #expect(!"\u{212b}".hasSameBytes(as: "\u{c5}") && !"a\u{301}\u{323}".hasSameBytes(as: "a\u{323}\u{301}"))
    #expect("".hasSameBytes(as: "") && Self.composed.hasSameBytes(as: Self.composed))
    #expect(![Self.composed].hasSameBytes(as: [Self.decomposed]) && !["a"].hasSameBytes(as: ["a", "b"]))
    #expect(!Optional("a").hasSameBytes(as: nil) && Optional<String>.none.hasSameBytes(as: nil))
    // Texts of equal bytes, however they are kept in memory.
    var random = Seeded(24)
    for _ in 0..<2000 {
      let text = random.hostileText(upTo: 8)
      #expect(text.hasSameBytes(as: String(decoding: Array(text.utf8), as: UTF8.self)))
      #expect(text.hasSameBytes(as: text + "x") == false)
    }
  }

  @Test func `shapes whose texts differ in their bytes differ`() {
    var shape = TableDifferenceTests.item
    shape.columns[1].name = Self.composed
    shape.name = Self.composed
    let changes: [(inout TableSchema) -> Void] = [
      { $0.columns[1].name = Self.decomposed }, { $0.name = Self.decomposed },
      { $0.objects = [.init(name: Self.decomposed, text: "")] }, { $0.createText = Self.decomposed },
      { $0.columns[1].defaultText = "'\(Self.decomposed)'" }, { $0.columns[1].collation = Self.decomposed },
      {
        $0.foreignKeys = [.init(columns: [1], table: Self.decomposed, references: ["id"], onUpdate: "", onDelete: "")]
      },
    ]
    for change in changes {
      var (other, same) = (shape, shape)
      change(&other)
      change(&same)
      #expect(other != shape && other == same)
    }
  }

  @Test func `a rename to another form of the same letters is a rename`() {
    var (before, after) = (TableDifferenceTests.item, TableDifferenceTests.item)
    (before.name, after.name) = (Self.composed, Self.decomposed)
    (before.columns[1].name, after.columns[1].name) = (Self.decomposed, Self.composed)
    #expect(TableDifference(before, after).changes == [.renameTable, .renameColumn(1, to: 1)])
  }

  // MARK: Lists of tables

  @Test func `a list takes no table whose name only looks like a listed one`() {
    let alike = [
      ("k", "\u{212a}"), (Self.composed, Self.decomposed), ("\u{c4}rzte", "\u{e4}rzte"), ("\u{2126}", "\u{3c9}"),
      ("i\u{307}", "\u{130}"),
    ]
    for (listed, name) in alike {
      #expect(TablePatterns([listed]).includes(listed))
      #expect(!TablePatterns([listed]).includes(name), "\(listed) takes \(name)")
    }
    #expect(TablePatterns(["Orders"]).includes("ORDERS") && TablePatterns(["CAF*"]).includes(Self.composed))
    // A table that is excluded stays so, whatever the case of its letters.
    #expect(!TablePatterns(["*", "!GEH\u{c4}LTER"]).includes("geh\u{e4}lter"))
    #expect(!TablePatterns(["*", "!k"]).includes("\u{212a}"))
    // A mark after the exclamation mark makes no other character of it.
    #expect(!TablePatterns(["*", "!\u{301}x"]).includes("\u{301}x"))
  }

  // MARK: Several names in one text

  @Test func `names come back from a text, whatever they hold`() {
    #expect(NameList.text(["a", "b c"]) == "a\u{1f}b c" && NameList.names("a\u{1f}b c") == ["a", "b c"])
    #expect(NameList.names("") == [])
    var random = Seeded(7)
    let parts = ["\u{1f}", "\u{10}", "0", "1", "\u{1e}", "a", "\u{301}", "\u{600}", "=", "é"]
    for _ in 0..<5000 {
      let names = (0..<random.below(4)).map { _ in
        (0...random.below(5)).map { _ in parts[random.below(parts.count)] }.joined()
      }
      #expect(NameList.names(NameList.text(names)).hasSameBytes(as: names), "\(names.map { Array($0.utf8) })")
    }
  }
}
