import Changes

/// A position in PostgreSQL's write-ahead log. Printed `16/B374D848`.
///
///     LSN("16/B374D848")?.value   // 0x16_b374_d848
package struct LSN: Comparable, Hashable, Sendable, CustomStringConvertible {
  package let value: UInt64
  package init(_ value: UInt64) { self.value = value }

  /// Reads a position from its text; nil for any other text.
  package init?(_ text: String) {
    let parts = text.split(separator: "/", omittingEmptySubsequences: false)
    guard parts.count == 2, let high = UInt32(parts[0], radix: 16), let low = UInt32(parts[1], radix: 16) else {
      return nil
    }
    self.init(UInt64(high) << 32 | UInt64(low))
  }

  package static func < (a: LSN, b: LSN) -> Bool { a.value < b.value }

  package var description: String {
    String(value >> 32, radix: 16, uppercase: true) + "/"
      + String(value & 0xffff_ffff, radix: 16, uppercase: true)
  }
}
