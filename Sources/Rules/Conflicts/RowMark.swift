import Changes

/// A short form of a row's key, of 16 bytes, to find out whether two keys of one table are equal.
///
///     RowMark([UInt8](repeating: 7, count: 32))?.hex.count   // 32
package struct RowMark: Hashable, Sendable {
  private let high: UInt64
  private let low: UInt64

  package init(_ high: UInt64, _ low: UInt64) { (self.high, self.low) = (high, low) }

  /// Creates a mark from the first 16 bytes of a hash of the key; nil if there are fewer.
  package init?(_ hash: [UInt8]) {
    guard hash.count >= 16 else { return nil }
    func number(_ bytes: ArraySlice<UInt8>) -> UInt64 { bytes.reduce(0) { $0 << 8 | UInt64($1) } }
    self.init(number(hash[0..<8]), number(hash[8..<16]))
  }

  /// Reads the mark from its 32 hexadecimal digits; nil for any other text.
  package init?(hex text: String) {
    guard text.utf8.count == 32, let bytes = [UInt8](hex: text) else { return nil }
    self.init(bytes)
  }

  package var hex: String { high.hex(16) + low.hex(16) }
}
