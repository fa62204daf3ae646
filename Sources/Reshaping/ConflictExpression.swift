import Changes
import SQLiteKit

/// The expression of a rule `sql:` for conflicts, over two values of a column and what it was before them.
///
/// It is in SQLite's language at every node, whatever engine has the row, so that all come to the same. Values of
/// PostgreSQL that are numbers count as such.
package struct ConflictExpression {
  private let text: String
  private let calculator: Calculator

  /// Errors: `rule-refused`, with what SQLite says to it.
  package init(_ text: String) throws {
    self.text = text
    do {
      calculator = try Calculator(
        columns: ["local", "incoming", "before"].map { .init(name: $0, type: "") }, groups: [[(text, false)]])
    } catch let error as SQLiteError { throw Self.refused(text, error.message) }
  }

  /// `before`: nil where it is not known. The value is as PostgreSQL has it where the others are.
  package func value(local: Value, incoming: Value, before: Value?) throws -> Value {
    let row = [local, incoming, before ?? .null].map(\.counted)
    var found = Value.null
    do {
      try Self.withViews(row[...], []) { views in
        try calculator.set(views)
        try calculator.values(0) { _, view in found = view.value ?? .null }
      }
    } catch let error as SQLiteError { throw Self.refused(text, error.message) }
    if case .exact = incoming { return found.printed }
    return found
  }

  private static func withViews(
    _ values: ArraySlice<Value>, _ views: [ColumnView], _ body: ([ColumnView]) throws -> Void
  ) throws {
    guard let first = values.first else { return try body(views) }
    try first.withView { view in
      Result { try withViews(values.dropFirst(), views + [view], body) }
    }.get()
  }

  private static func refused(_ text: String, _ reason: String) -> CairnError {
    CairnError(
      .ruleRefused, "the rule sql:\(text) for conflicts cannot be kept: \(reason)",
      hint: "it is an expression in SQLite's language over the columns local, incoming and before")
  }
}

extension Value {
  /// A number where PostgreSQL's text is one that SQLite has exactly.
  fileprivate var counted: Value {
    guard case .exact(let bytes) = self else { return self }
    let text = String(decoding: bytes, as: UTF8.self)
    if let number = Int64(text), String(number) == text { return .integer(number) }
    let isPlain = bytes.allSatisfy { (0x30...0x39).contains($0) || $0 == 0x2e || $0 == 0x2d }
    if isPlain, bytes.contains(0x2e), bytes.count < 17, let number = Double(text) { return .real(number) }
    return .text(bytes)
  }

  /// As PostgreSQL reads it.
  fileprivate var printed: Value {
    switch self {
    case .null, .exact: self
    case .integer(let number): .exact(Array(String(number).utf8))
    case .real(let number): .exact(Array(String(number).utf8))
    case .text(let bytes): .exact(bytes)
    case .blob(let bytes): .exact(Array(("\\x" + bytes.hex).utf8))
    }
  }
}
