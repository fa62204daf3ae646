import Changes
import SQLiteFormat
import TestServers
import Testing

@testable import SQLiteKit

/// Varints, texts, records and checksums one by one.
@Suite struct ValueTests {
  private func varint(_ bytes: [UInt8]) throws -> (value: UInt64, size: Int) {
    try bytes.withUnsafeBytes { buffer in
      var offset = 0
      let value = try PageBytes(number: 0, bytes: buffer).varint(at: &offset, before: buffer.count)
      return (value, offset)
    }
  }

  @Test(
    arguments: [
      ([0x00], 0), ([0x7f], 127), ([0x81, 0x00], 128), ([0xff, 0x7f], 16383), ([0x81, 0x80, 0x00], 16384),
      ([0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f], 0x00ff_ffff_ffff_ffff),
      ([0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff], UInt64.max),
      ([0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x05], 5),
    ] as [([UInt8], UInt64)])
  func `a varint has one to nine bytes`(bytes: [UInt8], value: UInt64) throws {
    let read = try varint(bytes)
    #expect(read.value == value && read.size == bytes.count)
    for count in 0..<bytes.count {
      #expect(throws: FormatError.self) { try varint(Array(bytes.prefix(count))) }
    }
  }

  private func values(_ payload: [UInt8]) throws -> [Value] {
    try payload.withUnsafeBytes { bytes in
      let payload = PageBytes(number: 9, bytes: bytes)
      var values = try RecordValues(payload)
      var found: [Value] = []
      while let value = try values.next() { found.append(try value.value(in: payload, .utf8)) }
      return found
    }
  }

  @Test func `a record has values of all types`() throws {
    #expect(
      try values([6, 0, 8, 9, 1, 15, 0x80, 0x41]) == [.null, .integer(0), .integer(1), .integer(-128), .text("A")])
    #expect(try values([3, 5, 14, 0xff, 0xff, 0xff, 0xff, 0xff, 0xfe, 7]) == [.integer(-2), .blob([7])])
    #expect(try values([2, 7, 0x3f, 0xf0, 0, 0, 0, 0, 0, 0]) == [.real(1)])
    #expect(try values([2, 7, 0x7f, 0xf8, 0, 0, 0, 0, 0, 0]) == [.null])
    #expect(try values([1]) == [])
  }

  @Test(
    arguments: [
      [], [0], [2, 10], [2, 11], [2, 1], [3, 1], [2, 0, 0], [2, 13, 0x41], [2, 0x8f], [9, 1],
      [10, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff],
    ] as [[UInt8]])
  func `a record that SQLite does not write is an error`(payload: [UInt8]) {
    #expect(throws: FormatError.self) { try values(payload) }
  }

  @Test func `an error names page and offset`() {
    let error = #expect(throws: FormatError.self) { try values([2, 10]) }
    #expect(error?.description == "a reserved type of a value at byte 1 of page 9")
  }

  /// Random bytes as UTF-16, also ill-formed, become the same UTF-8 as in SQLite.
  @Test(arguments: [true, false]) func `UTF-16 becomes UTF-8 as in SQLite`(isBigEndian: Bool) throws {
    let database = try Database(ofProgram: ":memory:")
    try database.execute("PRAGMA encoding = 'UTF-16\(isBigEndian ? "be" : "le")'")
    try database.execute("CREATE TABLE word(a)")
    var random = Seeded(isBigEndian ? 1 : 2)
    for _ in 0..<2000 {
      var bytes = random.bytes(random.below(13))
      // Surrogates are frequent.
      for index in bytes.indices where random.below(3) == 0 { bytes[index] = UInt8(0xd8 + random.below(8)) }
      try database.run("DELETE FROM word")
      try database.run("INSERT INTO word VALUES (CAST(x'\(bytes.hex)' AS TEXT))")
      var text: [UInt8] = []
      bytes.withUnsafeBytes { UTF16Text.append($0, isBigEndian: isBigEndian, to: &text) }
      #expect(try database.first("SELECT a FROM word") == .text(text), "\(bytes.hex)")
    }
  }

  @Test func `a layout has the sizes that SQLite allows`() {
    #expect(PageLayout(pageSize: 4096, reserved: 0)?.usable == 4096)
    #expect(PageLayout(pageSize: 65536, reserved: 255)?.usable == 65281)
    for (size, reserved) in [(0, 0), (256, 0), (1000, 0), (131_072, 0), (512, 33), (1024, 256), (4096, -1)] {
      #expect(PageLayout(pageSize: size, reserved: reserved) == nil)
    }
    let small = PageLayout(pageSize: 1024, reserved: 0)
    #expect(small?.lockPage == 1_048_577)
    #expect((1...420).filter { small?.isPointerMap(UInt32($0)) == true } == [2, 207, 412])
  }
}
