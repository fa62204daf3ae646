import Changes
import Conflicts
import SQLiteKit
import Transforming

/// The SQL expression of a conflict rule `sql:`.
///
/// A rule for a column can use `local`, `incoming` and `before`. For other columns, these are `local_COLUMN` and so on.
///
/// SQLite evaluates the expression at every node, so that all nodes get the same result.
package struct ConflictExpression {
  private enum Side: String, CaseIterable {
    case local, incoming, before

    func row(_ rows: MetRows) -> RowVersion.Row? {
      switch self {
      case .local: rows.local
      case .incoming: rows.incoming
      case .before: rows.before
      }
    }
  }

  private struct Operand {
    var side: Side
    var column: (index: Int, name: String)?

    var name: String { column.map { "\(side)_\($0.name)" } ?? side.rawValue }
  }

  private let text: String
  private let operands: [Operand]
  private let calculator: Calculator

  /// Parses the expression of a rule.
  ///
  /// - Parameter isOfRows: Whether the rule is for whole rows. The later row then wins if the expression is true.
  /// - Parameter columns: The columns of the table.
  /// - Throws: `rule-refused`, with SQLite's message.
  init(_ text: String, columns: [String], isOfRows: Bool = false) throws {
    self.text = text
    let lowercased = text.asciiLowercased
    operands = Side.allCases.flatMap { side in
      // A table may have more columns than the calculator's.
      let named = columns.enumerated().filter { lowercased.contains("\(side)_\($0.element.asciiLowercased)") }
      return named.map { Operand(side: side, column: ($0.offset, $0.element)) }
        + (isOfRows ? [] : [Operand(side: side)])
    }
    do {
      calculator = try Calculator(
        columns: operands.map { .init(name: $0.name, type: "") }, groups: [[(text, isOfRows)]])
    } catch let error as SQLiteError { throw Self.refused(text, error.message) }
  }

  /// Evaluates the expression; unknown operands are NULL.
  ///
  /// For a rule about whole rows, the result is 1 (true), 0 (false) or NULL. For a column, it is the column's value.
  func value(_ rows: MetRows) throws -> Value {
    let row = operands.map { operand in
      (operand.column?.index ?? rows.column).flatMap { operand.side.row(rows)?[$0] }?.counted ?? .null
    }
    let found: Value
    do { found = try result(row) } catch let error as SQLiteError {
      // A rule that fails without values is invalid. Otherwise, it fails for the values of this row.
      do { _ = try result(row.map { _ in .null }) } catch let other as SQLiteError {
        throw Self.refused(text, other.message)
      }
      throw CairnError(
        .conflictStopped, "the rule sql:\(text) for conflicts fails: \(error.message)",
        hint: "write the row at one of the nodes, with values that the rule takes, or choose another rule")
    }
    if let column = rows.column, case .exact? = rows.incoming[column] { return found.printed }
    return found
  }

  private func result(_ row: [Value]) throws -> Value {
    var found = Value.null
    try Self.withViews(row[...], []) { views in
      try calculator.set(views)
      try calculator.values(0) { _, view in found = view.value ?? .null }
    }
    return found
  }

  /// Returns the reason why an expression is invalid for every table; nil if it may be valid.
  package static func fault(_ text: String, isOfRows: Bool) -> String? {
    ExpressionFault.reason(of: text, isColumn: false) { name in
      let name = name.asciiLowercased
      return Side.allCases.contains { name.hasPrefix("\($0)_") || (!isOfRows && name == $0.rawValue) }
    }
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
      .ruleRefused, "the rule sql:\(text) for conflicts cannot be applied: \(reason)",
      hint:
        "it is an expression in SQLite's language over local, incoming and before, and local_COLUMN, incoming_COLUMN and before_COLUMN of the rows; of rows over these alone"
    )
  }
}

extension Value {
  /// The value as an operand in SQLite. An exact number of PostgreSQL becomes a number if nothing is lost, else a text.
  fileprivate var counted: Value {
    guard case .exact(let bytes) = self else { return self }
    let text = String(decoding: bytes, as: UTF8.self)
    if let number = Int64(text), String(number) == text { return .integer(number) }
    let isPlain = bytes.allSatisfy { (0x30...0x39).contains($0) || $0 == 0x2e || $0 == 0x2d }
    if isPlain, bytes.contains(0x2e), bytes.count < 17, let number = Double(text) { return .real(number) }
    return .text(bytes)
  }

  /// The value as a text in PostgreSQL's form; NULL stays NULL.
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
