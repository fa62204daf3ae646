/// Limits the time for which apply executes statements of the source again. Does no I/O; `now` is monotonic time in ms.
///
/// A statement that takes too long is undone, and its rows are written instead. After that, no statement is executed
/// for nine times as long as this one took. So such statements take at most a tenth of the time.
///
///     var time = StatementTime(milliseconds: 30_000)
///     time.limit(rows: 1_000_000)          // 40,000 ms
///     time.ranOut(after: 40_000, now: 0)
///     time.isOver(now: 359_999)            // true
struct StatementTime {
  /// The highest time limit for any statement, in ms.
  private static let millisecondsMax: Int64 = 600_000
  /// The number of rows for which the limit grows by one millisecond. Writing so many rows would take longer.
  private static let rowsPerMillisecond: UInt64 = 100

  let milliseconds: Int64
  private var pausedUntil = Int64.min

  init(milliseconds: Int64) { self.milliseconds = milliseconds }

  /// Returns the time limit in ms for a statement that wrote `rows` rows at the source.
  func limit(rows: UInt64) -> Int64 {
    min(milliseconds + Int64(clamping: min(rows / Self.rowsPerMillisecond, 1 << 32)), Self.millisecondsMax)
  }

  /// Notes that a statement was stopped after `spent` ms, so that no statement is executed for nine times that long.
  mutating func ranOut(after spent: Int64, now: Int64) { pausedUntil = now + spent * 9 }

  /// Returns whether statements are paused at this time, because one of them took too long.
  func isOver(now: Int64) -> Bool { now < pausedUntil }
}
