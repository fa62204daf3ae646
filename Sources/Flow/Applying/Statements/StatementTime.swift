/// Limits the time for which apply executes statements of the source at the target. `now` is monotonic time in ms.
///
/// After a statement that was stopped, no statement is executed for nine times as long as it ran. If statements
/// together took over a thirtieth of `milliseconds` more than writing their rows would take, the pause is nine times
/// that excess.
///
///     var time = StatementTime(milliseconds: 30_000)
///     time.limit(rows: 1_000_000)          // 40,000 ms
///     time.ranOut(after: 40_000, now: 0)
///     time.isOver(now: 359_999)            // true
struct StatementTime {
  private static let millisecondsMax: Int64 = 120_000
  /// The least time in ms that statements may take in sum beyond the time for writing their rows.
  private static let leastExcess: Int64 = 1000
  /// The time in ms that each statement may take besides the time for writing its rows.
  private static let statementTime: Int64 = 5
  /// The number of rows for which the time limit grows by one millisecond.
  private static let rowsPerMillisecond: UInt64 = 100

  let milliseconds: Int64
  private var pausedUntil = Int64.min
  private var excess: Int64 = 0
  /// The time in ms that statements may take in sum beyond the time for writing their rows.
  private let excessMax: Int64

  init(milliseconds: Int64) {
    self.milliseconds = milliseconds
    excessMax = max(Self.leastExcess, milliseconds / 30)
  }

  func limit(rows: UInt64) -> Int64 { min(milliseconds + Self.time(ofRows: rows), Self.millisecondsMax) }

  private static func time(ofRows rows: UInt64) -> Int64 { Int64(clamping: min(rows / rowsPerMillisecond, 1 << 32)) }

  /// Notes that the execution of a statement took `spent` ms, and wrote this many rows.
  mutating func took(_ spent: Int64, rows: UInt64, now: Int64) {
    excess += max(0, spent - Self.statementTime - Self.time(ofRows: rows))
    guard excess > excessMax else { return }
    pause(milliseconds: excess * 9, now: now)
    excess = 0
  }

  /// Notes that a statement was stopped after `spent` ms. No statement is then executed for nine times as long.
  mutating func ranOut(after spent: Int64, now: Int64) { pause(milliseconds: spent * 9, now: now) }

  mutating func pause(milliseconds: Int64, now: Int64) { pausedUntil = max(pausedUntil, now + milliseconds) }

  /// Returns whether the execution of statements is paused at this time.
  func isOver(now: Int64) -> Bool { now < pausedUntil }
}
