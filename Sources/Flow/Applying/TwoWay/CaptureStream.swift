import Changes
import PostgresKit
import SystemKit

/// The functions by which an apply waits for the capture of the same PostgreSQL database.
package struct CaptureStream: Sendable {
  /// A confirmation of capture that it has read everything that was committed before a logical message of apply.
  package struct Passed: Sendable {
    /// The server's snapshot before the message, which shows which transactions had ended.
    let moment: ServerMoment
    let message: UInt64
    package init(moment: ServerMoment, message: UInt64) { (self.moment, self.message) = (moment, message) }
  }
  package enum Answer: Sendable {
    /// Capture's trail durably has everything that was committed before the call.
    case passed(Passed)
    case nothing
  }

  /// Waits until capture's trail durably has everything that was committed before the call.
  ///
  /// With `hurry`, waits about two seconds at most and then returns nil. Otherwise nil means that the stop signal was
  /// set.
  let pass: @Sendable (_ stop: StopSignal, _ hurry: Bool) throws -> Answer?

  package init(pass: @escaping @Sendable (StopSignal, Bool) throws -> Answer?) { self.pass = pass }
}
