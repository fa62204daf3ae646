/// The time that an apply gives to statements which it executes again. It does no I/O; `now` is monotonic time in ms.
///
/// The source decides what its statements compute. A proof that a statement has the same effect does not show how long
/// it takes. A statement that takes too long is undone, and its rows are applied. For nine times as long, no statement
/// is executed then. So failing statements take a tenth of the time at most.
///
///     var time = StatementTime(milliseconds: 30_000)
///     time.limit(rows: 1_000_000)          // 40,000 ms
///     time.ranOut(after: 40_000, now: 0)
///     time.isOver(now: 359_999)            // true
struct StatementTime {
  /// The highest time limit for any statement, in ms.
  private static let millisecondsMax: Int64 = 600_000
  /// The number of rows for which a statement gets one more millisecond: applying them as rows would take longer.
  private static let rowsPerMillisecond: UInt64 = 100

  let milliseconds: Int64
  private var pausedUntil = Int64.min

  init(milliseconds: Int64) { self.milliseconds = milliseconds }

  /// Returns the time limit in ms for a statement that wrote `rows` rows at the source.
  func limit(rows: UInt64) -> Int64 {
    min(milliseconds + Int64(clamping: min(rows / Self.rowsPerMillisecond, 1 << 32)), Self.millisecondsMax)
  }

  /// Records that a statement was ended after `spent` ms.
  mutating func ranOut(after spent: Int64, now: Int64) { pausedUntil = now + spent * 9 }

  /// Returns whether no statement is executed at this time.
  func isOver(now: Int64) -> Bool { now < pausedUntil }
}
