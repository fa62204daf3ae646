import Changes
import Mapping

// Statements that write.
extension PostgresTranslator {
  mutating func statement(_ statement: WritingStatement, _ table: StatementTable, _ side: StatementTable.PostgresSide)
    throws(Unreplayable) -> String
  {
    let alias = (statement.alias ?? table.schema.name).asciiLowercased
    let columns = side.columns.map { "\(alias.quotedName).\($0.name.quotedName)" }.joined(separator: ", ")
    let sql: String
    switch statement.kind {
    case .insert: sql = try insert(statement, table, side, alias)
    case .update: sql = try update(statement, table, side, alias)
    case .delete:
      names.sources = [Self.named(table, as: alias)]
      sql = "DELETE FROM \(side.rowsName) AS \(alias.quotedName)\(try condition(of: statement))"
    }
    return "\(sql) RETURNING \(columns)"
  }

  private mutating func update(
    _ statement: WritingStatement, _ table: StatementTable, _ side: StatementTable.PostgresSide, _ alias: String
  ) throws(Unreplayable) -> String {
    names.sources = [Self.named(table, as: alias)]
    let set = try self.set(statement.assignments, table, side)
    return "UPDATE \(side.rowsName) AS \(alias.quotedName) SET \(set)\(try condition(of: statement))"
  }

  private mutating func condition(of statement: WritingStatement) throws(Unreplayable) -> String {
    guard let condition = statement.condition else { return "" }
    return " WHERE \(try self.condition(condition))"
  }

  private static func named(_ table: StatementTable, as alias: String) -> NamedSource {
    var source = NamedSource(table, as: alias)
    for index in source.columns.indices {
      source.columns[index].sql = table.postgres?.columns[index].name.quotedName ?? ""
    }
    return source
  }

  private mutating func set(
    _ assignments: [WritingStatement.Assignment], _ table: StatementTable, _ side: StatementTable.PostgresSide
  ) throws(Unreplayable) -> String {
    var parts: [String] = []
    for assignment in assignments {
      guard let name = assignment.columns.first, let column = table.index(of: name) else { throw refused("SET") }
      let value = try assigned(try piece(assignment.value), to: column, of: table)
      parts.append("\(side.columns[column].name.quotedName) = \(value)")
    }
    return parts.joined(separator: ", ")
  }

  private mutating func insert(
    _ statement: WritingStatement, _ table: StatementTable, _ side: StatementTable.PostgresSide, _ alias: String
  ) throws(Unreplayable) -> String {
    var columns = try Checker.columns(of: statement, table)
    if let drawn = table.drawnColumn,
      !columns.contains(drawn) || checker.givesNull(drawn, columns, statement.rows)
    {
      throw Unreplayable("the number of a row is drawn by the database")
    }
    names.sources = []
    var defaults: [String] = []
    for (column, value) in try Checker.defaults(of: table, besides: columns) {
      columns.append(column)
      defaults.append(try assigned(try PostgresPiece(constant: value, bound), to: column, of: table))
    }
    var rows: [String] = []
    for row in statement.rows {
      var values: [String] = []
      for (value, column) in zip(row, columns) {
        values.append(try assigned(try piece(value), to: column, of: table))
      }
      rows.append("(\((values + defaults).joined(separator: ", ")))")
      // Each row repeats the defaults.
      try count(rows[rows.count - 1])
    }
    let list = columns.map { side.columns[$0].name.quotedName }.joined(separator: ", ")
    return "INSERT INTO \(side.name) AS \(alias.quotedName)(\(list)) VALUES \(rows.joined(separator: ", "))"
      + (try conflict(statement, table, side, alias))
  }

  private mutating func conflict(
    _ statement: WritingStatement, _ table: StatementTable, _ side: StatementTable.PostgresSide, _ alias: String
  ) throws(Unreplayable) -> String {
    func list(_ columns: [Int]) -> String { columns.map { side.columns[$0].name.quotedName }.joined(separator: ", ") }
    if let upsert = statement.upsert {
      let key = upsert.columns.compactMap { table.index(of: $0) }
      let target = key.isEmpty ? "" : " (\(list(key)))"
      guard !upsert.assignments.isEmpty else { return " ON CONFLICT\(target) DO NOTHING" }
      names.sources = [Self.named(table, as: alias), Self.named(table, as: "excluded")]
      let set = try self.set(upsert.assignments, table, side)
      let condition = try upsert.condition.map { condition throws(Unreplayable) in
        " WHERE \(try self.condition(condition))"
      }
      return " ON CONFLICT\(target) DO UPDATE SET \(set)\(condition ?? "")"
    }
    switch statement.resolution {
    case .abort: return ""
    case .ignore: return " ON CONFLICT DO NOTHING"
    case .replace:
      let all = side.columns.map { "\($0.name.quotedName) = excluded.\($0.name.quotedName)" }.joined(separator: ", ")
      return " ON CONFLICT (\(list(table.onlyKey ?? table.schema.key))) DO UPDATE SET \(all)"
    }
  }

  // MARK: Values on their way into columns

  /// Returns a value in the form that its column stores under SQLite's affinity rules.
  func assigned(_ piece: PostgresPiece, to index: Int, of table: StatementTable) throws(Unreplayable) -> String {
    guard let side = table.postgres else { throw refused("a column") }
    let (source, type) = (table.schema.columns[index], side.columns[index].type)
    let kind = PostgresValue(source, side.columns[index])
    if piece.isNull { return "NULL::\(type.name)" }
    let misfit = Unreplayable("what it puts into column \(source.name) may be another value in PostgreSQL")
    if let constant = piece.constant {
      guard let form = try form(constant, kind, source, type) else { throw misfit }
      return form
    }
    switch (kind, piece.value) {
    case (.closed(let type), .closed(let given)?) where type == given: return piece.sql
    case (.closed(let type), .text?) where source.affinity == "TEXT" && type.isCollatable && type.kind == .text:
      return piece.sql
    case (.integer, .integer?), (.text, .text?), (.blob, .blob?), (.logic, .logic?), (.real, .real?),
      (.number, .number?):
      return piece.sql
    case (.integer, .logic?): return "(\(piece.sql))::int"
    case (.text, .integer?): return "(\(piece.sql))::text"
    case (.real, .integer?), (.real, .number?): return "(\(piece.sql))::float8"
    case (.number, .integer?): return "(\(piece.sql))::numeric"
    // Convert by way of text: a direct cast would round to fifteen digits.
    case (.number, .real?): return "(\(piece.sql))::text::numeric"
    default: throw misfit
    }
  }

  /// Returns a constant as SQL, in the form that apply writes to the column; nil if the column may change the value.
  private func form(
    _ constant: Value, _ kind: PostgresValue, _ source: TableSchema.Column, _ type: PostgresType
  ) throws(Unreplayable) -> String? {
    var form = ByteWriter(capacity: 64)
    let text = PostgresText(from: source, of: .sqlite, to: type)
    let kept: Value = Self.underAffinity(constant, source.affinity)
    let misfit: Misfit? = kept.withView { view in
      do throws(Misfit) { try text.append(view, to: &form) } catch { return error }
      return nil
    }
    guard misfit == nil else { return nil }
    return "\(try bound.sql(Array(form.bytes)))::\(type.name)"
  }

  /// Returns the value that SQLite stores in a column of this affinity.
  ///
  /// Source: https://sqlite.org/datatype3.html, section 3
  static func underAffinity(_ constant: Value, _ affinity: String) -> Value {
    switch (affinity, constant) {
    case ("TEXT", .integer(let number)): return .text(String(number))
    case ("REAL", .integer(let number)): return .real(Double(number))
    case ("INTEGER", .real(let number)), ("NUMERIC", .real(let number)):
      return Int64(exactly: number).map(Value.integer) ?? constant
    case ("INTEGER", .text(let bytes)), ("NUMERIC", .text(let bytes)), ("REAL", .text(let bytes)):
      let text = String(decoding: bytes, as: UTF8.self)
      guard let number = Int64(text), String(number) == text else { return constant }
      return affinity == "REAL" ? .real(Double(number)) : .integer(number)
    default: return constant
    }
  }
}
