import Changes
import PostgresKit
import SystemKit

/// The capture of a PostgreSQL database, as the applies to it use it.
package struct CaptureStream: Sendable {
  /// The place that capture has passed: everything committed before a message that apply wrote.
  package struct Passed: Sendable {
    /// The transactions that had ended before the message.
    let moment: ServerMoment
    /// The message's transaction.
    let message: UInt64
    package init(moment: ServerMoment, message: UInt64) { (self.moment, self.message) = (moment, message) }
  }
  package enum Answer: Sendable {
    /// The own trail holds, durably, all that had been committed before the call.
    case passed(Passed)
    /// Capture has not begun: nothing is captured yet.
    case nothing
  }

  /// Waits until the own trail holds, durably, everything that was committed before the call.
  ///
  /// With `hurry` it waits a second or two, as rows are locked meanwhile. Otherwise it returns nil only if the signal
  /// was set.
  let pass: @Sendable (_ stop: StopSignal, _ hurry: Bool) throws -> Answer?

  package init(pass: @escaping @Sendable (StopSignal, Bool) throws -> Answer?) { self.pass = pass }
}
