import Changes
import ControlAPI
import Trails

/// The segment for which a reader has expired. The reader is back when it needs only later segments, and all of them are
/// there. Otherwise it would be back until the next purge, and expire again.
///
///     Expiry(trail: id, segment: 7).isOver(needs: 8, of: id, first: 8)   // true
struct Expiry: Equatable, Sendable {
  var trail: TrailID
  var segment: UInt64

  /// Returns whether the reader is back.
  ///
  /// - Parameters:
  ///   - needs: The oldest segment that the reader needs now.
  ///   - trail: The id of the trail now. Another trail has its own segments.
  ///   - first: The oldest segment of the trail.
  func isOver(needs: UInt64, of trail: TrailID, first: UInt64) -> Bool {
    needs >= first && (trail != self.trail || needs > segment)
  }
}

extension Supervisor.Entry {
  var isExpired: Bool { expiry != nil }
}

/// Says which expired readers to report: each one once in ten minutes, however often its state changes.
///
///     var notes = ExpiryNotes()
///     if notes.take(id, now: Clock.monotonicMilliseconds) { log.write(entry) }
struct ExpiryNotes: Sendable {
  private static let milliseconds: Int64 = 600_000
  private var noted: [RetentionPlan.ReaderID: Int64] = [:]

  /// Returns whether to report a reader, and notes it if so.
  ///
  /// - Parameter now: Milliseconds of a monotonic clock.
  mutating func take(_ id: RetentionPlan.ReaderID, now: Int64) -> Bool {
    noted = noted.filter { now - $0.value < Self.milliseconds }
    guard noted[id] == nil else { return false }
    noted[id] = now
    return true
  }
}
