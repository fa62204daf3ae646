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
  /// Asks capture not to read what an apply is about to write in a session. Nil where it does so already, or does not;
  /// where it begins with that, what it has passed.
  let standAside: @Sendable (_ session: Int32, _ stop: StopSignal) throws -> Passed?
  /// Tells of a transaction that is about to be committed, and brings rows and nothing else.
  let note: @Sendable (_ transaction: UInt64, _ note: AppliedNote) -> Void

  package init(
    pass: @escaping @Sendable (StopSignal, Bool) throws -> Answer?,
    standAside: @escaping @Sendable (Int32, StopSignal) throws -> Passed?,
    note: @escaping @Sendable (UInt64, AppliedNote) -> Void
  ) {
    (self.pass, self.standAside, self.note) = (pass, standAside, note)
  }
}
