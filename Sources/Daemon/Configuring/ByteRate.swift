/// A rate in bytes per second, as in the conf: `500KiB`, `10MiB/s`, `1.5 GB`.
///
///     ByteRate("500KiB")?.bytesPerSecond   // 512000
package struct ByteRate: Equatable, Sendable {
  package let bytesPerSecond: Int

  /// Parses a rate; nil for any other text or less than one byte per second. The units `k`, `m` and `g` are powers of
  /// 1024.
  package init?(_ text: String) {
    let lower = text.lowercased().filter { $0 != " " }
    var plain = lower.hasSuffix("/s") ? String(lower.dropLast(2)) : lower
    if let last = plain.last, "kmg".contains(last) { plain += "ib" }
    if plain.last?.isNumber == true { plain += "b" }
    guard let bytes = try? Quantity.bytes(plain), bytes >= 1, bytes < 1_000_000_000_000_000 else { return nil }
    bytesPerSecond = Int(bytes)
  }
}
