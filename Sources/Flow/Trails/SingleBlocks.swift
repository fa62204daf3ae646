import Changes
import CodecKit
import SystemKit

/// Reads single blocks of a segment in any order, into the same memory. Checks a block's checksum and its place, and
/// not the chain.
///
///     let content = try blocks.read(file, at: 512, content: 0, segment: 1).content
final class SingleBlocks {
  private var stored = Scratch(capacity: 64 << 10)
  private let opener = BlockOpener()
  private let share = BlockShare()

  /// Returns the header and the unpacked content of the block at a file offset. The content is valid until the next
  /// call or ``release()``.
  func read(
    _ file: File, at offset: UInt64, content: UInt64, segment: UInt64
  ) throws -> (header: BlockHeader, content: UnsafeRawBufferPointer) {
    let place = Position(segment: segment, offset: content)
    let start = try stored.bytes(BlockHeader.size)
    guard try file.read(into: start, at: offset) == start.count,
      let header = BlockHeader(UnsafeRawBufferPointer(start))
    else { throw SegmentFault(.torn, place, "there is no block here") }
    let begun = BlockHeader.checksumStart(UnsafeRawBufferPointer(start))
    guard try UInt64(header.storedLength) <= file.size else {
      throw SegmentFault(.torn, place, "the file ends in a block")
    }
    stored.shrink(above: BlockOpener.usualBytes)
    opener.release()
    try share.take(for: header)
    let bytes = try stored.bytes(Int(header.storedLength))
    guard try file.read(into: bytes, at: offset + UInt64(BlockHeader.size)) == bytes.count else {
      throw SegmentFault(.torn, place, "the file ends in a block")
    }
    let checksum = CRC32C.of(UnsafeRawBufferPointer(bytes), continuing: begun)
    let unpacked = try opener.open(
      header, UnsafeRawBufferPointer(bytes), checksum: checksum, at: place, chain: header.chain)
    return (header, unpacked)
  }

  /// Frees the memory of a block of more than 1 MiB.
  func release() {
    opener.release()
    stored.shrink(above: BlockOpener.usualBytes)
    share.leave()
  }
}
