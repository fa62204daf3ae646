import Changes
import CodecKit

/// The header of a block (`docs/trail-format.md`, Block).
struct BlockHeader {
  static let magic: UInt32 = 0x4b4c_4243  // CBLK
  static let size = 72
  /// The largest unpacked content of a block, in bytes: one record of 1 GiB.
  static let contentLengthMax: UInt32 = 1 << 30 + 16

  enum Codec {
    static let none: UInt8 = 0
    static let zstd: UInt8 = 1
  }

  struct Flags: OptionSet {
    let rawValue: UInt8
    /// The block ends with the end of a transaction.
    static let border = Flags(rawValue: 1)
    /// The writer synced the file after this block, before it wrote anything else.
    static let sync = Flags(rawValue: 2)
    /// The last block of a finished segment, without content.
    static let seal = Flags(rawValue: 4)
  }

  var storedLength: UInt32
  var contentLength: UInt32
  var codec: UInt8
  var flags: Flags
  var contentOffset: UInt64
  /// The file offset up to which the segment was synced when the block was written.
  var durable: UInt64
  /// The chain hash of everything in the trail before the block.
  var chain: ChainHash
  var checksum: UInt32 = 0
}

extension BlockHeader {
  /// Writes the header and its checksum into `buffer`, before the stored bytes that are already there.
  func encode(before buffer: UnsafeMutableRawBufferPointer) {
    func put<T: FixedWidthInteger>(_ value: T, _ offset: Int) {
      buffer.storeBytes(of: value.littleEndian, toByteOffset: offset, as: T.self)
    }
    put(Self.magic, 0)
    put(storedLength, 4)
    put(contentLength, 8)
    put(codec, 12)
    put(flags.rawValue, 13)
    put(UInt16(0), 14)
    put(contentOffset, 16)
    put(durable, 24)
    chain.bytes.withUnsafeBytes { UnsafeMutableRawBufferPointer(rebasing: buffer[32..<64]).copyMemory(from: $0) }
    put(UInt32(0), 64)
    let checksum = CRC32C.of(UnsafeRawBufferPointer(rebasing: buffer[..<68]))
    put(CRC32C.of(UnsafeRawBufferPointer(rebasing: buffer[Self.size...]), continuing: checksum), 68)
  }

  /// Decodes a header from 72 bytes; nil if they do not begin with the magic number. No other field is checked.
  init?(_ bytes: UnsafeRawBufferPointer) {
    func get<T: FixedWidthInteger>(_ offset: Int) -> T {
      T(littleEndian: bytes.loadUnaligned(fromByteOffset: offset, as: T.self))
    }
    guard get(0) == Self.magic, let chain = ChainHash(bytes[32..<64]) else { return nil }
    self.init(
      storedLength: get(4), contentLength: get(8), codec: get(12), flags: Flags(rawValue: get(13)),
      contentOffset: get(16), durable: get(24), chain: chain, checksum: get(68))
  }

  /// Returns the checksum of the header's bytes, to continue over the stored bytes of the block.
  static func checksumStart(_ header: UnsafeRawBufferPointer) -> UInt32 {
    CRC32C.of(UnsafeRawBufferPointer(rebasing: header[..<68]))
  }
}
