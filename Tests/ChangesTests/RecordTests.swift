import Changes
import Testing

@Suite struct RecordTests {
  // MARK: Numbers

  static let varints: [(UInt64, [UInt8])] = [
    (0, [0]), (1, [1]), (127, [0x7f]), (128, [0x80, 1]), (16383, [0xff, 0x7f]), (16384, [0x80, 0x80, 1]),
    (UInt64(Int64.max), [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f]),
    (.max, [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1]),
  ]

  @Test(arguments: varints)
  func `a varint is unsigned LEB128`(value: UInt64, expected: [UInt8]) throws {
    var writer = ByteWriter(capacity: 1)
    writer.appendVarint(value)
    #expect(Array(writer.bytes) == expected)
    var reader = ByteReader(writer.bytes)
    #expect(try reader.readVarint() == value)
    #expect(reader.isAtEnd)
  }

  static let zigzags: [(Int64, [UInt8])] = [
    (0, [0]), (-1, [1]), (1, [2]), (-2, [3]), (63, [126]), (-64, [127]), (64, [0x80, 1]),
    (.max, [0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1]),
    (.min, [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1]),
  ]

  @Test(arguments: zigzags)
  func `a zigzag puts small numbers of both signs into few bytes`(value: Int64, expected: [UInt8]) throws {
    var writer = ByteWriter(capacity: 1)
    writer.appendZigzag(value)
    #expect(Array(writer.bytes) == expected)
    var reader = ByteReader(writer.bytes)
    #expect(try reader.readZigzag() == value)
  }

  static let badVarints: [[UInt8]] = [
    [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2], Array(repeating: 0x80, count: 11),
    Array(repeating: 0xff, count: 20), [0x80], [],
  ]

  @Test(arguments: badVarints)
  func `a varint that is too long or cut off is refused`(bytes: [UInt8]) {
    #expect(throws: DecodingError.self) {
      try bytes.withUnsafeBytes { bytes in
        var reader = ByteReader(bytes)
        _ = try reader.readVarint()
      }
    }
  }

  @Test func `a count of more than what follows is refused before memory is taken`() {
    var writer = ByteWriter()
    writer.appendVarint(.max)
    #expect(throws: DecodingError.self) {
      var reader = ByteReader(writer.bytes)
      _ = try reader.readCounted()
    }
  }

  // MARK: Round trips

  @Test func `numbers of all sizes are read as they were written`() throws {
    var random = Samples()
    var writer = ByteWriter(capacity: 1)
    let numbers = (0..<2000).map { _ in random.number() }
    for number in numbers {
      writer.appendVarint(number)
      writer.appendZigzag(Int64(bitPattern: number))
      writer.appendFixed(number)
    }
    var reader = ByteReader(writer.bytes)
    for number in numbers {
      try #require(try reader.readVarint() == number, "\(random)")
      try #require(try reader.readZigzag() == Int64(bitPattern: number), "\(random)")
      try #require(try reader.readFixed(UInt64.self) == number, "\(random)")
    }
    #expect(reader.isAtEnd)
  }

  @Test func `values are read as they were written, in one image`() throws {
    var random = Samples()
    for _ in 0..<300 {
      let values = (0..<Int.random(in: 0...20, using: &random.generator)).map { _ in random.value() }
      var writer = ByteWriter(capacity: 1)
      writer.appendImage(values)
      var reader = ByteReader(writer.bytes)
      try #require(try reader.readImage().values() == values, "\(random)")
      try #require(reader.isAtEnd)
    }
  }

  @Test func `a real keeps its bits`() throws {
    for bits in [Double.nan.bitPattern, (-0.0).bitPattern, 0x7ff0_0000_0000_0001, 1] {
      var writer = ByteWriter()
      writer.append(Value.real(Double(bitPattern: bits)))
      var reader = ByteReader(writer.bytes)
      guard case .real(let read) = try reader.readColumn() else {
        Issue.record("not a real")
        continue
      }
      #expect(read.bitPattern == bits)
    }
  }

  @Test func `every kind of record is read as it was written, with or without bytes after it`() throws {
    var random = Samples()
    for _ in 0..<300 {
      let sample = random.record()
      for more in [[], [UInt8(1), 2, 3]] {
        try #require(try decoded(kind: sample.kind, sample.payload + more) == sample.text, "\(random)")
      }
    }
  }

  // MARK: Damage

  @Test func `a record that is cut off anywhere is refused`() {
    var random = Samples()
    for _ in 0..<60 {
      let sample = random.record()
      for count in sample.payload.indices where !sample.olderEnds.contains(count) {
        #expect(throws: DecodingError.self, "\(sample.text), \(count) bytes of \(sample.payload), \(random)") {
          _ = try decoded(kind: sample.kind, Array(sample.payload.prefix(count)))
        }
      }
    }
  }

  @Test func `a DDL record of an older trail is read without its flags`() throws {
    var writer = ByteWriter()
    let ddl = DDL(action: .reshape, before: 1, after: 2, text: "x", isRefreshed: true)
    writer.append(ddl)
    var older = ddl
    older.isRefreshed = false
    #expect(try decoded(kind: RecordKind.ddl, Array(writer.bytes)) == "ddl \(ddl)")
    #expect(try decoded(kind: RecordKind.ddl, Array(writer.bytes.dropLast(3))) == "ddl \(older)")
  }

  @Test func `a record with any byte changed is read or refused, and never traps`() {
    var random = Samples()
    for _ in 0..<60 {
      let sample = random.record()
      for index in sample.payload.indices {
        var bytes = sample.payload
        bytes[index] ^= UInt8.random(in: 1...255, using: &random.generator)
        do { _ = try decoded(kind: sample.kind, bytes) } catch {
          #expect(error is DecodingError, "\(error), \(random)")
        }
      }
    }
  }

  @Test func `noise is read or refused as any kind, and never traps`() {
    var random = Samples()
    for _ in 0..<5000 {
      let kind = UInt8.random(in: 0...0x0a, using: &random.generator)
      let bytes = random.bytes(Int.random(in: 0...60, using: &random.generator))
      do { _ = try decoded(kind: kind, bytes) } catch { #expect(error is DecodingError, "\(error), \(random)") }
    }
  }

  @Test(arguments: [UInt8(0x00), 0x0a, 0x7f]) func `an unknown kind is refused`(kind: UInt8) {
    #expect(throws: DecodingError.self) { _ = try decoded(kind: kind, [1, 2]) }
  }

  @Test(arguments: [UInt8(0x80), 0x90, 0xff]) func `an unknown optional kind is skipped`(kind: UInt8) throws {
    #expect(try decoded(kind: kind, [1, 2]) == nil)
  }

  @Test func `an unknown value tag is refused with its offset`() {
    let error = #expect(throws: DecodingError.self) {
      _ = try [UInt8(1), 7].withUnsafeBytes { try ImageView(bytes: $0).values() }
    }
    #expect(error?.offset == 1)
  }
}

@Suite struct PositionTests {
  @Test(arguments: [
    (UInt64(1), UInt64(0), "00000001:00000000"), (3, 0x1a2c0, "00000003:0001a2c0"),
    (0xffff_ffff, 0x1_2345_6789, "ffffffff:123456789"),
    (0xffff_ffff_ffff, 0x3fff_ffff_ffff_ffff, "ffffffffffff:3fffffffffffffff"),
  ])
  func `a position is read as it is printed`(segment: UInt64, offset: UInt64, text: String) {
    let position = Position(segment: segment, offset: offset)
    #expect(position.description == text)
    #expect(Position(text) == position)
  }

  @Test(arguments: ["", ":", "1", "1:", ":1", "1:2:3", "x:1", "1:-", "1:10000000000000000", "1 :2"])
  func `other text is no position`(text: String) { #expect(Position(text) == nil) }

  @Test func `positions are ordered by segment, then by offset`() {
    #expect(Position(segment: 1, offset: 9) < Position(segment: 2, offset: 0))
    #expect(Position(segment: 2, offset: 1) < Position(segment: 2, offset: 2))
  }

  @Test(arguments: [("till-7.pos", "till-7", "pos"), ("A_1.b-2", "A_1", "b-2")])
  func `the name of a trail is read as it is printed`(text: String, origin: String, name: String) {
    #expect(TrailName(text) == TrailName(origin: origin, name: name))
    #expect(TrailName(text)?.description == text)
  }

  @Test(arguments: ["", "x", ".x", "x.", "a.b.c", "a/b.c", "ä.b", "a b.c", ".."])
  func `other text names no trail`(text: String) { #expect(TrailName(text) == nil) }
}

@Suite struct TablePatternsTests {
  @Test(arguments: [
    (["*"], "item", true), ([], "item", true), (["item"], "ITEM", true), (["Item"], "items", false),
    (["it?m"], "item", true), (["it?m"], "itm", false), (["*m"], "item", true), (["*x*"], "item", false),
    (["i*e*"], "item", true), (["**"], "", true), (["!tmp_*"], "tmp_1", false), (["!tmp_*"], "item", true),
    (["*", "!tmp_*", "tmp_keep"], "tmp_keep", true), (["*", "!tmp_*", "tmp_keep"], "tmp_x", false),
    (["item", "!*"], "item", false), (["order*"], "order_line", true), (["a*b*c"], "aXbXbXc", true),
    (["ä?"], "Äx", false), (["ä?"], "äx", true), (["!ä?"], "Äx", false),
  ])
  func `the last pattern that matches decides`(patterns: [String], table: String, expected: Bool) {
    #expect(TablePatterns(patterns).includes(table) == expected)
  }
}
