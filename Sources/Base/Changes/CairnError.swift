/// The one type of error that functions throw to other modules.
///
/// The message is in lower case and names the object and the value. The hint is the operator's next step. The code that
/// throws the error chooses the remedy. Only a supervisor of workers acts on the remedy.
package struct CairnError: Error, Sendable, CustomStringConvertible {
  package enum Remedy: Sendable {
    /// The action may work if it is tried again later: a lock or a lost connection prevented it.
    case retry
    /// The worker stops until the operator has acted.
    case stop
    /// The input is wrong: the command line, the conf or data.
    case badInput
    /// The error is a bug in Cairn.
    case bug
  }

  package let code: ErrorCode
  package let message: String
  package let hint: String
  package let remedy: Remedy
  /// The fields of the error for the log, such as worker, table, position and key.
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

  /// Returns whether both errors have the same code, message and hint. If so, a log need not repeat the error.
  package func isReported(as other: CairnError) -> Bool {
    code == other.code && message.hasSameBytes(as: other.message) && hint.hasSameBytes(as: other.hint)
  }

  package var description: String { "[\(code.rawValue)] \(message) (hint: \(hint))" }
}
