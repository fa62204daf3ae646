/// An error as Cairn reports it to the operator. The message names what failed, the object and the value; the hint is
/// the operator's next step.
///
///     throw CairnError(.usage, "'--rate fast' is no rate", hint: "write it as 10MiB", remedy: .badInput)
package struct CairnError: Error, Sendable, CustomStringConvertible {
  package enum Remedy: Sendable {
    /// A lock or a lost connection caused the error. Another attempt may succeed.
    case retry
    case stop
    case badInput
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

  /// Returns whether both errors have the same code, message and hint.
  package func isReported(as other: CairnError) -> Bool {
    code == other.code && message.hasSameBytes(as: other.message) && hint.hasSameBytes(as: other.hint)
  }

  package var description: String { "[\(code.rawValue)] \(message) (hint: \(hint))" }
}
