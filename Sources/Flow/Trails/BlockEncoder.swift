import Changes
import CodecKit

/// Encodes the blocks of a writer: compression, header, checksum.
final class BlockEncoder {
  /// The smallest content that is compressed, in bytes.
  private static let compressedBytesMin = 1024
  private static let usualBytes = 1 << 20

  private let compress: Bool
  private let zstd = Zstd()
  private let hasher: SHA256
  private var buffer = Scratch(capacity: 128 << 10)

  init(compress: Bool) throws {
    self.compress = compress
    hasher = try SHA256()
  }

  /// Returns a block with this content: the header with its checksum, then the content, compressed if that makes it
  /// smaller. Valid until the next call.
  func block(
    _ content: UnsafeRawBufferPointer, flags: BlockHeader.Flags, contentOffset: UInt64, durable: UInt64,
    chain: ChainHash
  ) throws -> UnsafeRawBufferPointer {
    if content.count <= Self.usualBytes { buffer.shrink(above: Self.usualBytes + BlockHeader.size) }
    let out = try buffer.bytes(BlockHeader.size + content.count)
    let room = UnsafeMutableRawBufferPointer(rebasing: out[BlockHeader.size...])
    var header = BlockHeader(
      storedLength: UInt32(content.count), contentLength: UInt32(content.count), codec: BlockHeader.Codec.none,
      flags: flags, contentOffset: contentOffset, durable: durable, chain: chain)
    if compress, content.count >= Self.compressedBytesMin, let length = zstd.compress(content, into: room),
      length < content.count
    {
      header.codec = BlockHeader.Codec.zstd
      header.storedLength = UInt32(length)
    } else {
      room.copyMemory(from: content)
    }
    let block = UnsafeMutableRawBufferPointer(rebasing: out[..<(BlockHeader.size + Int(header.storedLength))])
    header.encode(before: block)
    return UnsafeRawBufferPointer(block)
  }

  func chain(before: ChainHash, content: UnsafeRawBufferPointer) -> ChainHash {
    content.isEmpty ? before : hasher.chain(before: before, content: content)
  }
}
