import Changes
import PostgresKit
import SystemKit

/// The capture of a PostgreSQL database, as applies to it see it.
package struct CaptureStream: Sendable {
  /// What capture has passed: all that had been committed before the message by which that was told.
  package struct Passed: Sendable {
    /// Which transactions had ended before it.
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

  /// Waits until the own trail holds, durably, all that had been committed before the call; `hurry`: a second or two, as rows
  /// are locked meanwhile. Otherwise it returns nil only when the signal was set.
  let pass: @Sendable (_ stop: StopSignal, _ hurry: Bool) throws -> Answer?

  package init(pass: @escaping @Sendable (StopSignal, Bool) throws -> Answer?) { self.pass = pass }
}
