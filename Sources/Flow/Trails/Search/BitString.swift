/// Appends numbers of some bits each to a string of bits, the lowest bit of each byte first.
struct BitWriter {
  private(set) var bytes: [UInt8] = []
  private var held: UInt64 = 0
  private var count: UInt64 = 0

  /// Appends the lowest `bits` bits of a number; at most 48.
  mutating func append(_ value: UInt64, bits: Int) {
    held |= (value & ((1 << UInt64(bits)) - 1)) << count
    count += UInt64(bits)
    while count >= 8 {
      bytes.append(UInt8(truncatingIfNeeded: held))
      held >>= 8
      count -= 8
    }
  }

  /// Appends `ones` ones and a zero.
  mutating func append(ones: UInt64) {
    var left = ones
    while left > 0 {
      let some = min(left, 32)
      append(.max, bits: Int(some))
      left -= some
    }
    append(0, bits: 1)
  }

  /// Fills the last byte with zeros.
  mutating func finish() { if count > 0 { append(0, bits: Int(8 - count)) } }
}

/// Reads what a ``BitWriter`` wrote. Every method returns nil after the last bit.
struct BitReader {
  private let bytes: ArraySlice<UInt8>
  private var at = 0

  init(_ bytes: ArraySlice<UInt8>) { self.bytes = bytes }

  mutating func next(bits: Int) -> UInt64? {
    guard at + bits <= bytes.count * 8 else { return nil }
    var value: UInt64 = 0
    var have = 0
    while have < bits {
      let some = min(8 - at % 8, bits - have)
      let byte = UInt64(bytes[bytes.startIndex + at / 8]) >> UInt64(at % 8) & ((1 << UInt64(some)) - 1)
      value |= byte << UInt64(have)
      have += some
      at += some
    }
    return value
  }

  /// Reads ones up to a zero, and returns their number.
  mutating func ones() -> UInt64? {
    var count: UInt64 = 0
    while let bit = next(bits: 1) {
      if bit == 0 { return count }
      count += 1
    }
    return nil
  }
}
