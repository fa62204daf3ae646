import Changes
import Testing

@testable import PostgresKit

/// Lists of tables of a PostgreSQL database.
@Suite struct TableListTests {
  @Test func `a mark before a combining character is one`() {
    #expect(TablePatterns(["s.\u{301}t"]).includes(namespace: "s", name: "\u{301}t"))
    #expect(!TablePatterns(["*", "!s.\u{301}t"]).includes(namespace: "s", name: "\u{301}t"))
    #expect(TablePatterns(["*", "!\u{301}b"]).includes(namespace: "public", name: "b"))
    #expect(!TablePatterns(["*", "!\u{301}b"]).includes(namespace: "public", name: "\u{301}b"))
  }

  @Test func `definitions are read up to a size, the smallest ones first`() {
    func readable(_ sizes: [Int]) -> [UInt32] {
      let found = DefinitionSizes(sizes.enumerated().map { (UInt32($0.offset), $0.element) }).readable
      #expect(found.readable.count + found.large.count == sizes.count)
      #expect(found.readable.isDisjoint(with: found.large.keys))
      return found.readable.sorted()
    }
    let most = DefinitionSizes.tableBytesMax
    #expect(readable([]) == [])
    #expect(readable([0, most, most + 1, .max]) == [0, 1])
    let count = DefinitionSizes.allBytesMax / most
    #expect(
      readable(Array(repeating: most, count: count + 3) + [100]) == Array(0..<UInt32(count - 1)) + [UInt32(count + 3)])
  }

  @Test func `a long chain of domains ends no process`() throws {
    func row(_ fields: [String?]) -> String {
      "y\(fields.count);" + fields.map { $0.map { "\($0.utf8.count):\($0)" } ?? "-" }.joined()
    }
    let count = 30_000
    let rows = (1...count).map { number in
      row([
        "\(number)", "public", "d\(number)", "d", "0", "\(number - 1)", "d\(number - 1)", "false", nil, nil, nil, "U",
        nil,
      ])
    }
    var types = TypeScript(try CatalogDocument(rows.joined()))
    #expect(types.statements(for: "\(count)").count == TypeScript.depthMax)
    #expect(types.statements(for: "150").count == 150)
  }
}
