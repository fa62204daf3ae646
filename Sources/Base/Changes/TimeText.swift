/// A point in time as an operator writes it: RFC 3339, a local date or time, `yesterday`, or `2 hours ago`.
///
///     TimeText.parse("yesterday 14:00", now: now, zone: LocalTime())
package enum TimeText {
  package static let forms =
    "2026-11-28T14:00:00Z, \"2026-11-28 14:00\", 14:00, today, yesterday, \"yesterday 14:00\", \"2 hours ago\" or now"

  private static let units: [NameKey: Int64] = [
    "s": 1, "sec": 1, "second": 1, "min": 60, "minute": 60, "h": 3600, "hour": 3600, "d": 86_400, "day": 86_400,
    "week": 604_800,
  ]

  /// Returns the µs since 1970 UTC; nil if the text is no point in time.
  ///
  /// - Parameter zone: The zone of texts that name none.
  package static func parse(_ text: String, now: Int64, zone: some CalendarZone) -> Int64? {
    let words = text.asciiLowercased.split(at: " ")
    switch (words.first, words.count) {
    case ("now", 1): return now
    case ("today", 1...2): return day(0, words.dropFirst().first, now, zone)
    case ("yesterday", 1...2): return day(1, words.dropFirst().first, now, zone)
    default: break
    }
    if words.last == "ago" { return ago(Array(words.dropLast()), now) }
    if words.count == 1, words[0].has(":"), !words[0].has("-") { return day(0, words[0], now, zone) }
    let parts = words.count == 1 ? words[0].split(at: "t", maxSplits: 1) : words
    guard (1...2).contains(parts.count), words.count == 2 || parts.count == 2 || !words[0].has("t"),
      var time = date(parts[0])
    else { return nil }
    guard parts.count == 2 else { return valid(zone.microseconds(of: time)) }
    let (clock, east) = split(parts[1])
    guard let clock, set(clock, &time) else { return nil }
    return valid(east.map { time.microseconds(east: $0) } ?? zone.microseconds(of: time))
  }

  private static func valid(_ time: Int64?) -> Int64? { time.flatMap { NumberBounds.isTime($0) ? $0 : nil } }

  private static func day(_ before: Int, _ clock: String?, _ now: Int64, _ zone: some CalendarZone) -> Int64? {
    var time = zone.fields(of: now)
    // The zone makes the last day of the month before of day 0.
    time = CalendarTime(year: time.year, month: time.month, day: time.day - before)
    if let clock, !set(clock, &time) { return nil }
    return valid(zone.microseconds(of: time))
  }

  // 2 hours, 2h, 1 h 30 min
  private static func ago(_ words: [String], _ now: Int64) -> Int64? {
    var seconds: Int64 = 0
    var pieces: [String] = []
    for word in words {
      let digits = String(word.prefix { $0.isASCII && $0.isNumber })
      pieces += [digits, String(word.dropFirst(digits.count))].filter { !$0.isEmpty }
    }
    guard !pieces.isEmpty, pieces.count % 2 == 0 else { return nil }
    for index in stride(from: 0, to: pieces.count, by: 2) {
      let name = pieces[index + 1]
      let unit = units[name] ?? (name.hasSuffix("s") ? units[String(name.dropLast())] : nil)
      guard let number = Int64(pieces[index]), let unit, (0..<1_000_000_000).contains(number) else { return nil }
      seconds += number * unit
    }
    return seconds > 300_000_000_000 ? nil : valid(now - seconds * 1_000_000)
  }

  private static func date(_ text: String) -> CalendarTime? {
    let parts = text.split(at: "-", omittingEmpty: false)
    guard parts.count == 3, parts[0].utf8.count == 4, parts[1].utf8.count == 2, parts[2].utf8.count == 2,
      let year = number(parts[0], 1...9999), let month = number(parts[1], 1...12),
      let day = number(parts[2], 1...31)
    else { return nil }
    let isLeap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
    let days = month == 2 ? (isLeap ? 29 : 28) : [4, 6, 9, 11].contains(month) ? 30 : 31
    return day <= days ? CalendarTime(year: year, month: month, day: day) : nil
  }

  private static func number(_ text: some StringProtocol, _ range: ClosedRange<Int>) -> Int? {
    guard !text.isEmpty, text.utf8.allSatisfy({ (0x30...0x39).contains($0) }), let number = Int(text) else {
      return nil
    }
    return range.contains(number) ? number : nil
  }

  // Parts "14:00:00+01:00" into the clock and the seconds east of UTC; the latter is nil without a zone.
  private static func split(_ text: String) -> (clock: String?, east: Int?) {
    if text.hasSuffix("z") { return (String(decoding: text.utf8.dropLast(), as: UTF8.self), 0) }
    let (plus, minus) = (UInt8(ascii: "+"), UInt8(ascii: "-"))
    guard let sign = text.utf8.lastIndex(where: { $0 == plus || $0 == minus }) else { return (text, nil) }
    let zone = text[text.utf8.index(after: sign)...].split(at: ":")
    guard zone.count == 2, let hours = number(zone[0], 0...23), let minutes = number(zone[1], 0...59) else {
      return (nil, nil)
    }
    return (String(text[..<sign]), (hours * 60 + minutes) * (text.utf8[sign] == plus ? 60 : -60))
  }

  private static func set(_ clock: String, _ time: inout CalendarTime) -> Bool {
    let parts = clock.split(at: ":", omittingEmpty: false)
    guard (2...3).contains(parts.count), let hour = number(parts[0], 0...23), let minute = number(parts[1], 0...59)
    else { return false }
    (time.hour, time.minute) = (hour, minute)
    guard parts.count == 3 else { return true }
    let seconds = parts[2].split(at: ".", omittingEmpty: false)
    guard (1...2).contains(seconds.count), let second = number(seconds[0], 0...60) else { return false }
    time.second = second
    guard seconds.count == 2 else { return true }
    guard (1...9).contains(seconds[1].count), number(seconds[1], 0...999_999_999) != nil else { return false }
    time.microsecond = Int((seconds[1] + "000000").prefix(6)) ?? 0
    return true
  }
}
