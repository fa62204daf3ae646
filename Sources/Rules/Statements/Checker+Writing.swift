import Changes
import Mapping

// Statements that write.
extension Checker {
  mutating func check(_ statement: WritingStatement, _ table: StatementTable) throws(Unreplayable) {
    names.sources = statement.kind == .insert ? [] : [NamedSource(table, as: statement.alias)]
    if let condition = statement.condition { try check(condition) }
    switch statement.kind {
    case .insert: try checkInsert(statement, table)
    case .update:
      try check(statement.assignments, table)
      try Self.checkKey(of: statement.assignments, table)
    case .delete: break
    }
  }

  /// Checks the values of SET. Throws also for a column that is unknown or set twice.
  private mutating func check(_ assignments: [WritingStatement.Assignment], _ table: StatementTable)
    throws(Unreplayable)
  {
    var set: Set<NameKey> = []
    for assignment in assignments {
      for column in assignment.columns {
        guard table.index(of: column) != nil else { throw Unreplayable("\(column) is no column that is replicated") }
        guard set.insert(column.asciiLowercased.nameKey).inserted else {
          throw Unreplayable("it sets column \(column) twice")
        }
      }
      try check(assignment.value)
    }
  }

  /// Throws if the assignments change a key, or if the table has no key, or one that may be NULL.
  ///
  /// Without a key, the changed rows do not show which rows they were before.
  private static func checkKey(of assignments: [WritingStatement.Assignment], _ table: StatementTable)
    throws(Unreplayable)
  {
    let flags = table.schema.flags
    let key = flags.contains(.wholeRow) || flags.contains(.nullableKey) ? [] : table.schema.key
    guard !key.isEmpty else {
      throw Unreplayable("it changes rows without a key, and others may be changed at the target")
    }
    let set = assignments.flatMap(\.columns).compactMap { table.index(of: $0) }
    guard set.allSatisfy({ !key.contains($0) }) else {
      throw Unreplayable("it changes a key, and other rows may be changed at the target")
    }
  }

  private mutating func checkInsert(_ statement: WritingStatement, _ table: StatementTable) throws(Unreplayable) {
    let columns = try Self.columns(of: statement, table)
    for row in statement.rows {
      guard row.count == columns.count else {
        throw Unreplayable("it does not give as many values as it names columns")
      }
      for value in row { try check(value) }
    }
    if let drawn = table.drawnColumn, !columns.contains(drawn) || givesNull(drawn, columns, statement.rows),
      table.schema.flags.contains(.autoincrement)
    {
      throw Unreplayable("AUTOINCREMENT may be further at the source")
    }
    _ = try Self.defaults(of: table, besides: columns)
    try checkConflicts(statement, table, columns)
  }

  func givesNull(_ column: Int, _ columns: [Int], _ rows: [[Expression]]) -> Bool {
    guard let place = columns.firstIndex(of: column) else { return true }
    return rows.contains { (try? constant($0[place])) == .some(.null) }
  }

  private mutating func checkConflicts(_ statement: WritingStatement, _ table: StatementTable, _ columns: [Int])
    throws(Unreplayable)
  {
    let wanted = statement.upsert?.columns ?? []
    guard statement.resolution != .abort || statement.upsert != nil else { return }
    let key: [Int]
    if wanted.isEmpty {
      guard let only = table.onlyKey else {
        throw Unreplayable("table \(table.schema.name) has several keys, or none, by which rows may be in conflict")
      }
      key = only
    } else {
      let found = wanted.compactMap { table.index(of: $0) }
      let meant = Set(found)
      guard found.count == wanted.count,
        ([table.schema.key] + table.schema.uniques).contains(where: { Set($0) == meant })
      else { throw Unreplayable("its conflict is not one of a key of the table") }
      key = found
    }
    guard key.allSatisfy({ table.schema.columns[$0].isBinary }) else {
      throw Unreplayable("a key of table \(table.schema.name) has a collation of its own")
    }
    let places = key.compactMap { columns.firstIndex(of: $0) }
    guard places.count == key.count else {
      throw Unreplayable("it does not give the key by which rows may be in conflict")
    }
    guard let upsert = statement.upsert else { return }
    // An unqualified name means the existing row.
    names.sources = [NamedSource(table, as: statement.alias), NamedSource(table, as: "excluded")]
    if let condition = upsert.condition { try check(condition) }
    try check(upsert.assignments, table)
    if !upsert.assignments.isEmpty { try Self.checkKey(of: upsert.assignments, table) }
  }

  /// Returns the indexes of the columns to which an INSERT gives values, in the statement's order.
  static func columns(of statement: WritingStatement, _ table: StatementTable) throws(Unreplayable) -> [Int] {
    guard let named = statement.columns else { return Array(table.schema.columns.indices) }
    var columns: [Int] = []
    for name in named {
      guard let index = table.index(of: name), !columns.contains(index) else {
        throw Unreplayable("\(name) is no column that is replicated, or is named twice")
      }
      columns.append(index)
    }
    return columns
  }

  /// Returns the default values of the columns that an INSERT leaves out. Throws if a default is not constant, or if the
  /// defaults are long together.
  static func defaults(of table: StatementTable, besides columns: [Int]) throws(Unreplayable) -> [(
    column: Int, value: Value
  )] {
    let given = Set(columns)
    var (defaults, bytes): ([(column: Int, value: Value)], Int) = ([], 0)
    for (index, column) in table.schema.columns.enumerated() where !given.contains(index) {
      bytes += column.defaultText?.utf8.count ?? 0
      try StatementBounds.check(defaultBytes: bytes)
      guard let value = constantDefault(column) else {
        throw Unreplayable("the default of column \(column.name) is not a constant")
      }
      defaults.append((index, value))
    }
    return defaults
  }

  /// Returns the default value of a column: NULL without a DEFAULT clause, nil if the default is not constant.
  private static func constantDefault(_ column: TableSchema.Column) -> Value? {
    guard let text = column.defaultText, !text.isEmpty else { return .null }
    guard let tokens = try? Tokenizer.tokens(text), (try? StatementBounds.check(tokens)) != nil else { return nil }
    var parser = StatementParser(tokens: tokens)
    guard let expression = try? parser.expression(), parser.kind == nil, case .literal(let value) = expression else {
      return nil
    }
    return value
  }
}
