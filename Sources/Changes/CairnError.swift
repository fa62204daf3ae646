/// The one error that crosses module borders.
///
/// The message is in lower case and names the object and the value; the hint is the operator's next step. The code that
/// throws the error chooses the remedy; only a supervisor acts on it.
package struct CairnError: Error, Sendable, CustomStringConvertible {
  package enum Remedy: Sendable {
    /// May work if tried again: a lock, a connection.
    case retry
    /// Needs the operator.
    case stop
    /// The input is wrong: the command line, the conf or data.
    case badInput
    /// A bug in Cairn.
    case bug
  }

  package let code: ErrorCode
  package let message: String
  package let hint: String
  package let remedy: Remedy
  /// Fields for the log: worker, table, position, key.
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
