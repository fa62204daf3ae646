/// The one error that crosses module borders.
///
/// The message is in lower case and names the object and the value; the hint is the next step that a person should
/// take. What is to be done with the error is decided where it is born; only a supervisor acts on it.
package struct CairnError: Error, Sendable, CustomStringConvertible {
  package enum Remedy: Sendable {
    /// May work when tried again: a lock, a connection.
    case retry
    /// Needs a person.
    case stop
    /// The command line, conf or data handed to us.
    case badInput
    /// Our own fault.
    case bug
  }

  package let code: ErrorCode
  package let message: String
  package let hint: String
  package let remedy: Remedy
  /// Fields for logs: worker, table, position, key.
  package var context: [String: String]

  package init(
    _ code: ErrorCode, _ message: String, hint: String, remedy: Remedy = .stop, context: [String: String] = [:]
  ) {
    self.code = code
    self.message = message
    self.hint = hint
    self.remedy = remedy
    self.context = context
  }

  package var description: String { "[\(code.rawValue)] \(message) (hint: \(hint))" }
}
