import Configuring
import SystemKit

/// Decides when the listener for metrics is opened, closed and tried again. Times are ms of a monotonic clock.
///
/// ```swift
/// var upkeep = ListenerUpkeep()
/// upkeep.next(ListenerUpkeep.Wish(metrics: metrics), now: 0)   // .open
/// ```
struct ListenerUpkeep: Sendable {
  /// The settings of a listener, and the stamps of its certificate files: it is opened again when they change.
  struct Wish: Equatable, Sendable {
    var metrics: Configuration.Metrics
    var stamps: [FileStamp?] = []
  }

  enum Step: Equatable, Sendable {
    case nothing
    case close
    /// Close the open listener, if any, and open the wanted one.
    case open
  }

  /// The ms after a failure until the next attempt.
  static let pauseMilliseconds: Int64 = 5_000

  private var opened: Wish?
  private var tried: (wish: Wish, at: Int64)?

  /// Returns the next step for the wanted listener.
  ///
  /// - Parameter wish: The wanted listener; nil for none.
  mutating func next(_ wish: Wish?, now: Int64) -> Step {
    guard let wish else {
      tried = nil
      defer { opened = nil }
      return opened == nil ? .nothing : .close
    }
    if opened == wish { return .nothing }
    if let tried, tried.wish == wish, now - tried.at < Self.pauseMilliseconds { return .nothing }
    (opened, tried) = (nil, (wish, now))
    return .open
  }

  /// Notes that the listener of the last step `open` listens.
  mutating func succeeded() { opened = tried?.wish }
}
