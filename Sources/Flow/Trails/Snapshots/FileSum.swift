import CodecKit
import SystemKit

/// The SHA-256 of a file.
///
///     try FileSum.of(File("erp.db", .read)) { _, _ in }.sum   // 64 hexadecimal digits
package enum FileSum {
  private static let pieceBytes = 1 << 20

  /// Returns whether a text is a SHA-256: 64 lower-case hexadecimal digits.
  package static func isSum(_ text: String) -> Bool {
    text.utf8.count == 64 && text.utf8.allSatisfy { (0x30...0x39).contains($0) || (0x61...0x66).contains($0) }
  }

  package static func of(
    _ file: File, _ progress: (_ done: UInt64, _ total: UInt64) throws -> Void
  ) throws -> (sum: String, bytes: UInt64) {
    let total = try file.size
    let hash = try SHA256()
    let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: pieceBytes, alignment: 16)
    defer { buffer.deallocate() }
    var done: UInt64 = 0
    while true {
      let count = try file.read(into: buffer, at: done)
      if count == 0 { return (hash.finalize().hex, done) }
      hash.update(UnsafeRawBufferPointer(rebasing: buffer[..<count]))
      done += UInt64(count)
      Pulse.beat()
      try progress(done, max(done, total))
    }
  }
}
