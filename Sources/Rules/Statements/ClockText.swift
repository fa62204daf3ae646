import Changes

/// A time as SQLite's date functions print it, in UTC.
struct ClockText {
  let date: String
  let time: String
  let milliseconds: String

  /// Creates the texts for a time in µs since 1970 UTC.
  ///
  /// Source: https://sqlite.org/lang_datefunc.html; the calendar by
  /// https://howardhinnant.github.io/date_algorithms.html (civil_from_days).
  init(microseconds: Int64) {
    let seconds = Self.floor(microseconds, 1_000_000)
    milliseconds = Self.digits((microseconds - seconds * 1_000_000) / 1000, 3)
    let days = Self.floor(seconds, 86_400)
    let second = seconds - days * 86_400
    time = [second / 3600, second / 60 % 60, second % 60].map { Self.digits($0, 2) }.joined(separator: ":")
    let z = days + 719_468
    let era = Self.floor(z, 146_097)
    let dayOfEra = z - era * 146_097
    let yearOfEra = (dayOfEra - dayOfEra / 1460 + dayOfEra / 36_524 - dayOfEra / 146_096) / 365
    let dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
    let month = (5 * dayOfYear + 2) / 153
    let civil = month < 10 ? month + 3 : month - 9
    let year = yearOfEra + era * 400 + (civil <= 2 ? 1 : 0)
    let day = dayOfYear - (153 * month + 2) / 5 + 1
    date = "\(Self.digits(year, 4))-\(Self.digits(civil, 2))-\(Self.digits(day, 2))"
  }

  private static func floor(_ a: Int64, _ b: Int64) -> Int64 { a >= 0 ? a / b : (a - b + 1) / b }

  private static func digits(_ number: Int64, _ count: Int) -> String {
    let text = String(number)
    return String(repeating: "0", count: max(0, count - text.utf8.count)) + text
  }
}

extension Checker {
  /// Returns whether an argument of a date function has the same effect at any time and in any time zone. `now` has, as
  /// the statement's time replaces it.
  ///
  /// - Parameter word: As from ``clockWord(_:)``.
  /// - Parameter isTime: Whether the argument is the time itself. `subsec` as a time means now (SQLite 3.42).
  static func isSettled(_ word: String?, isTime: Bool) -> Bool {
    switch word {
    case nil: true
    case "now"?: isTime
    case "subsec"?, "subsecond"?: !isTime
    default: false
    }
  }

  /// Returns the value as a word in lower case if a date function reads it as a time or zone of the machine. Nil for any
  /// other value.
  ///
  /// SQLite reads a blob as a text, and a text up to its first NUL.
  static func clockWord(_ value: Value) -> String? {
    let bytes: [UInt8]
    switch value {
    case .text(let text), .exact(let text), .blob(let text): bytes = text
    case .null, .integer, .real: return nil
    }
    let word = bytes.prefix(clockWordBytesMax + 1).prefix { $0 != 0 }
    guard word.count <= clockWordBytesMax else { return nil }
    let text = String(decoding: word, as: UTF8.self).asciiLowercased
    return clockWords.contains(text.nameKey) ? text : nil
  }

  private static let clockWords: Set<NameKey> = ["now", "localtime", "utc", "subsec", "subsecond"]
  private static let clockWordBytesMax = 9
}
