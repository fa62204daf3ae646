import Changes
import PostgresKit
import SystemKit

/// The functions by which an apply waits for the capture of the same PostgreSQL database.
package struct CaptureStream: Sendable {
  /// How far capture has read: everything that was committed before a logical message which apply wrote.
  package struct Passed: Sendable {
    /// A snapshot, taken before the message, of which transactions of the server had ended.
    let moment: ServerMoment
    /// The id of the transaction that wrote the message.
    let message: UInt64
    package init(moment: ServerMoment, message: UInt64) { (self.moment, self.message) = (moment, message) }
  }
  package enum Answer: Sendable {
    /// Capture's trail durably has everything that was committed before the call.
    case passed(Passed)
    /// Capture has not started yet, so nothing of this database is captured.
    case nothing
  }

  /// Waits until capture's trail durably has everything that was committed before the call.
  ///
  /// With `hurry`, waits about two seconds at most, as apply holds row locks, and returns nil if that was too short.
  /// Otherwise returns nil only if the stop signal was set.
  let pass: @Sendable (_ stop: StopSignal, _ hurry: Bool) throws -> Answer?

  package init(pass: @escaping @Sendable (StopSignal, Bool) throws -> Answer?) { self.pass = pass }
}
