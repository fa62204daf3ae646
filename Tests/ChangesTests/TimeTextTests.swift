import Testing

@testable import Changes

/// Points in time as operators write them.
@Suite struct TimeTextTests {
  // Two hours ahead of UTC.
  private struct East: CalendarZone {
    func fields(of microseconds: Int64) -> CalendarTime {
      let text = UTCTime(microseconds + 7_200_000_000).description
      func part(_ from: Int, _ count: Int) -> Int { Int(text.dropFirst(from).prefix(count)) ?? 0 }
      return CalendarTime(
        year: part(0, 4), month: part(5, 2), day: part(8, 2), hour: part(11, 2), minute: part(14, 2),
        second: part(17, 2))
    }
    func microseconds(of time: CalendarTime) -> Int64? { time.microseconds(east: 7200) }
  }

  // 2026-03-01T00:30:00Z
  private static let now: Int64 = 1_772_325_000_000_000

  private func read(_ text: String) -> String? {
    TimeText.parse(text, now: Self.now, zone: East()).map { UTCTime($0).description }
  }

  @Test func `times with and without a zone`() {
    #expect(UTCTime(Self.now).description == "2026-03-01T00:30:00.000000Z")
    #expect(read("now") == "2026-03-01T00:30:00.000000Z")
    #expect(read("2026-02-28T14:00:05.25Z") == "2026-02-28T14:00:05.250000Z")
    #expect(read("2026-02-28T14:00:05-01:30") == "2026-02-28T15:30:05.000000Z")
    #expect(read("2026-02-28 14:00") == "2026-02-28T12:00:00.000000Z")
    #expect(read("2026-02-28") == "2026-02-27T22:00:00.000000Z")
    #expect(read("14:00") == "2026-03-01T12:00:00.000000Z")
    #expect(read("today") == "2026-02-28T22:00:00.000000Z")
    #expect(read("Yesterday") == "2026-02-27T22:00:00.000000Z")
    #expect(read("yesterday 23:59:59") == "2026-02-28T21:59:59.000000Z")
    #expect(read("2 hours ago") == "2026-02-28T22:30:00.000000Z")
    #expect(read("1h 30 min ago") == "2026-02-28T23:00:00.000000Z")
    #expect(read("2024-02-29 00:00") == "2024-02-28T22:00:00.000000Z")
  }

  @Test(arguments: [
    "", "soon", "ago", "hours ago", "2 ago", "2 moons ago", "99999999999 weeks ago", "2026-02-29", "2026-13-01",
    "25:00", "14",
    "14:60", "2026-02-28T", "2026-02-28T14", "2026-02-28T14:00+1", "yesterday soon", "today 1:2:3:4", "-1 h ago",
    "2026-2-28", "2026-02-28 14:00:00.", "٢٠٢٦-02-28",
  ])
  func `other texts are no times`(text: String) { #expect(read(text) == nil) }
}
