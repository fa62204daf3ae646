/// The statements that were made for one table.
struct PostgresTableStatements {
  private static let statementsMax = 500
  /// A number that makes the names of the prepared statements unique.
  let number: Int
  private var statements: [PostgresApplyTable.Shape: PostgresStatement] = [:]
  private var count = 0

  init(number: Int) { self.number = number }

  func find(_ shape: PostgresApplyTable.Shape) -> PostgresStatement? { statements[shape] }

  /// Keeps and returns the statement with this SQL text.
  mutating func add(
    _ shape: PostgresApplyTable.Shape, _ sql: String, _ parameters: [PostgresStatement.Parameter]
  ) -> PostgresStatement {
    count += 1
    // The number of sets of columns that change together has no limit.
    if statements.count >= Self.statementsMax { statements.removeAll() }
    let statement = PostgresStatement(name: "c\(number)_\(count)", sql: sql, parameters: parameters)
    statements[shape] = statement
    return statement
  }
}
