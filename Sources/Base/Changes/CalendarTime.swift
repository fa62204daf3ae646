/// A date with a time of day in some time zone.
///
///     CalendarTime(year: 2026, month: 11, day: 28, hour: 14).microseconds(east: 0)
package struct CalendarTime: Equatable, Sendable {
  package var year: Int
  package var month: Int
  package var day: Int
  package var hour = 0
  package var minute = 0
  package var second = 0
  package var microsecond = 0

  package init(
    year: Int, month: Int, day: Int, hour: Int = 0, minute: Int = 0, second: Int = 0, microsecond: Int = 0
  ) {
    (self.year, self.month, self.day) = (year, month, day)
    (self.hour, self.minute, self.second, self.microsecond) = (hour, minute, second, microsecond)
  }

  /// Returns the µs since 1970 UTC.
  ///
  /// - Parameter east: How far the zone is ahead of UTC, in seconds.
  package func microseconds(east: Int) -> Int64 {
    // The number of days since 1970-01-01 in the Gregorian calendar.
    let shifted = month > 2 ? year : year - 1
    let cycle = (shifted >= 0 ? shifted : shifted - 399) / 400
    let yearOfCycle = shifted - cycle * 400
    let dayOfYear = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1
    let days = cycle * 146_097 + yearOfCycle * 365 + yearOfCycle / 4 - yearOfCycle / 100 + dayOfYear - 719_468
    let seconds = days * 86_400 + hour * 3600 + minute * 60 + second - east
    return Int64(seconds) * 1_000_000 + Int64(microsecond)
  }
}

/// A time zone with its rules.
package protocol CalendarZone {
  func fields(of microseconds: Int64) -> CalendarTime
  /// Returns the µs since 1970 UTC; nil if the zone has no such time.
  func microseconds(of time: CalendarTime) -> Int64?
}
