/// A time that is printed in the form `2026-03-01T12:30:00.000123Z`.
///
///     UTCTime(0).description   // "1970-01-01T00:00:00.000000Z"
package struct UTCTime: CustomStringConvertible {
  private let microseconds: Int64

  /// Creates a time from µs since 1970 UTC. The year is limited to -9999 to 9999.
  package init(_ microseconds: Int64) {
    self.microseconds = min(max(microseconds, NumberBounds.times.lowerBound), NumberBounds.times.upperBound)
  }

  package var description: String {
    let day = Self.floored(microseconds, 86_400_000_000)
    let (year, month, date) = Self.date(ofDay: day.quotient)
    let seconds = day.remainder / 1_000_000
    func padded(_ n: Int64, _ width: Int) -> String {
      let digits = String(n)
      return String(repeating: "0", count: max(0, width - digits.count)) + digits
    }
    let time = [seconds / 3600, seconds / 60 % 60, seconds % 60].map { padded($0, 2) }.joined(separator: ":")
    return "\(padded(year, 4))-\(padded(month, 2))-\(padded(date, 2))T\(time).\(padded(day.remainder % 1_000_000, 6))Z"
  }

  private static func floored(_ n: Int64, _ divisor: Int64) -> (quotient: Int64, remainder: Int64) {
    let remainder = (n % divisor + divisor) % divisor
    return ((n - remainder) / divisor, remainder)
  }

  /// Returns the Gregorian date of a number of days since 1970-01-01.
  private static func date(ofDay day: Int64) -> (Int64, Int64, Int64) {
    let (cycle, dayOfCycle) = floored(day + 719_468, 146_097)
    let year = (dayOfCycle - dayOfCycle / 1460 + dayOfCycle / 36_524 - dayOfCycle / 146_096) / 365
    let dayOfYear = dayOfCycle - (365 * year + year / 4 - year / 100)
    let month = (5 * dayOfYear + 2) / 153
    let date = dayOfYear - (153 * month + 2) / 5 + 1
    return (cycle * 400 + year + (month >= 10 ? 1 : 0), month < 10 ? month + 3 : month - 9, date)
  }
}
