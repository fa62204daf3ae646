/// The fill level of an SQLite source's journal, reported once each time it gets worse.
struct JournalAlarm: Equatable, Sendable {
  enum Level: Int, Comparable, Sendable {
    case fine
    case filling
    case full

    static func < (a: Self, b: Self) -> Bool { a.rawValue < b.rawValue }
  }

  /// In percent of the cap: the level at which the alarm begins, and the level below which it is over.
  private static let filling: Int64 = 80
  private static let over: Int64 = 60

  private var told = Level.fine

  /// Returns the level to report now; nil if there is nothing new.
  mutating func note(rows: Int64, cap: Int64, isFull: Bool) -> Level? {
    let percent = rows * 100 / max(cap, 1)
    let level: Level = isFull ? .full : percent >= Self.filling ? .filling : .fine
    if level == .fine, percent < Self.over { told = .fine }
    guard level > told else { return nil }
    told = level
    return level
  }
}
