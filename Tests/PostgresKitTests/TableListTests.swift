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
      let found = DefinitionSizes(sizes.enumerated().map { (UInt32($0.offset), 10, $0.element) }).readable
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

  @Test func `if tables are too large together, the owner of the most loses some`() {
    let most = DefinitionSizes.tableBytesMax
    let count = DefinitionSizes.allBytesMax / most
    // Owner 11 has many tables, each smaller than the one of owner 10, and owner 12 a few.
    let own: [DefinitionSizes.Size] = [(1, 10, most)]
    let many = (0..<3000).map { DefinitionSizes.Size(UInt32(100 + $0), 11, 200_000) }
    let few = (0..<count / 4).map { DefinitionSizes.Size(UInt32(10_000 + $0), 12, most) }
    let found = DefinitionSizes(own + many + few).readable
    #expect(found.readable.isSuperset(of: [1] + few.map(\.oid)))
    #expect(!found.large.isEmpty && found.large.keys.allSatisfy { (100..<3100).contains($0) })
    let sum = (own + many + few).filter { found.readable.contains($0.oid) }.reduce(0) { $0 + $1.bytes }
    #expect(sum <= DefinitionSizes.allBytesMax && sum > DefinitionSizes.allBytesMax - most)
    #expect(DefinitionSizes.reason(200_000, owner: "low").contains("those of role low"))
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
