import Changes
import CodecKit
import SystemKit
import TestServers
import Trails

/// The rate at which one core checks received blocks: checksum, decompression, chain hash
/// (`docs/trail-format.md`). The bytes are in memory, and nothing is written.
enum CheckAlone {
  private static let headerBytes = 72

  /// Returns the rate in bytes of trail files per second, over the first segments.
  static func rate(folder: String, bytesMax: UInt64) throws -> Double {
    let (zstd, hasher) = (Zstd(), try SHA256())
    var (seconds, bytes) = (0.0, UInt64(0))
    var content = Scratch(capacity: 1 << 20)
    for segment in try Trail.info(folder: folder).segments where segment.isSealed && bytes < bytesMax {
      let memory = UnsafeMutableRawBufferPointer.allocate(byteCount: Int(segment.bytes), alignment: 16)
      defer { memory.deallocate() }
      _ = try File("\(folder)/\(segment.number.hex(8)).seg", .read).read(into: memory, at: 0)
      let length = UInt16(littleEndian: memory.loadUnaligned(fromByteOffset: 10, as: UInt16.self))
      var rest = UnsafeRawBufferPointer(rebasing: UnsafeRawBufferPointer(memory)[Int(length)...])
      let begun = Stopwatch()
      while !rest.isEmpty { rest = try block(rest, zstd, hasher, &content) }
      seconds += begun.seconds
      bytes += segment.bytes
    }
    return Double(bytes) / seconds
  }

  /// Checks the first block. Returns the bytes after it.
  private static func block(
    _ bytes: UnsafeRawBufferPointer, _ zstd: Zstd, _ hasher: SHA256, _ memory: inout Scratch
  ) throws -> UnsafeRawBufferPointer {
    func field(_ offset: Int) -> UInt32 {
      UInt32(littleEndian: bytes.loadUnaligned(fromByteOffset: offset, as: UInt32.self))
    }
    let (stored, isPacked) = (Int(field(4)), bytes[12] == 1)
    let end = headerBytes + stored
    let body = UnsafeRawBufferPointer(rebasing: bytes[headerBytes..<end])
    let sum = CRC32C.of(body, continuing: CRC32C.of(UnsafeRawBufferPointer(rebasing: bytes[..<68])))
    guard sum == field(68) else { throw TestFailure("a block of the trail is broken") }
    let content = try memory.bytes(Int(field(8)))
    if isPacked, !zstd.decompress(body, into: content) { throw TestFailure("a block cannot be unpacked") }
    if !content.isEmpty {
      hasher.update(UnsafeRawBufferPointer(rebasing: bytes[32..<64]))
      hasher.update(isPacked ? UnsafeRawBufferPointer(content) : body)
      let chain = hasher.finalize()
      guard end + headerBytes > bytes.count || chain.elementsEqual(bytes[end + 32..<end + 64]) else {
        throw TestFailure("the chain is broken")
      }
    }
    return UnsafeRawBufferPointer(rebasing: bytes[end...])
  }
}
