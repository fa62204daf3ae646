/// A parser of numbers with a unit, as in the conf: `14 days`, `500 ms`, `20 GiB`.
package enum Quantity {
  package enum Misread: Error, Equatable {
    case noNumber
    case noUnit
    case unknownUnit(String)
    case tooLarge
  }

  static let durationUnits: [(name: String, milliseconds: Double)] = [
    ("ms", 1), ("s", 1000), ("min", 60_000), ("h", 3_600_000), ("d", 86_400_000), ("weeks", 604_800_000),
  ]

  private static let durationNames: [String: String] = [
    "millisecond": "ms", "milliseconds": "ms", "sec": "s", "second": "s", "seconds": "s", "minute": "min",
    "minutes": "min", "hour": "h", "hours": "h", "day": "d", "days": "d", "week": "weeks", "w": "weeks",
  ]

  static let byteUnits: [(name: String, bytes: Double)] = [
    ("B", 1), ("KiB", 1024), ("MiB", 1_048_576), ("GiB", 1_073_741_824), ("TiB", 1_099_511_627_776), ("kB", 1000),
    ("MB", 1e6), ("GB", 1e9), ("TB", 1e12),
  ]

  package static func duration(_ text: String) throws(Misread) -> Duration {
    let (number, unit) = try split(text)
    let name = durationNames[unit.lowercased()] ?? unit
    guard let factor = durationUnits.first(where: { $0.name == name })?.milliseconds else {
      throw .unknownUnit(unit)
    }
    let milliseconds = (number * factor).rounded()
    guard milliseconds < 1e14 else { throw .tooLarge }
    return .milliseconds(Int64(milliseconds))
  }

  /// Returns a number of bytes. The case of the unit is ignored.
  static func bytes(_ text: String) throws(Misread) -> Int64 {
    let (number, unit) = try split(text)
    guard let factor = byteUnits.first(where: { $0.name.lowercased() == unit.lowercased() })?.bytes else {
      throw .unknownUnit(unit)
    }
    let bytes = (number * factor).rounded()
    guard bytes < 1e18 else { throw .tooLarge }
    return Int64(bytes)
  }

  /// Returns the unit with the same first letter that is most similar to `unit`; nil if there is none.
  static func nearest(_ unit: String, in units: [String]) -> String? {
    guard let first = unit.lowercased().first else { return nil }
    let alike = units.filter { $0.lowercased().first == first }
    return unit.lowercased().nearest(in: alike) ?? alike.first
  }

  private static func split(_ text: String) throws(Misread) -> (Double, String) {
    let digits = text.prefix { $0.isASCII && ($0.isNumber || $0 == ".") }
    guard let number = Double(digits) else { throw .noNumber }
    let unit = String(text[digits.endIndex...].drop { $0 == " " })
    guard !unit.isEmpty else { throw .noUnit }
    return (number, unit)
  }
}
