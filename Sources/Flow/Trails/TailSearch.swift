import CodecKit
import Glibc
import SystemKit

/// Searches a segment's file for blocks after a damaged place (the break).
struct TailSearch {
  private static let windowBytes = 1 << 20

  let file: File
  let size: UInt64
  /// The file offset after the last whole block (the break).
  let breakOffset: UInt64
  /// The offset after the last whole block in the segment's unpacked content.
  let contentOffset: UInt64

  /// Returns the file offset of a whole block whose header says that the file was synced beyond ``breakOffset``; nil if
  /// there is none. Such a block proves damage.
  func laterSyncedBlock() throws -> UInt64? {
    var window = Scratch(capacity: Self.windowBytes)
    var offset = breakOffset + 1
    while offset < size {
      let buffer = try window.bytes(Self.windowBytes)
      let found = try file.read(into: buffer, at: offset)
      var at = 0
      while found - at >= 4, let base = buffer.baseAddress, let hit = memchr(base + at, 0x43, found - at - 3) {
        at = UnsafeRawPointer(hit) - UnsafeRawPointer(base)
        let magic = UInt32(littleEndian: buffer.loadUnaligned(fromByteOffset: at, as: UInt32.self))
        if magic == BlockHeader.magic, try isLaterSyncedBlock(offset + UInt64(at)) { return offset + UInt64(at) }
        at += 1
      }
      if found < buffer.count { break }
      // The magic number of a block may be partly in this window and partly in the next one.
      offset += UInt64(found - 3)
    }
    return nil
  }

  /// Returns the number of bytes after the last whole block, without zeros at the end of the file.
  func usedBytes() throws -> UInt64 {
    var window = Scratch(capacity: Self.windowBytes)
    var offset = breakOffset
    var end = breakOffset
    while offset < size {
      let buffer = try window.bytes(Self.windowBytes)
      let found = try file.read(into: buffer, at: offset)
      if found == 0 { break }
      if !isZero(UnsafeRawBufferPointer(rebasing: buffer[..<found])) {
        var last = found - 1
        while buffer[last] == 0 { last -= 1 }
        end = offset + UInt64(last) + 1
      }
      offset += UInt64(found)
    }
    return end - breakOffset
  }

  private func isZero(_ bytes: UnsafeRawBufferPointer) -> Bool {
    guard let base = bytes.baseAddress, bytes.count > 1 else { return bytes.allSatisfy { $0 == 0 } }
    return bytes[0] == 0 && memcmp(base, base + 1, bytes.count - 1) == 0
  }

  private func isLaterSyncedBlock(_ offset: UInt64) throws -> Bool {
    var window = Scratch(capacity: 64 << 10)
    let bytes = try window.bytes(BlockHeader.size)
    guard try file.read(into: bytes, at: offset) == bytes.count, let block = BlockHeader(UnsafeRawBufferPointer(bytes))
    else { return false }
    let start = offset + UInt64(BlockHeader.size)
    guard block.durable > breakOffset, block.durable <= offset, block.contentOffset >= contentOffset,
      UInt64(block.storedLength) <= size - min(size, start)
    else { return false }
    var checksum = BlockHeader.checksumStart(UnsafeRawBufferPointer(bytes))
    var done: UInt64 = 0
    while done < UInt64(block.storedLength) {
      let piece = try window.bytes(min(64 << 10, Int(UInt64(block.storedLength) - done)))
      guard try file.read(into: piece, at: start + done) == piece.count else { return false }
      checksum = CRC32C.of(UnsafeRawBufferPointer(piece), continuing: checksum)
      done += UInt64(piece.count)
    }
    return checksum == block.checksum
  }
}
