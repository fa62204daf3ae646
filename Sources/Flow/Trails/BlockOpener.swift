import Changes
import CodecKit
import Synchronization

/// Checks and unpacks blocks, one after the other, into the same memory.
final class BlockOpener {
  static let usualBytes = BlockMemory.usualBytes
  /// The largest allowed ratio of a block's content to its stored bytes. zstd makes at most 128 KiB from four bytes.
  private static let ratioMax = 1 << 15

  /// The place from which a block comes, which limits its size.
  enum Origin {
    /// A trail of this node, or a copy whose blocks have been checked. A block may contain a record of 1 GiB. The
    /// reader's ``BlockShare`` has reserved the block's memory.
    case trail
    /// A peer. A block has at most ``BlockMemory/blockBytesMax`` bytes.
    case peer
  }

  private let origin: Origin
  private let memory: BlockMemory
  private var unpacked = Scratch(capacity: 128 << 10)
  private let zstd = Zstd()
  private var claim: BlockMemory.Claim?
  /// The node that sends the blocks, if ``Origin/peer`` is their origin.
  fileprivate var sender = ""

  init(_ origin: Origin = .trail, memory: BlockMemory = .shared) { (self.origin, self.memory) = (origin, memory) }

  deinit { if let claim { memory.free(claim) } }

  /// Checks and unpacks a block.
  ///
  /// - Parameter checksum: The checksum of the header and the stored bytes.
  /// - Parameter chain: The chain hash before the block.
  /// - Returns: The content, valid until the next call and as long as `stored` is valid.
  func open(
    _ block: BlockHeader, _ stored: UnsafeRawBufferPointer, checksum: UInt32, at place: Position, chain: ChainHash
  ) throws -> UnsafeRawBufferPointer {
    try Self.check(block, checksum: checksum, at: place, chain: chain)
    return try unpack(block, stored, place)
  }

  /// Throws ``SegmentFault`` if a block's checksum, position or chain hash is wrong.
  static func check(_ block: BlockHeader, checksum: UInt32, at place: Position, chain: ChainHash) throws {
    guard checksum == block.checksum else {
      throw SegmentFault(
        .torn, place, "block checksum is 0x\(UInt64(block.checksum).hex(8)), expected 0x\(UInt64(checksum).hex(8))")
    }
    guard block.contentOffset == place.offset else {
      throw SegmentFault(.torn, place, "the block gives its own position as \(block.contentOffset.hex(8))")
    }
    guard block.chain == chain else {
      throw SegmentFault(.torn, place, "chain hash before the block is \(block.chain), expected \(chain)")
    }
  }

  /// Returns the content of a block whose checksum is right. The content is valid until the next call or ``release()``.
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
      guard length <= stored.count * Self.ratioMax else {
        throw SegmentFault(.content, place, "no \(stored.count) bytes decompress to \(length) bytes")
      }
      let target = try room(length)
      guard zstd.decompress(stored, into: target) else {
        release()
        throw SegmentFault(.content, place, "the block does not decompress to \(length) bytes")
      }
      return UnsafeRawBufferPointer(target)
    default: throw SegmentFault(.version, place, "codec \(block.codec) is unknown")
    }
  }

  /// Returns the memory that unpacking a block takes, in bytes. Zero if the block is not compressed, or if its content
  /// is larger than allowed.
  static func unpackedLength(_ block: BlockHeader) -> Int {
    let isRefused =
      block.contentLength > BlockHeader.contentLengthMax
      || Int(block.contentLength) > Int(block.storedLength) * ratioMax
    return block.codec == BlockHeader.Codec.none || isRefused ? 0 : Int(block.contentLength)
  }

  /// Frees the memory of a block of more than 1 MiB. The content of the block is no longer valid.
  func release() {
    unpacked.shrink(above: Self.usualBytes)
    if let claim { memory.free(claim) }
    claim = nil
  }

  private func room(_ length: Int) throws -> UnsafeMutableRawBufferPointer {
    release()
    if origin == .peer, length > Self.usualBytes {
      claim = try memory.claim(length, of: sender, for: .unpacking)
    }
    return try unpacked.bytes(length)
  }
}

/// The unused ``BlockOpener`` objects for blocks from peers, shared by all copies.
final class PeerOpeners: Sendable {
  static let shared = PeerOpeners()
  private static let keptMax = 8

  private struct Idle: @unchecked Sendable { let opener: BlockOpener }

  private let idle = Mutex<[Idle]>([])

  func with<T>(blocksOf sender: String, _ body: (BlockOpener) throws -> T) rethrows -> T {
    let opener = idle.withLock { $0.popLast() }?.opener ?? BlockOpener(.peer)
    opener.sender = sender
    let back = Idle(opener: opener)
    defer {
      opener.release()
      idle.withLock { if $0.count < Self.keptMax { $0.append(back) } }
    }
    return try body(opener)
  }
}
