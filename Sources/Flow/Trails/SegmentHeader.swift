import Changes
import CodecKit
import SystemKit

/// The header of a segment (`docs/trail-format.md`, Segment).
struct SegmentHeader: Equatable {
  static let magic: UInt64 = 0x4c52_544e_5249_4143  // CAIRNTRL
  static let version: UInt16 = 1
  /// The length of the headers that this version of Cairn writes, in bytes. A reader accepts any length.
  static let usualLength = 512
  /// The number of bytes at the start of a header that contain the header's length.
  static let startLength = 16
  private static let fixedLength = 88

  var trail: TrailID
  var number: UInt64
  /// The time at which the segment was created, µs since 1970 UTC.
  var created: Int64
  var firstTransaction: UInt64
  var chain: ChainHash
  var name: TrailName
  /// The length of the header in bytes, which is the file offset of the first block.
  var length = UInt64(usualLength)

  /// Returns the encoded header; nil if a name is too long for it.
  func encoded() -> [UInt8]? {
    let length = Int(length)
    var out = ByteWriter(capacity: length)
    out.appendFixed(Self.magic)
    out.appendFixed(Self.version)
    out.appendFixed(UInt16(length))
    out.appendFixed(UInt32(0))
    out.append(trail.bytes)
    out.appendFixed(number)
    out.appendFixed(created)
    out.appendFixed(firstTransaction)
    out.append(chain.bytes)
    for part in [name.origin, name.name] {
      guard part.utf8.count + 2 <= length - 4 - out.count else { return nil }
      out.appendFixed(UInt16(part.utf8.count))
      out.append(Array(part.utf8))
    }
    while out.count < length - 4 { out.append(0) }
    out.appendFixed(CRC32C.of(out.bytes))
    return Array(out.bytes)
  }

  static func read(_ file: File, number: UInt64) throws -> SegmentHeader {
    func bytes(_ count: Int) throws -> [UInt8] {
      var bytes = [UInt8](repeating: 0, count: count)
      let found = try bytes.withUnsafeMutableBytes { buffer throws in try file.read(into: buffer, at: 0) }
      guard found == count else {
        throw fault(number, "the file ends in the segment header, after \(found) bytes")
      }
      return bytes
    }
    let start = try bytes(startLength)
    let length: Int = try start.withUnsafeBytes { start throws in try Self.length(of: start, number: number) }
    let whole = try bytes(length)
    return try whole.withUnsafeBytes { buffer throws in try decode(buffer, number: number) }
  }

  /// Returns the length of a segment header, in bytes, from its first ``startLength`` bytes.
  static func length(of start: UnsafeRawBufferPointer, number: UInt64) throws -> Int {
    var fixed = Fields(Array(start[..<startLength]))
    let magic: UInt64 = fixed.next()
    let version: UInt16 = fixed.next()
    let length: UInt16 = fixed.next()
    guard magic == Self.magic else {
      throw fault(number, "segment magic is 0x\(magic.hex(16)), expected 0x\(Self.magic.hex(16))")
    }
    guard version == Self.version else {
      throw fault(number, "format version is \(version), this program knows \(Self.version)", .version)
    }
    guard Int(length) >= fixedLength + 8 else { throw fault(number, "segment header length is \(length)") }
    return Int(length)
  }

  static func decode(_ bytes: UnsafeRawBufferPointer, number: UInt64) throws -> SegmentHeader {
    let expected = CRC32C.of(UnsafeRawBufferPointer(rebasing: bytes.dropLast(4)))
    let checksum = UInt32(littleEndian: bytes.loadUnaligned(fromByteOffset: bytes.count - 4, as: UInt32.self))
    guard checksum == expected else {
      throw fault(
        number, "segment header checksum is 0x\(UInt64(checksum).hex(8)), expected 0x\(UInt64(expected).hex(8))")
    }
    let features = UInt32(littleEndian: bytes.loadUnaligned(fromByteOffset: 12, as: UInt32.self))
    guard features & 0xffff == 0 else {
      throw fault(number, "feature bits are 0x\(UInt64(features).hex(8))", .version)
    }
    var r = ByteReader(UnsafeRawBufferPointer(rebasing: bytes[16..<bytes.count - 4]))
    do {
      guard let trail = TrailID(try r.read(16)) else { throw fault(number, "no trail id") }
      let written: UInt64 = try r.readFixed()
      let created: Int64 = try r.readFixed()
      let first: UInt64 = try r.readFixed()
      guard let chain = ChainHash(try r.read(32)) else { throw fault(number, "no chain hash") }
      let origin = String(decoding: try r.read(Int(try r.readFixed(UInt16.self))), as: UTF8.self)
      let name = String(decoding: try r.read(Int(try r.readFixed(UInt16.self))), as: UTF8.self)
      guard written == number else {
        throw fault(number, "segment number is \(written), expected \(number)", .content)
      }
      guard NumberBounds.isSegment(number) else { throw fault(number, "no segment has the number \(number)", .content) }
      guard first > 0 else { throw fault(number, "number of the first transaction is 0", .content) }
      guard NumberBounds.isNumber(first) else {
        throw fault(number, "number of the first transaction is \(first)", .content)
      }
      guard NumberBounds.isTime(created) else { throw fault(number, "time of creation is \(created) µs", .content) }
      return SegmentHeader(
        trail: trail, number: number, created: created, firstTransaction: first, chain: chain,
        name: TrailName(origin: origin, name: name), length: UInt64(bytes.count))
    } catch let error as DecodingError {
      throw fault(number, "segment header: \(error.problem)", .content)
    }
  }

  private static func fault(
    _ number: UInt64, _ problem: String, _ kind: SegmentFault.Kind = .torn
  ) -> SegmentFault {
    SegmentFault(kind, Position(segment: number, offset: 0), problem)
  }
}
