import Changes

/// Checks dates and times in the formats of PostgreSQL and SQLite. A text is valid only if PostgreSQL reads it without
/// rounding or other changes.
enum TimeText {
  enum Zone {
    case none
    /// No time zone, or `Z`.
    case utc
    /// No time zone, `Z`, or an offset.
    case any
  }

  private static let dateYearMax = 5_874_897
  private static let timestampYearMax = 294_276
  /// The largest year BC of the types `date`, `timestamp` and `timestamptz`.
  private static let yearMaxBC = 4714

  static func isDate(_ bytes: UnsafeRawBufferPointer) -> Bool {
    if isInfinity(bytes) { return true }
    var cursor = Cursor(bytes)
    return cursor.date(yearMax: dateYearMax) && cursor.isAtEnd
  }

  static func isTime(_ bytes: UnsafeRawBufferPointer, digits: Int, zone: Zone) -> Bool {
    var cursor = Cursor(bytes)
    return cursor.time(digits: digits, allowsMidnight: true) && cursor.zone(zone) && cursor.isAtEnd
  }

  /// Returns whether the text is a timestamp with at most `digits` digits of fractional seconds and an allowed zone. A
  /// date alone means midnight.
  static func isTimestamp(_ bytes: UnsafeRawBufferPointer, digits: Int, zone: Zone) -> Bool {
    if isInfinity(bytes) { return true }
    var cursor = Cursor(bytes)
    guard cursor.date(yearMax: timestampYearMax) else { return false }
    if cursor.isAtEnd { return true }
    guard cursor.skip(" ") || cursor.skip("T") else { return false }
    return cursor.time(digits: digits, allowsMidnight: false) && cursor.zone(zone) && cursor.isAtEnd
  }

  private static func isInfinity(_ bytes: UnsafeRawBufferPointer) -> Bool {
    bytes.elementsEqual("infinity".utf8) || bytes.elementsEqual("-infinity".utf8)
  }

  private struct Cursor {
    let bytes: UnsafeRawBufferPointer
    var at = 0
    /// The offset after the date and time, where ` BC` may follow.
    let end: Int

    init(_ bytes: UnsafeRawBufferPointer) {
      self.bytes = bytes
      end = bytes.suffix(3).elementsEqual(" BC".utf8) ? bytes.count - 3 : bytes.count
    }

    var isAtEnd: Bool { at == end }
    var isBC: Bool { end < bytes.count }

    mutating func skip(_ letter: Unicode.Scalar) -> Bool {
      guard at < end, bytes[at] == UInt8(ascii: letter) else { return false }
      at += 1
      return true
    }

    /// Reads a number; nil if it has too few digits.
    mutating func number(_ digits: ClosedRange<Int>) -> Int? {
      let start = at
      var value = 0
      while at < end, (0x30...0x39).contains(bytes[at]), at - start < digits.upperBound {
        value = value * 10 + Int(bytes[at] - 0x30)
        at += 1
      }
      return at - start >= digits.lowerBound ? value : nil
    }

    mutating func date(yearMax: Int) -> Bool {
      let start = at
      guard let year = number(4...7), year > 0, at - start == 4 || bytes[start] != 0x30,
        year <= (isBC ? yearMaxBC : yearMax), skip("-"), let month = number(2...2), (1...12).contains(month), skip("-"),
        let day = number(2...2)
      else { return false }
      let calendar = isBC ? year - 1 : year
      let isLeap = calendar % 4 == 0 && (calendar % 100 != 0 || calendar % 400 == 0)
      let days = [31, isLeap ? 29 : 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]
      return (1...days[month - 1]).contains(day)
    }

    /// Reads a time of day. Returns false if there is no valid time.
    ///
    /// - Parameter allowsMidnight: Whether 24:00:00 is accepted.
    mutating func time(digits: Int, allowsMidnight: Bool) -> Bool {
      guard let hour = number(2...2), hour <= (allowsMidnight ? 24 : 23), skip(":"), let minute = number(2...2),
        minute < 60
      else { return false }
      guard skip(":") else { return hour < 24 || minute == 0 }
      guard let second = number(2...2), second < 60 else { return false }
      var hasFraction = false
      if skip(".") {
        let start = at
        while at < end, (0x30...0x39).contains(bytes[at]) {
          if bytes[at] != 0x30 {
            guard at - start < digits else { return false }
            hasFraction = true
          }
          at += 1
        }
        guard at > start else { return false }
      }
      return hour < 24 || (minute == 0 && second == 0 && !hasFraction)
    }

    mutating func zone(_ zone: Zone) -> Bool {
      if zone == .none || at == end { return true }
      if skip("Z") || zone == .utc { return true }
      guard skip("+") || skip("-"), let hours = number(2...2), hours < 16 else { return false }
      let hasColon = skip(":")
      guard hasColon || at < end else { return true }
      guard let minutes = number(2...2), minutes < 60 else { return false }
      guard hasColon, skip(":") else { return true }
      guard let seconds = number(2...2) else { return false }
      return seconds < 60
    }
  }

  /// Returns whether a valid time has the spelling that PostgreSQL prints in UTC.
  static func isPrinted(_ bytes: UnsafeRawBufferPointer, _ kind: PostgresType.Kind) -> Bool {
    var text = String(decoding: bytes, as: UTF8.self)
    if text.hasSuffix("infinity") { return true }
    if text.hasSuffix(" BC") { text.removeLast(3) }
    if case .timestamptz = kind {
      guard text.hasSuffix("+00") else { return false }
      text.removeLast(3)
    }
    let parts = text.split(separator: " ", omittingEmptySubsequences: false)
    if case .time = kind {
      guard parts.count == 1 else { return false }
    } else {
      guard parts.count == 2 else { return false }
    }
    guard let time = parts.last, time.count >= 8 else { return false }
    return time.count == 8 || (!time.hasSuffix("0") && !time.hasSuffix("."))
  }
}
