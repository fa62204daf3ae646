import Changes
import SystemKit

/// One thing that a database needs before Cairn can use it, and what brings it about.
///
///     SetupStep("group pos exists", isDone: false, "groupadd --system pos", .program(["groupadd", "--system", "pos"]))
package struct SetupStep: Sendable {
  package enum State: String, Sendable {
    case done
    case missing
    /// Only a person can do it.
    case byHand = "by-hand"
  }

  package enum Deed: Sendable {
    /// A program of the system with its arguments.
    case program([String])
    /// Gives a file or folder to a group, and adds bits to its mode.
    case share(SharedEntry, group: String, bits: UInt32)
    case create(path: String, group: String)
    /// Writes a whole text file.
    case write(path: String, text: String)
    /// One statement for the server.
    case statement(String)
    /// Creates the event triggers of a PostgreSQL source.
    case eventTriggers
    case nothing
  }

  /// The state of the machine or the server once the step is done.
  @ByBytes package var what: String
  /// The step as an administrator can type it.
  @ByBytes package var command: String
  package var state: State
  package var deed: Deed

  package init(_ what: String, isDone: Bool, _ command: String, _ deed: Deed) {
    (self.what, self.command, self.deed) = (what, command, deed)
    state =
      if isDone {
        .done
      } else if case .nothing = deed { .byHand } else { .missing }
  }
}
