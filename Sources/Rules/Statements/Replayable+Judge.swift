import Changes
import Mapping

extension Replayable {
  /// Decides whether the target can execute a statement of SQLite again. The result has the statement for the target,
  /// or the reason why not.
  ///
  /// - Parameter tables: A function that returns the table with a lower-case name; nil unless source and target have
  ///   this table in the same form.
  package static func judge(
    _ statement: ExecutedStatement, for engine: Engine, tables: (String) -> StatementTable?
  ) -> Replayable {
    do throws(Unreplayable) { return .yes(try plan(statement, engine, tables)) } catch {
      return .no(reason: error.reason)
    }
  }

  private static func plan(
    _ executed: ExecutedStatement, _ engine: Engine, _ tables: (String) -> StatementTable?
  ) throws(Unreplayable) -> ReplayPlan {
    guard executed.dialect == .sqlite else { throw Unreplayable("it is not in SQLite's language") }
    if executed.flags.contains(.isPartial) { throw Unreplayable("it touched tables that are not captured") }
    let statement = try StatementParser.parse(executed.text, executed.parameters)
    guard let table = tables(statement.table.asciiLowercased) else {
      throw Unreplayable("table \(statement.table) is not one that the target has as it is")
    }
    var checker = Checker(parameters: executed.parameters, now: executed.now)
    try checker.check(statement, table)
    // The digest has the rows that such a statement leaves, and not what they were before.
    guard table.isGuarded || !statement.overwrites else {
      throw Unreplayable("it changes rows that programs at the target may have written (local_writes)")
    }
    var plan = ReplayPlan(
      sql: "", parameters: [], table: table.schema.name, deletes: statement.kind == .delete)
    switch engine {
    case .sqlite:
      // The target may have more unique keys: SQLite would delete rows that it does not report.
      guard statement.resolution != .replace else {
        throw Unreplayable("it may replace rows that SQLite does not report")
      }
      plan.sql = try SQLiteRewriting(executed.text, statement, checker.edits).sql
      plan.returning = " RETURNING " + table.schema.columns.map(\.name.quotedName).joined(separator: ", ")
      plan.parameters = executed.parameters
    case .postgres:
      guard let side = table.postgres else { throw Unreplayable("table \(statement.table) is not at the target") }
      var translator = PostgresTranslator(checker: checker)
      plan.sql = try translator.statement(statement, table, side)
      try translator.bound.check(plan.sql)
      plan.parameters = translator.bound.all.map { .text(Array($0.utf8)) }
    }
    return plan
  }
}

/// A statement that SQLite can execute again, with a constant instead of the current time, and without RETURNING.
struct SQLiteRewriting {
  private let text: [UInt8]
  private let statement: WritingStatement
  private var edits: [Checker.Edit]

  init(_ text: String, _ statement: WritingStatement, _ edits: [Checker.Edit]) throws(Unreplayable) {
    (self.text, self.statement, self.edits) = (Array(text.utf8), statement, edits)
    // Number the parameters, so that replacing one by a time keeps the numbers of the others.
    for token in try Tokenizer.tokens(text) {
      guard case .parameter(let number) = token.kind, !edits.contains(where: { $0.range.overlaps(token.range) }) else {
        continue
      }
      self.edits.append(.init(range: token.range, text: "?\(number)"))
    }
    self.edits.sort { $0.range.lowerBound < $1.range.lowerBound }
  }

  var sql: String {
    var sql: [UInt8] = []
    var at = 0
    for edit in edits where edit.range.upperBound <= statement.end {
      sql += text[at..<edit.range.lowerBound]
      sql += edit.text.utf8
      at = edit.range.upperBound
    }
    sql += text[at..<statement.end]
    return String(decoding: sql, as: UTF8.self)
  }
}
