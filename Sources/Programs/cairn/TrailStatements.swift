import Changes
import TrailText
import Trails

/// `cairn trail show --sql`: prints SQL statements that repeat the changes of a trail.
struct TrailStatements {
  private let dialect: TrailSQL.Dialect

  init(_ dialect: TrailSQL.Dialect) { self.dialect = dialect }

  /// Prints the statements for an extract of a trail.
  /// - Throws: `unsupported`, at the end, if the dialect cannot express some values.
  func run(_ extract: TrailExtract) throws -> Int32 {
    var sql = TrailSQL(dialect)
    try TrailOutput.printing { output in
      for line in sql.prologue { output.line(line) }
      try extract.read { record, reader in
        for line in try sql.render(record, at: reader.position, schema: reader.schema) { output.line(line) }
      }
    }
    try sql.reportProblems()
    return 0
  }
}

extension TrailSQL {
  /// Notes the values that the dialect cannot express.
  ///
  /// - Throws: `unsupported` if there are any.
  func reportProblems() throws {
    guard problemCount > 0 else { return }
    for problem in problems { Terminal.note("cannot be represented: \(problem)") }
    throw CairnError(
      .unsupported,
      "\(problemCount.counted("change")) cannot be represented in the SQL of \(dialect.rawValue), and \(problemCount == 1 ? "was" : "were") left out",
      hint: "search the output for '-- cannot be represented'; --sql sqlite prints every value of an SQLite database")
  }
}
