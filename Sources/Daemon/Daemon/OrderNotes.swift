import Changes
import Synchronization

/// The log entries about orders that a client may give many times a second. Each user and order is logged at most once
/// a minute.
///
///     notes.isDue(1000, "hq.erp", now: 0)       // true
///     notes.isDue(1000, "hq.erp", now: 59_999)  // false
final class OrderNotes: Sendable {
  private struct Key: Hashable {
    let user: UInt32?
    @ByBytes private(set) var order: String

    init(_ user: UInt32?, _ order: String) {
      self.user = user
      self.order = order
    }
  }

  private static let pauseMilliseconds: Int64 = 60_000

  // The times of the last entries, in ms.
  private let last = Mutex<[Key: Int64]>([:])

  /// Returns whether the order is to be logged now, and then notes the time.
  ///
  /// - Parameter user: The user who gave the order; nil if unknown.
  /// - Parameter now: A monotonic time in milliseconds.
  func isDue(_ user: UInt32?, _ order: String, now: Int64) -> Bool {
    last.withLock { last in
      last = last.filter { now - $0.value < Self.pauseMilliseconds }
      let key = Key(user, order)
      guard last[key] == nil else { return false }
      last[key] = now
      return true
    }
  }
}
