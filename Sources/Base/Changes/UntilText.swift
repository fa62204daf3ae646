/// A point in the future as an operator writes it: a time of ``TimeText``, the next 18:00, or `in 2 hours`.
///
///     UntilText.parse("in 2 hours", now: now, zone: LocalTime())
package enum UntilText {
  package static let forms = "18:00, \"in 2 hours\", \"2026-11-28 14:00\" or 2026-11-28T14:00:00Z"

  /// Returns the µs since 1970 UTC; nil if the text is no point in time, or one that has passed.
  ///
  /// - Parameter zone: The zone of texts that name none.
  package static func parse(_ text: String, now: Int64, zone: some CalendarZone) -> Int64? {
    let words = text.asciiLowercased.split(at: " ")
    if words.first == "in", words.last != "ago" {
      let ago = TimeText.parse(words.dropFirst().joined(separator: " ") + " ago", now: now, zone: zone)
      return ago.flatMap { now - $0 > 0 && NumberBounds.isTime(now + (now - $0)) ? now + (now - $0) : nil }
    }
    guard let time = TimeText.parse(text, now: now, zone: zone) else { return nil }
    if time > now { return time }
    // A time of day that has passed today is meant for tomorrow.
    guard words.count == 1, words[0].utf8.contains(UInt8(ascii: ":")), !words[0].utf8.contains(UInt8(ascii: "-")) else {
      return nil
    }
    var fields = zone.fields(of: time)
    fields.day += 1
    return zone.microseconds(of: fields).flatMap { NumberBounds.isTime($0) && $0 > now ? $0 : nil }
  }
}
