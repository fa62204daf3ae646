import CShims

/// The checksum CRC-32C (Castagnoli), as in RFC 3720, appendix B.4.
package enum CRC32C {
  /// Returns the checksum of `bytes`, continued from `before`: the checksum of the bytes before them, 0 if there are
  /// none.
  package static func of(_ bytes: UnsafeRawBufferPointer, continuing before: UInt32 = 0) -> UInt32 {
    cairn_crc32c(before, bytes.baseAddress, bytes.count)
  }

  package static func of(_ bytes: [UInt8]) -> UInt32 { bytes.withUnsafeBytes { of($0) } }
}
