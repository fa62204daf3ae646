/// Reads little-endian integers from the bytes of a header, whose length the caller has checked.
struct Fields {
  private let bytes: [UInt8]
  private var offset = 0

  init(_ bytes: [UInt8]) { self.bytes = bytes }

  mutating func next<T: FixedWidthInteger>() -> T {
    defer { offset += MemoryLayout<T>.size }
    return bytes.withUnsafeBytes { T(littleEndian: $0.loadUnaligned(fromByteOffset: offset, as: T.self)) }
  }

  mutating func next(_ count: Int) -> ArraySlice<UInt8> {
    defer { offset += count }
    return bytes[offset..<offset + count]
  }
}
