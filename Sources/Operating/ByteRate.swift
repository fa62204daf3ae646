/// A rate as people write it: `500KiB`, `10MiB`, `1.5 GB`; bytes a second.
package struct ByteRate: Equatable, Sendable {
  package let bytesPerSecond: Int

  private static let units: [(name: String, bytes: Double)] = [
    ("kib", 1024), ("mib", 1_048_576), ("gib", 1_073_741_824), ("kb", 1000), ("mb", 1_000_000), ("gb", 1_000_000_000),
    ("k", 1024), ("m", 1_048_576), ("g", 1_073_741_824), ("b", 1), ("", 1),
  ]

  /// Nil for anything else, and for less than a byte.
  package init?(_ text: String) {
    let lower = text.lowercased().filter { $0 != " " }
    let plain = lower.hasSuffix("/s") ? String(lower.dropLast(2)) : lower
    guard let unit = Self.units.first(where: { plain.hasSuffix($0.name) }),
      let number = Double(String(plain.dropLast(unit.name.count))), number.isFinite
    else { return nil }
    let bytes = number * unit.bytes
    guard bytes >= 1, bytes < 1e15 else { return nil }
    bytesPerSecond = Int(bytes)
  }
}
