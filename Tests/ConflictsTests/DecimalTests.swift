import Changes
import Testing

@testable import Conflicts

@Suite struct DecimalTests {
  private func decimal(_ text: String) throws -> Decimal { try #require(Decimal(text.utf8)) }

  @Test(arguments: [
    ("1", "2", "3"), ("-1", "1", "0"), ("0.1", "0.2", "0.3"), ("1.50", "-0.5", "1.00"), ("-3", "-4.25", "-7.25"),
    ("99999999999999999999999999", "1", "100000000000000000000000000"), ("1e3", "-1e-3", "999.999"), ("5", "-7", "-2"),
    ("0.00", "0", "0.00"), ("-0.5", "0.25", "-0.25"),
  ])
  func `sums are exact`(a: String, b: String, sum: String) throws {
    #expect(try (decimal(a) + decimal(b)).text == sum)
    #expect(try (decimal(b) + decimal(a)).text == sum)
    #expect(try decimal(sum) - decimal(b) == decimal(a))
  }

  @Test(arguments: ["", "-", ".", "1.2.3", "NaN", "Infinity", "1e", "0x10", " 1", "1 ", "1e99999"])
  func `a text that is no number is none`(text: String) { #expect(Decimal(text.utf8) == nil) }

  @Test func `values keep their storage class, and integers that overflow are refused`() throws {
    #expect(Decimal(.real(0.1)).map { ($0 + $0 + $0).value(like: .real(0)) } == .real(0.3))
    #expect(Decimal(.exact(Array("12.50".utf8)))?.value(like: .exact([])) == .exact(Array("12.50".utf8)))
    let most = try #require(Decimal(.integer(.max)))
    #expect(most.value(like: .integer(0)) == .integer(.max))
    #expect((most + most).value(like: .integer(0)) == nil)
    #expect(Decimal(.text(Array("5".utf8))) == nil && Decimal(number: .text(Array("5".utf8))) != nil)
  }

  @Test func `means are rounded once`() {
    #expect(Decimal.mean([.integer(1), .integer(2)]) == .real(1.5))
    #expect(Decimal.mean([.integer(2), .integer(4)]) == .integer(3))
    #expect(Decimal.mean([1, 1, 2].map { .exact(Array("\($0)".utf8)) }) == .exact(Array("1.333333".utf8)))
    #expect(Decimal.mean([.integer(1), .text([])]) == nil)
  }
}
