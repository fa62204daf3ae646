import Changes
import SQLiteKit
import Testing

@testable import Statements

struct TokenizerTests {
  private func kinds(_ sql: String) throws -> [Token.Kind] { try Tokenizer.tokens(sql).map(\.kind) }

  @Test func `strings, blobs and names are read in all quotings`() throws {
    #expect(
      try kinds("'it''s' x'0aFF' \"a\"\"b\" `c``d` [e f] g_1") == [
        .string("it's"), .blob([0x0a, 0xff]), .name("a\"b"), .name("c`d"), .name("e f"), .word("G_1", written: "g_1"),
      ])
  }

  @Test func `numbers are what SQLite makes of them`() throws {
    #expect(
      try kinds("0 12 0x1F .5 5. 1e3 1.e-2 9223372036854775807 9223372036854775808") == [
        .integer(0), .integer(12), .integer(31), .real(0.5), .real(5), .real(1000), .real(0.01), .integer(.max),
        .real(0x1p63),
      ])
    #expect(throws: Unreplayable.self) { try kinds("12ab") }
    #expect(throws: Unreplayable.self) { try kinds("0xZZ") }
  }

  @Test func `comments are spaces`() throws {
    #expect(try kinds("1--x\n/* ' */2/* open") == [.integer(1), .integer(2)])
    #expect(try kinds("1 - -2") == [.integer(1), .symbol("-"), .symbol("-"), .integer(2)])
  }

  @Test(arguments: ["?", "?,?", "?5,?", ":a,:b,:a", "@a,?,:a,$a,?2,@a", "?3,:x,?1,:x,?", ":\u{e9},:e\u{301},?"])
  func `parameters have the numbers that SQLite gives them`(_ list: String) throws {
    let database = try Database(path: ":memory:", mode: .create)
    let statement = try database.prepare("SELECT \(list)")
    let numbers = try kinds(list).compactMap { if case .parameter(let number) = $0 { number } else { nil } }
    #expect(numbers.max() == statement.parameterCount)
    for number in 1...statement.parameterCount { try statement.bind(Int64(number * 10), at: number) }
    #expect(try statement.step())
    for (column, number) in numbers.enumerated() { #expect(statement.integer(column) == Int64(number * 10)) }
  }

  @Test(arguments: ["'a", "\"a", "[a", "x'1'", "x'zz'", "#", "$a::b", "$a(b)", "?0"])
  func `a statement that is not whole is refused`(_ sql: String) {
    #expect(throws: Unreplayable.self) { try Tokenizer.tokens(sql) }
  }
}
