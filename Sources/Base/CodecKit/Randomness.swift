import Glibc

/// Returns `count` bytes from the kernel's random number generator. Stops the process if the generator fails.
package func randomBytes(_ count: Int) -> [UInt8] {
  var bytes = [UInt8](repeating: 0, count: count)
  bytes.withUnsafeMutableBytes { buffer in
    // One call gives at most 256 bytes.
    for start in stride(from: 0, to: count, by: 256) {
      let piece = UnsafeMutableRawBufferPointer(rebasing: buffer[start..<min(count, start + 256)])
      precondition(getentropy(piece.baseAddress, piece.count) == 0, "the kernel gives no random bytes")
    }
  }
  return bytes
}
