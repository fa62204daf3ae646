import Changes
import PostgresKit
import SystemKit

/// The functions by which an apply waits for the capture of the same PostgreSQL database.
package struct CaptureStream: Sendable {
  /// A confirmation that capture has read everything that was committed before apply wrote a logical message to
  /// PostgreSQL's log.
  package struct Passed: Sendable {
    /// The server's snapshot from before the message. It shows which transactions had ended by then.
    let moment: ServerMoment
    let message: UInt64
    package init(moment: ServerMoment, message: UInt64) { (self.moment, self.message) = (moment, message) }
  }
  package enum Answer: Sendable {
    /// Capture's trail durably has everything that was committed before apply asked.
    case passed(Passed)
    case nothing
  }

  /// Waits until capture's trail durably has everything that was committed before the call.
  ///
  /// With `hurry`, waits about two seconds at most, and then returns nil. Without it, waits without a limit; nil means
  /// that `stop` was set.
  let pass: @Sendable (_ stop: StopSignal, _ hurry: Bool) throws -> Answer?

  package init(pass: @escaping @Sendable (StopSignal, Bool) throws -> Answer?) { self.pass = pass }
}
