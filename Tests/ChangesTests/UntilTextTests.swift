import Changes
import Testing

/// The end of a pause, as an operator writes it.
@Suite struct UntilTextTests {
  /// A zone two hours east of UTC.
  private struct East: CalendarZone {
    func fields(of microseconds: Int64) -> CalendarTime {
      let seconds = Int(microseconds / 1_000_000) + 7200
      return CalendarTime(
        year: 1970, month: 1, day: 1 + seconds / 86_400, hour: seconds / 3600 % 24, minute: seconds / 60 % 60,
        second: seconds % 60)
    }
    func microseconds(of time: CalendarTime) -> Int64? { time.microseconds(east: 7200) }
  }

  private static let hour: Int64 = 3_600_000_000
  // 1970-01-02, 12:00 in the zone.
  private static let now: Int64 = 34 * hour

  private func hours(_ text: String) -> Double? {
    UntilText.parse(text, now: Self.now, zone: East()).map { Double($0 - Self.now) / Double(Self.hour) }
  }

  @Test(
    arguments: [
      ("18:00", 6.0), ("12:00:01", 1 / 3600.0), ("12:00", 24), ("06:30", 18.5), ("00:00", 12), ("in 2 hours", 2),
      ("in 1 h 30 min", 1.5), ("IN 3h", 3), ("1970-01-02 13:00", 1), ("1970-01-03", 12), ("1970-01-02T11:00:00Z", 1),
      ("1970-01-02T13:00:00+02:00", 1),
    ] as [(String, Double)])
  func `a time in the future is read`(text: String, later: Double) {
    #expect(hours(text).map { abs($0 - later) < 1e-9 } == true, "\(text): \(hours(text) ?? -1)")
  }

  @Test(
    arguments: [
      "", "in", "in 0 hours", "in 2 hours ago", "2 hours ago", "now", "yesterday", "1970-01-02 11:00",
      "1970-01-02T10:00:00Z", "25:00", "tea", "in -2 hours", "in 99999999999 hours", "1970-01-01T23:00:00Z",
    ])
  func `a text that is no time, or a time that has passed, is refused`(text: String) {
    #expect(hours(text) == nil)
  }
}
