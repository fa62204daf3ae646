import Changes
import CodecKit
import Foundation
import TestServers
import Testing

@testable import Trails

/// Invariant: no damage gives a wrong record, a crash, or a quiet end.
@Suite struct DamageTests {
  private let temp: TempFolder
  private let folder: String
  private let committed: [Seen]
  private let options = TrailOptions.small(block: 200, segment: 1500, compress: true)

  /// Two sealed segments and a live one; plain blocks and a compressed one.
  init() throws {
    temp = try TempFolder()
    folder = temp("state/till-7.pos")
    let script = Script(try openWriter(folder, options))
    while script.writer.end.position.segment < 3 {
      try script.transaction(rows: 3)
      try script.transaction(rows: 1, bytes: script.writer.end.position.offset == 0 ? 1500 : 10)
      try script.writer.sync()
    }
    for _ in 1...2 {
      try script.transaction(rows: 2)
      try script.writer.sync()
    }
    try script.transaction(rows: 1, bytes: 1200)
    try script.writer.close()
    committed = script.committed
    #expect(try Trail.info(folder: folder).segments.map(\.isSealed) == [true, true, false])
    #expect(try readAll(folder) == committed)
    let codecs = try Set(blocks(contents(segment(1))).map(\.header.codec))
    #expect(codecs == [BlockHeader.Codec.none, BlockHeader.Codec.zstd])
  }

  private func segment(_ number: Int) -> String { "\(folder)/0000000\(number).seg" }

  /// Reading must fail, at the segment's own damage, after nothing but what was written.
  private func mustFail(_ number: Int, at offset: Int, in places: [BlockPlace], _ what: String) {
    let (seen, error) = readUntilError(folder)
    #expect(Array(committed.prefix(seen.count)) == seen, "\(what) at \(offset)")
    let isVersion = (offset == 8 || offset == 9) && what != "cut"
    let comment: Comment = "\(what) at \(offset): \(String(describing: error))"
    #expect(error?.code == (isVersion ? .trailVersion : .trailDamaged), comment)
    let content = places.first { offset < $0.file.upperBound }?.content ?? 0
    let expected = Position(segment: UInt64(number), offset: offset < BlockPlace.headerLength ? 0 : content)
    #expect(error?.context["position"] == "\(expected)", comment)
    #expect(error?.message.contains("\(expected)") == true)
  }

  @Test(arguments: [1, 2, 3])
  func `a flipped byte is an error with the position`(number: Int) throws {
    let good = try contents(segment(number))
    let end = number == 3 ? Int(try Trail.info(folder: folder).segments[2].bytes) : good.count
    let places = blocks(good)
    let file = try FileHandle(forUpdating: URL(fileURLWithPath: segment(number)))
    for offset in 0..<end {
      for bit in [UInt8(0x01), 0x80] {
        try file.seek(toOffset: UInt64(offset))
        file.write(Data([good[offset] ^ bit]))
        mustFail(number, at: offset, in: places, "flip of \(bit)")
      }
      try file.seek(toOffset: UInt64(offset))
      file.write(Data([good[offset]]))
    }
    #expect(try readAll(folder) == committed)
  }

  @Test(arguments: [1, 3])
  func `a cut is an error with the position`(number: Int) throws {
    let good = try contents(segment(number))
    let end = number == 3 ? Int(try Trail.info(folder: folder).segments[2].bytes) : good.count
    let places = blocks(good)
    for length in (0..<end).reversed() {
      #expect(truncate(segment(number), off_t(length)) == 0)
      mustFail(number, at: length, in: places, "cut")
    }
  }

  @Test func `the writer refuses damage below the mark and changes nothing`() throws {
    let good = try contents(segment(3))
    let end = Int(try Trail.info(folder: folder).segments[2].bytes)
    for offset in stride(from: 0, to: end, by: 3) {
      var bad = good
      bad[offset] ^= 0x10
      try put(bad, segment(3))
      fails(offset == 8 || offset == 9 ? .trailVersion : .trailDamaged, "flip at \(offset)") {
        _ = try openWriter(folder, options)
      }
      #expect(try contents(segment(3)) == bad)
      try put(good[..<offset], segment(3))
      fails(.trailDamaged, "cut at \(offset)") { _ = try openWriter(folder, options) }
    }
  }

  @Test func `verify finds what a reader finds`() throws {
    var calls: [UInt64] = []
    let summary = try Trail.verify(folder: folder) { done, total in
      calls.append(done)
      #expect(done <= total)
    }
    #expect(calls == calls.sorted() && calls.count > 5)
    #expect(summary.segments == 3)
    #expect(summary.transactions == UInt64(committed.count { if case .commit = $0 { true } else { false } }))
    #expect(summary.changes == UInt64(committed.count { if case .change = $0 { true } else { false } }))
    var bad = try contents(segment(2))
    bad[bad.count - 100] ^= 1
    try put(bad, segment(2))
    fails(.trailDamaged) { _ = try Trail.verify(folder: folder) }
  }

  @Test func `a missing segment is damage`() throws {
    try FileManager.default.removeItem(atPath: segment(2))
    let (seen, error) = readUntilError(folder)
    #expect(!seen.isEmpty && error?.code == .trailDamaged)
    try FileManager.default.removeItem(atPath: segment(3))
    fails(.trailDamaged) { _ = try openWriter(folder, options) }
  }

  @Test func `a segment of another trail is damage`() throws {
    let other = temp("state/other.pos")
    let script = Script(try TrailWriter.open(folder: other, name: till, options: options, now: { 0 }))
    while script.writer.end.position.segment < 3 {
      try script.transaction(rows: 3)
      try script.writer.sync()
    }
    try script.writer.close()
    try FileManager.default.removeItem(atPath: segment(2))
    try FileManager.default.copyItem(atPath: "\(other)/00000002.seg", toPath: segment(2))
    #expect(readUntilError(folder).1?.code == .trailDamaged)
  }

  @Test func `a broken newer slot of the mark leaves the older one`() throws {
    let good = try contents("\(folder)/durable")
    let newest = try #require(DurableMark(good[0..<128]))
    let older = try #require(DurableMark(good[512..<640]))
    let offset = newest.generation > older.generation ? 0 : 512
    for byte in 0..<128 {
      var bad = good
      bad[offset + byte] ^= 0x04
      try put(bad, "\(folder)/durable")
      let seen = try readAll(folder)
      #expect(seen.count < committed.count && Array(committed.prefix(seen.count)) == seen)
    }
    let script = Script(try openWriter(folder, options), committed: committed)
    #expect(script.writer.recovery == nil)
    try script.transaction()
    try script.writer.close()
    #expect(try readAll(folder) == script.committed)
  }

  @Test func `two broken slots of the mark are damage`() throws {
    try put([UInt8](repeating: 7, count: 640), "\(folder)/durable")
    fails(.trailDamaged) { _ = try readAll(folder) }
    fails(.trailDamaged) { _ = try openWriter(folder, options) }
    try FileManager.default.removeItem(atPath: "\(folder)/durable")
    fails(.trailMissing) { _ = try readAll(folder) }
    fails(.trailDamaged) { _ = try openWriter(folder, options) }
  }

  @Test func `later versions and features are refused by name`() throws {
    let good = try contents(segment(1))
    func header(_ change: (inout [UInt8]) -> Void) throws {
      var bytes = good
      change(&bytes)
      let sum = CRC32C.of(Array(bytes[..<508]))
      withUnsafeBytes(of: sum.littleEndian) { bytes.replaceSubrange(508..<512, with: $0) }
      try put(bytes, segment(1))
    }
    try header { $0[8] = 2 }
    fails(.trailVersion) { _ = try readAll(folder) }
    try header { $0[12] = 1 }
    fails(.trailVersion) { _ = try readAll(folder) }
    try header { $0[14] = 1 }
    #expect(try readAll(folder) == committed)
  }

  @Test func `lengths that lie do not allocate`() throws {
    let good = try contents(segment(1))
    let place = try #require(blocks(good).first)
    for (field, value) in [(4, UInt32.max), (8, UInt32.max), (8, 1 << 30), (8, 0), (4, 0)] {
      var bytes = good
      withUnsafeBytes(of: value.littleEndian) {
        bytes.replaceSubrange(place.file.lowerBound + field..<place.file.lowerBound + field + 4, with: $0)
      }
      // With a checksum that is right, as far as there can be one.
      let stored = field == 4 ? Int(clamping: value) : Int(place.header.storedLength)
      if place.file.lowerBound + 72 + stored <= bytes.count {
        let range = place.file.lowerBound + 72..<place.file.lowerBound + 72 + stored
        let sum = CRC32C.of(Array(bytes[place.file.lowerBound..<place.file.lowerBound + 68] + bytes[range]))
        withUnsafeBytes(of: sum.littleEndian) {
          bytes.replaceSubrange(place.file.lowerBound + 68..<place.file.lowerBound + 72, with: $0)
        }
      }
      try put(bytes, segment(1))
      #expect(readUntilError(folder).1?.code == .trailDamaged, "\(field) \(value)")
    }
  }
}

extension BlockPlace { static let headerLength = 512 }
