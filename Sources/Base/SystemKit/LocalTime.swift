import Changes
import Glibc

/// The time zone of the system, or of the environment variable `TZ`.
///
///     LocalTime().fields(of: 0).year   // 1970, west of Greenwich 1969
package struct LocalTime: CalendarZone {
  package init() { tzset() }

  package func fields(of microseconds: Int64) -> CalendarTime {
    var seconds = time_t(microseconds >= 0 ? microseconds / 1_000_000 : (microseconds - 999_999) / 1_000_000)
    var parts = tm()
    localtime_r(&seconds, &parts)
    return CalendarTime(
      year: Int(parts.tm_year) + 1900, month: Int(parts.tm_mon) + 1, day: Int(parts.tm_mday), hour: Int(parts.tm_hour),
      minute: Int(parts.tm_min), second: Int(parts.tm_sec))
  }

  package func microseconds(of time: CalendarTime) -> Int64? {
    var parts = tm()
    (parts.tm_year, parts.tm_mon, parts.tm_mday) = (Int32(time.year - 1900), Int32(time.month - 1), Int32(time.day))
    (parts.tm_hour, parts.tm_min, parts.tm_sec) = (Int32(time.hour), Int32(time.minute), Int32(time.second))
    parts.tm_isdst = -1
    let seconds = mktime(&parts)
    return Int64(seconds) * 1_000_000 + Int64(time.microsecond)
  }
}
