import Changes
import PostgresKit
import SystemKit

/// The connection of an apply to the capture of a PostgreSQL database.
package struct CaptureStream: Sendable {
  /// The place that capture has passed: everything that was committed before a message which apply wrote.
  package struct Passed: Sendable {
    /// The transactions of the server that had ended before the message.
    let moment: ServerMoment
    /// The transaction that wrote the message.
    let message: UInt64
    package init(moment: ServerMoment, message: UInt64) { (self.moment, self.message) = (moment, message) }
  }
  package enum Answer: Sendable {
    /// The own trail holds, durably, everything that was committed before the call.
    case passed(Passed)
    /// Capture has not begun: nothing is captured yet.
    case nothing
  }

  /// Waits until the own trail holds, durably, everything that was committed before the call.
  ///
  /// With `hurry` the call waits a second or two, as rows are locked meanwhile. Otherwise it returns nil only if the
  /// stop signal was set.
  let pass: @Sendable (_ stop: StopSignal, _ hurry: Bool) throws -> Answer?

  package init(pass: @escaping @Sendable (StopSignal, Bool) throws -> Answer?) { self.pass = pass }
}
