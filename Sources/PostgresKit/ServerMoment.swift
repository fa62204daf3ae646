/// Which transactions of a PostgreSQL server had ended at a moment: `pg_current_snapshot()`.
package struct ServerMoment: Equatable, Sendable {
  private static let newMax: UInt64 = 10_000
  /// The first that had not begun.
  package let end: UInt64
  /// Those before it that had not ended, subtransactions not among them.
  package let running: Set<UInt64>

  /// As the server prints it: `10:20:10,14`.
  package init?(_ text: String) {
    let parts = text.split(separator: ":", omittingEmptySubsequences: false)
    guard parts.count == 3, let end = UInt64(parts[1]) else { return nil }
    let running = parts[2].split(separator: ",").compactMap { UInt64($0) }
    guard running.count == parts[2].split(separator: ",").count else { return nil }
    (self.end, self.running) = (end, Set(running))
  }

  /// Those that have ended since an earlier moment; nil where they are too many to be told, or it was no earlier one.
  package func ended(since earlier: ServerMoment) -> [UInt64]? {
    guard end >= earlier.end, end - earlier.end < Self.newMax else { return nil }
    return (earlier.running.sorted() + Array(earlier.end..<end)).filter { !running.contains($0) }
  }
}
