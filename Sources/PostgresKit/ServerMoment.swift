/// The transactions of a PostgreSQL server that had ended at one moment: `pg_current_snapshot()`.
package struct ServerMoment: Equatable, Sendable {
  private static let newMax: UInt64 = 10_000
  /// The first transaction that had not begun.
  package let end: UInt64
  /// The transactions before it that had not ended, without subtransactions.
  package let running: Set<UInt64>

  /// Reads the form that the server prints: `10:20:10,14`.
  package init?(_ text: String) {
    let parts = text.split(separator: ":", omittingEmptySubsequences: false)
    guard parts.count == 3, let end = UInt64(parts[1]) else { return nil }
    let running = parts[2].split(separator: ",").compactMap { UInt64($0) }
    guard running.count == parts[2].split(separator: ",").count else { return nil }
    (self.end, self.running) = (end, Set(running))
  }

  /// Returns the transactions that have ended since an earlier moment; nil if they may be too many, or if the moment is
  /// not earlier.
  package func ended(since earlier: ServerMoment) -> [UInt64]? {
    guard end >= earlier.end, end - earlier.end < Self.newMax else { return nil }
    return (earlier.running.sorted() + Array(earlier.end..<end)).filter { !running.contains($0) }
  }
}
