import Changes
import SQLiteKit

/// Finds errors in an expression that are errors for every table.
package enum ExpressionFault {
  private static let noColumn = "no such column: "
  /// The maximum number of columns that a test of an expression creates, one for each name in the expression.
  private static let columnsMax = 1_900

  /// Returns the error of an expression; nil if the expression may be valid for some table.
  /// - Parameter isColumn: Whether the expression is the value of a column. A column name is then not evaluated.
  /// - Parameter isName: A function that returns whether a column may have a given name.
  package static func reason(
    of text: String, isColumn: Bool, isName: (String) -> Bool = { _ in true }
  ) -> String? {
    let name = text.split(whereSeparator: \.isWhitespace).joined(separator: " ")
    let named = TableSchema(epoch: 0, engine: .sqlite, name: "r", columns: [.init(name: name)])
    do throws(Expression.Fault) {
      if try Expression(text, of: named).column != nil, isColumn { return nil }
    } catch { return "it is not one expression" }
    // Add a column for every name that SQLite does not know, until it knows all names.
    var columns: [Calculator.Column] = []
    while columns.count < columnsMax {
      do throws(SQLiteError) { return chance(try calculator(text, columns), columns.count) } catch {
        guard error.message.hasPrefix(noColumn) else { return error.message }
        let name = String(error.message.dropFirst(noColumn.count))
        guard isName(name) else { return error.message }
        // SQLite cannot create such a column: the actual table decides.
        guard !columns.contains(where: { $0.name.hasSameBytes(as: name) }) else { return nil }
        columns.append(.init(name: name, type: ""))
      }
    }
    return nil
  }

  private static func calculator(_ text: String, _ columns: [Calculator.Column]) throws(SQLiteError) -> Calculator? {
    do { return try Calculator(columns: columns, groups: [[(text, false)]]) } catch let error as SQLiteError {
      throw error
    } catch { return nil }
  }

  /// Evaluates an expression with NULL in all columns. Returns SQLite's error if the result depends on chance or time;
  /// otherwise nil.
  private static func chance(_ calculator: Calculator?, _ count: Int) -> String? {
    do {
      try calculator?.set(Array(repeating: .null, count: count))
      try calculator?.values(0) { _, _ in }
    } catch let error as SQLiteError where error.message.contains("non-deterministic") {
      return error.message
    } catch {}
    return nil
  }
}
