import Testing

@testable import Configuring

@Suite struct TomlTests {
  /// Small and the same everywhere; what it draws decides only which files are tried.
  private struct Dice {
    var state: UInt64
    mutating func roll(_ sides: Int) -> Int {
      state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
      return Int((state >> 33) % UInt64(sides))
    }
  }

  private static let parts: [[UInt8]] =
    [
      "[", "]", "[[", "]]", "{", "}", "=", ".", "\"", "'", "\"\"\"", "'''", "\\", "\n", "#", ",", "a", "0", "1e", "-",
      "2020-01-01", "T10:00", "inf", "0x", "\\u00e9", "true", "[a.b]\n", "a.b=1\n", "\\U0010FFFF", "_", "é", "${X}",
    ].map { Array($0.utf8) } + [[0xff], [0xc3], [0]]

  @Test func `no text makes the parser crash, and what is refused has a place in the file`() {
    let base = Array(ConfDocument.wholeReference.utf8.suffix(2500)) + Array(Conf.good.utf8)
    var dice = Dice(state: 6)
    var refused = 0
    for _ in 0..<10_000 {
      let start = dice.roll(base.count - 400)
      var bytes = Array(base[start..<(start + 100 + dice.roll(300))])
      for _ in 0...dice.roll(5) {
        let at = dice.roll(bytes.count + 1)
        switch dice.roll(4) {
        case 0: bytes.removeSubrange(at..<min(bytes.count, at + dice.roll(20)))
        case 1: bytes.insert(contentsOf: Self.parts[dice.roll(Self.parts.count)], at: at)
        case 2: if at < bytes.count { bytes[at] = UInt8(dice.roll(256)) }
        default:
          let from = dice.roll(bytes.count + 1)
          bytes.insert(contentsOf: bytes[from..<min(bytes.count, from + dice.roll(40))], at: at)
        }
      }
      let text = String(decoding: bytes, as: UTF8.self)
      let loaded = Conf.load(text)
      let lines = text.utf8.count { $0 == 0x0a } + 1
      refused += loaded.problems.contains { $0.code == .confSyntax } ? 1 : 0
      #expect(loaded.problems.isEmpty == (loaded.configuration != nil), "\(text)")
      for problem in loaded.problems {
        #expect(problem.place.line <= lines, "\(problem.place) \(problem.message) in \(text)")
        #expect(!problem.message.isEmpty && !problem.hint.isEmpty)
      }
    }
    #expect(refused > 3000)
  }

  private static let long = [
    String(repeating: "[", count: 100_000), "a=" + String(repeating: "[", count: 100_000),
    "[" + Array(repeating: "a", count: 100_000).joined(separator: ".") + "]",
    "a=" + String(repeating: "{a=", count: 100_000), "a=\"" + String(repeating: "x", count: 1_000_000) + "\"",
    String(repeating: "\n", count: 1_000_000), "", "\u{feff}", "a=0000-00-00T", "\"\"\"\"\"\"=1",
  ]

  @Test(arguments: long.indices)
  func `deep and long texts neither crash nor hang`(_ index: Int) {
    _ = try? TomlDocument(Self.long[index], file: "a.toml")
  }

  @Test func `keys come in the order of the file, with their places`() throws {
    let document = try TomlDocument("b = 1\na = 'é' # c\n[t]\n é.x = 1\n".replacing("é.x", with: "\"é\".x"), file: "f")
    guard case .table(let entries) = document.root.value else {
      throw TomlDocument.Failure(place: .init(file: "f"), reason: "")
    }
    #expect(entries.map(\.key) == ["b", "a", "t"])
    #expect(entries.map { "\($0.keyPlace)" } == ["f:1:1", "f:2:1", "f:3:2"])
    #expect(entries[1].node == TomlNode(value: .string("é"), place: .init(file: "f", line: 2, column: 5)))
  }
}
