import Changes
import Testing

@testable import Versions

@Suite struct RowNameTests {
  private func name(_ values: Value..., table: String = "t") -> RowName {
    RowName(table: table, key: values)
  }

  @Test(arguments: [
    ["1", "1.0", "1.00", "+1", "01", "1e0", "10e-1"], ["0", "-0", "0.00", "0e7"],
    ["-12.5", "-12.50", "-1.25e1"],
    ["9223372036854775807", "9223372036854775807.0"],
    ["9223372036854775808", "9.223372036854775808E18"],
    ["100000000000000000000", "1e20", "1e+20"], ["0.1", ".1", "1e-1"],
  ])
  func `numbers that are equal have one name`(texts: [String]) {
    let names = texts.flatMap { [name(.text($0)), name(.exact(Array($0.utf8)))] }
    #expect(Set(names).count == 1)
  }

  @Test func `integers and reals are named as their texts`() {
    for number in [0, 1, -7, Int64.max, .min, 1 << 53] {
      #expect(name(.integer(number)) == name(.text(String(number))))
    }
    for real in [1.0, -0.0, 0.1, 1e20, -1.5e-300, 9_007_199_254_740_994, .infinity, -.infinity] {
      let text = real.isInfinite ? (real < 0 ? "-Infinity" : "Infinity") : "\(real)"
      #expect(name(.real(real)) == name(.exact(Array(text.utf8))), "\(real)")
    }
    #expect(name(.real(3)) == name(.integer(3)))
  }

  @Test func `a value that PostgreSQL prints has the name of SQLite's value`() {
    #expect(name(.exact(Array("t".utf8))) == name(.integer(1)))
    #expect(name(.exact(Array("f".utf8))) == name(.integer(0)))
    for bytes in [[], [0], [1, 0xab], Array(0...20)] as [[UInt8]] {
      #expect(name(.exact(Array("\\x\(bytes.hex)".utf8))) == name(.blob(bytes)))
    }
    #expect(name(.text("\\x1")) != name(.blob([1])))
    #expect(name(.text("\\x1g")) != name(.text("\\x1h")))
    #expect(name(.exact(Array("NaN".utf8))) == name(.text("NaN")))
  }

  @Test func `a row that differs has another name`() {
    let names = [
      name(), name(.null), name(.null, .null), name(.integer(1)), name(.integer(2)),
      name(.integer(-1)),
      name(.integer(1), .integer(2)), name(.integer(2), .integer(1)), name(.integer(12)),
      name(.text("a")),
      name(.blob(Array("a".utf8))), name(.text("ab")), name(.text("a"), .text("b")),
      name(.text("")), name(.blob([])),
      name(.text("A")), name(.text("1.1.1")), name(.text("1-1")), name(.text("12345678")),
      name(.text("12345678 ")),
      name(.real(0.5)), name(.real(-0.5)), name(.real(5e-2)), name(.integer(1), table: "u"),
      name(.text("e5")),
      name(.text("123456789a")), name(.text("a23456789")), name(.text("-")), name(.text(".")),
      name(.text("1e")),
    ]
    #expect(Set(names).count == names.count)
  }

  @Test func `tables are the same in any case`() {
    #expect(name(.integer(1), table: "Items") == name(.integer(1), table: "ITEMS"))
  }

  /// The checksum of a window's file is one.
  @Test func `a name never changes`() {
    #expect(name(.integer(1)).hash == 449_486_303_317_243_992)
    #expect(
      name(.text("tea"), .blob([1, 2, 3, 4, 5, 6, 7, 8, 9]), table: "items").hash
        == 14_995_122_748_151_591_210)
    #expect(name(.real(0.5)).hash == 17_403_464_762_011_122_036)
  }

  @Test func `a million keys have a million names`() {
    var names: Set<UInt64> = []
    for number in 0..<200_000 { names.insert(name(.integer(Int64(number))).hash) }
    for number in 0..<50_000 { names.insert(name(.text("customer-\(number)")).hash) }
    #expect(names.count == 250_000)
    // All bits count: a table in memory takes the low ones.
    #expect(Set(names.map { $0 & 0xffff }).count > 60_000)
  }
}
