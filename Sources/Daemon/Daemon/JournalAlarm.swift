/// Decides when to report that the journal of an SQLite source is filling or full.
struct JournalAlarm: Equatable, Sendable {
  enum Level: Int, Comparable, Sendable {
    case fine
    case filling
    case full

    static func < (a: Self, b: Self) -> Bool { a.rawValue < b.rawValue }
  }

  // In percent. The alarm ends below `over`, a smaller percentage.
  private static let filling = 80.0
  private static let over = 60.0

  private var told = Level.fine

  /// Returns the level to report now; nil if it is no worse than the last reported level. A level that is reached again
  /// after a fall below 60 % of `cap` is reported again.
  mutating func note(rows: Int64, cap: Int64, isFull: Bool) -> Level? {
    // An application can write any numbers to the journal: their product with 100 must not overflow.
    let percent = Double(rows) * 100 / Double(max(cap, 1))
    let level: Level = isFull ? .full : percent >= Self.filling ? .filling : .fine
    if level == .fine, percent < Self.over { told = .fine }
    guard level > told else { return nil }
    told = level
    return level
  }
}
