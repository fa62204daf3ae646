/// Times as text that both engines read.
enum TimeStamp {
  /// Returns a time in µs since 1970 UTC as text, such as `2026-11-21 22:40:00.123456+00:00`.
  static func text(_ microseconds: Int64) -> String {
    let seconds = microseconds.flooredQuotient(1_000_000)
    let days = seconds.flooredQuotient(86_400)
    let (rest, micros) = (seconds - days * 86_400, microseconds - seconds * 1_000_000)
    let (year, month, day) = date(days)
    func two(_ number: Int64) -> String { number < 10 ? "0\(number)" : String(number) }
    func padded(_ number: Int64, _ width: Int) -> String {
      let digits = String(number)
      return String(repeating: "0", count: max(0, width - digits.count)) + digits
    }
    return "\(padded(year, 4))-\(two(month))-\(two(day)) \(two(rest / 3600)):\(two(rest / 60 % 60)):\(two(rest % 60))"
      + ".\(padded(micros, 6))+00:00"
  }

  /// Returns the date that is `days` days after 1970-01-01.
  ///
  /// Source: https://howardhinnant.github.io/date_algorithms.html#civil_from_days
  private static func date(_ days: Int64) -> (year: Int64, month: Int64, day: Int64) {
    let shifted = days + 719_468
    let era = shifted.flooredQuotient(146_097)
    let dayOfEra = shifted - era * 146_097
    let yearOfEra = (dayOfEra - dayOfEra / 1460 + dayOfEra / 36_524 - dayOfEra / 146_096) / 365
    let dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
    let place = (5 * dayOfYear + 2) / 153
    let month = place < 10 ? place + 3 : place - 9
    return (yearOfEra + era * 400 + (month <= 2 ? 1 : 0), month, dayOfYear - (153 * place + 2) / 5 + 1)
  }
}

extension Int64 {
  fileprivate func flooredQuotient(_ divisor: Int64) -> Int64 {
    self / divisor - (self % divisor < 0 ? 1 : 0)
  }
}
