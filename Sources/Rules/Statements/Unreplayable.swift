import Changes

/// The reason why a statement cannot be executed at the target, as the continuation of "not as a statement:".
package struct Unreplayable: Error, Equatable, Sendable {
  package let reason: String

  // Bytes: reasons go into status and log, and have names of the statement.
  private static let bytesMax = 300

  package init(_ reason: String) {
    let bytes = reason.utf8
    self.reason =
      bytes.count <= Self.bytesMax ? reason : String(decoding: bytes.prefix(Self.bytesMax), as: UTF8.self) + "…"
  }

  /// The reason for a statement with a query: it depends on other rows than those that it writes.
  static let query = Unreplayable("it has a query, or a FROM clause")

  /// The reason for a statement that is too long to be read from the trail; nil if it is not.
  package static func tooLong(_ statement: StatementView) -> Unreplayable? {
    if statement.byteCount > bytesOfStatementMax {
      return Unreplayable("it has more than \(bytesOfStatementMax >> 20) MiB with its values")
    }
    return statement.parameterCount > Tokenizer.parametersMax ? Unreplayable("it has too many parameters") : nil
  }

  private static let bytesOfStatementMax = 10 << 20

  /// The reason why a schema change is not executed as a statement: the trail has a separate record for it.
  package static let schemaChange = Unreplayable("it changes the schema, which goes by its own record")

  /// Returns whether the first word of a statement is CREATE, ALTER or DROP.
  package static func isSchemaChange(_ text: String) -> Bool {
    guard let first = try? Tokenizer.first(text), case .word(let word, _) = first.kind else { return false }
    return ["CREATE", "ALTER", "DROP"].contains(word)
  }
}
