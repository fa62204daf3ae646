/// Why a statement cannot be replayed as one: a short sentence that goes on from "not as a statement:".
package struct Unreplayable: Error, Equatable, Sendable {
  package let reason: String
  package init(_ reason: String) { self.reason = reason }

  /// What it makes of tables is said by a record of its own, in which both languages have their types and names.
  package static let schemaChange = Unreplayable("it changes the schema, which goes by its own record")

  /// Whether a text is CREATE, ALTER or DROP.
  package static func isSchemaChange(_ text: String) -> Bool {
    guard let first = try? Tokenizer.tokens(text).first, case .word(let word, _) = first.kind else { return false }
    return ["CREATE", "ALTER", "DROP"].contains(word)
  }
}
