/// The times of the attempts to continue a suspended table. All times are monotonic, in ms.
///
///     var schedule = CatchUpSchedule(from: now)   // first attempt: now + 2 s
///     schedule.postpone(now)                      // + 2 s, then 4, 8, … up to 60 s
struct CatchUpSchedule: Equatable {
  /// The longest run of a catch-up before apply continues with all other tables, in ms.
  static let slice: Int64 = 500
  private static let delayMin: Int64 = 2_000
  private static let delayMax: Int64 = 60_000

  private var next: Int64
  private var delay = delayMin

  /// Creates the schedule of a table that is suspended now.
  init(from now: Int64) { next = now + Self.delayMin }

  private init(next: Int64) { self.next = next }

  /// The schedule of a table that was suspended before this run: its first attempt is due.
  static let due = CatchUpSchedule(next: 0)

  func isDue(_ now: Int64) -> Bool { now >= next }

  /// Sets the time of the next attempt after one that failed.
  mutating func postpone(_ now: Int64) {
    next = now + delay
    delay = min(delay * 2, Self.delayMax)
  }
}
