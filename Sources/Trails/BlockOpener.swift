import Changes
import CodecKit

/// Checks blocks and unpacks their contents, in memory that is used for block after block.
final class BlockOpener {
  /// Memory above it is kept only for a block that needs it.
  static let usualBytes = 1 << 20

  private var unpacked = Scratch(capacity: 128 << 10)
  private let zstd = Zstd()

  /// The content of a block that should stand at a position; valid until the next call, and no longer than the stored
  /// bytes. `checksum` is that of the header and the stored bytes as they were found.
  func open(
    _ block: BlockHeader, _ stored: UnsafeRawBufferPointer, checksum: UInt32, at place: Position, chain: ChainHash
  ) throws -> UnsafeRawBufferPointer {
    try Self.check(block, checksum: checksum, at: place, chain: chain)
    return try unpack(block, stored, place)
  }

  /// Throws when a block is not whole, or not one for a position and the chain hash before it.
  static func check(_ block: BlockHeader, checksum: UInt32, at place: Position, chain: ChainHash) throws {
    guard checksum == block.checksum else {
      throw SegmentFault(
        .torn, place, "block checksum is 0x\(UInt64(block.checksum).hex(8)), expected 0x\(UInt64(checksum).hex(8))")
    }
    guard block.contentOffset == place.offset else {
      throw SegmentFault(.torn, place, "the block says that it stands at \(block.contentOffset.hex(8))")
    }
    guard block.chain == chain else {
      throw SegmentFault(.torn, place, "chain hash before the block is \(block.chain), expected \(chain)")
    }
  }

  /// The content of a block whose checksum is right; valid until the next call.
  func unpack(
    _ block: BlockHeader, _ stored: UnsafeRawBufferPointer, _ place: Position
  ) throws -> UnsafeRawBufferPointer {
    let length = Int(block.contentLength)
    guard block.contentLength <= BlockHeader.contentLengthMax else {
      throw SegmentFault(.content, place, "block content of \(length) bytes is too large")
    }
    guard !block.flags.contains(.seal) || length == 0 else {
      throw SegmentFault(.content, place, "the seal has content")
    }
    switch block.codec {
    case BlockHeader.Codec.none:
      guard length == stored.count else {
        throw SegmentFault(.content, place, "content length is \(length), there are \(stored.count) bytes")
      }
      return stored
    case BlockHeader.Codec.zstd:
      if length <= Self.usualBytes { unpacked.shrink(above: Self.usualBytes) }
      let target = unpacked.bytes(length)
      guard zstd.decompress(stored, into: target) else {
        throw SegmentFault(.content, place, "the block does not decompress to \(length) bytes")
      }
      return UnsafeRawBufferPointer(target)
    default: throw SegmentFault(.version, place, "codec \(block.codec) is unknown")
    }
  }
}
