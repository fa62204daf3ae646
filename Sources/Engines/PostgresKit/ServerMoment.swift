/// The transactions of a PostgreSQL server that had ended at one moment, from `pg_current_snapshot()`.
///
///     let (before, now) = (ServerMoment("8:12:10")!, ServerMoment("8:13:")!)
///     now.ended(since: before)   // [10, 12]
package struct ServerMoment: Equatable, Sendable {
  private static let newMax: UInt64 = 10_000
  /// The number of the first transaction that had not begun at this moment.
  package let end: UInt64
  /// The numbers of the transactions before `end` that were still running at this moment.
  package let running: Set<UInt64>

  /// Reads the text that the server prints, such as `10:20:10,14`; nil for any other text.
  package init?(_ text: String) {
    let parts = text.split(separator: ":", omittingEmptySubsequences: false)
    guard parts.count == 3, let end = UInt64(parts[1]) else { return nil }
    let running = parts[2].split(separator: ",").compactMap { UInt64($0) }
    guard running.count == parts[2].split(separator: ",").count else { return nil }
    (self.end, self.running) = (end, Set(running))
  }

  /// Returns the numbers of the transactions that ended between `earlier` and this moment. Nil if 10,000 or more began
  /// in this time, or if `earlier` is later than this moment.
  package func ended(since earlier: ServerMoment) -> [UInt64]? {
    guard end >= earlier.end, end - earlier.end < Self.newMax else { return nil }
    return (earlier.running.sorted() + Array(earlier.end..<end)).filter { !running.contains($0) }
  }
}
