import Changes
import Mapping
import SQLiteKit

/// The SQL statements about one table in one dialect. In a row, nil is an unknown or unchanged value.
struct TableSQL {
  /// The table, as the database that gets the statements stores it.
  let schema: TableSchema
  let source: TableSchema
  let dialect: TrailSQL.Dialect
  let name: String
  /// Messages about properties of the source's table that this table lacks, or has in another form.
  let notices: [String]
  private let columns: [String]
  private let types: [PostgresType]
  private let key: [Int]
  private let namesCollation: Bool

  init(schema: TableSchema, dialect: TrailSQL.Dialect) throws {
    var given = schema
    var left: [String] = []
    if dialect == .sqlite, schema.engine == .postgres, !schema.uniques.isEmpty,
      SQLText.tokens(Array(schema.createText.utf8)).contains(where: { $0.word == "DEFERRABLE" })
    {
      given.uniques = []
      left.append("unique keys of \(schema.name) are left out: they are deferrable, which SQLite does not support")
    }
    let mapping = try TableMapping(given, to: dialect == .sqlite ? .sqlite : .postgres)
    source = mapping.source
    self.schema = mapping.target
    notices =
      left + mapping.notices
      + mapping.contracts.compactMap { contract in
        guard case .lossy(let how) = contract.verdict else { return nil }
        return "\(given.name).\(contract.column) has \(contract.sourceType), \(contract.targetType) here: \(how)"
      }
    self.dialect = dialect
    key = mapping.target.key
    columns = mapping.target.columns.map { dialect == .sqlite ? $0.name.quotedName : $0.name.postgresIdentifier }
    types = dialect == .sqlite ? [] : mapping.postgresTypes
    namesCollation = dialect == .sqlite && mapping.target.namesCollation
    name = dialect == .sqlite ? mapping.target.name.quotedName : mapping.target.postgresIdentifier
  }

  func column(_ index: Int) -> String { columns[index] }

  func literal(_ value: Value, _ index: Int) throws(Unrepresentable) -> String {
    if value == .null { return "NULL" }
    var written = ByteWriter(capacity: 64)
    do throws(Unrepresentable) {
      switch dialect {
      case .sqlite:
        guard source.engine == .postgres else { return try SQLLiteral.sqlite(value) }
        let converter = SQLiteValue(from: source.columns[index])
        return try SQLLiteral.sqlite(
          try Self.fitting(value) { view throws(Misfit) in try converter.convert(view, scratch: &written).value ?? .null
          })
      case .postgres:
        let converter = PostgresText(from: source.columns[index], of: source.engine, to: types[index])
        try Self.fitting(value) { view throws(Misfit) in try converter.append(view, to: &written) }
        return try SQLLiteral.postgres(written.bytes, types[index])
      }
    } catch { throw Unrepresentable(reason: "column \(schema.columns[index].name): \(error.reason)") }
  }

  private static func fitting<T>(
    _ value: Value, _ convert: (ColumnView) throws(Misfit) -> T
  ) throws(Unrepresentable) -> T {
    let result = value.withView { view in Result { () throws(Misfit) in try convert(view) } }
    switch result {
    case .success(let made): return made
    case .failure(let misfit): throw Unrepresentable(reason: "\(value.shown) cannot be kept: \(misfit.reason)")
    }
  }

  // MARK: Rows

  var deleteAll: String { "DELETE FROM \(name);" }

  /// Returns an INSERT statement.
  /// - Parameter isTolerant: Whether the row replaces an existing row with the same key.
  func insert(_ row: [Value?], isTolerant: Bool) throws(Unrepresentable) -> String {
    var columns: [String] = []
    var values: [String] = []
    for (index, value) in row.enumerated() {
      guard let value else { continue }
      columns.append(column(index))
      values.append(try literal(value, index))
    }
    let replaces = isTolerant && !schema.flags.contains(.wholeRow)
    let clause = replaces && dialect == .sqlite ? " OR REPLACE" : ""
    guard !columns.isEmpty else { return "INSERT\(clause) INTO \(name) DEFAULT VALUES;" }
    let tail = replaces && dialect == .postgres ? upsert(row) : ""
    let (into, given) = (columns.joined(separator: ", "), values.joined(separator: ", "))
    let overriding = schema.columns.contains { $0.identity == .always } ? " OVERRIDING SYSTEM VALUE" : ""
    return "INSERT\(clause) INTO \(name) (\(into))\(overriding) VALUES (\(given))\(tail);"
  }

  /// Returns statements that delete every other row with a unique value of `row`. Empty for SQLite, or if `row` lacks a
  /// value of the key.
  func clear(for row: [Value?]) throws(Unrepresentable) -> [String] {
    guard dialect == .postgres, !key.isEmpty, !isWholeRow(row) else { return [] }
    var lines: [String] = []
    for unique in schema.uniques where Set(unique) != Set(key) {
      var terms: [String] = []
      for index in unique {
        guard let value = row[index], value != .null else { break }
        terms.append("\(column(index)) = \(try literal(value, index))")
      }
      guard terms.count == unique.count else { continue }
      lines.append("DELETE FROM \(name) WHERE \(terms.joined(separator: " AND ")) AND NOT (\(try identity(row)));")
    }
    return lines
  }

  private func upsert(_ row: [Value?]) -> String {
    let rest = row.indices.filter { row[$0] != nil && !key.contains($0) }
      .map { "\(column($0)) = EXCLUDED.\(column($0))" }
    let target = key.map(column).joined(separator: ", ")
    return " ON CONFLICT (\(target)) DO "
      + (rest.isEmpty ? "NOTHING" : "UPDATE SET \(rest.joined(separator: ", "))")
  }

  func delete(_ before: [Value?]) throws(Unrepresentable) -> String {
    "DELETE FROM \(name) WHERE \(try identity(before));"
  }

  /// Returns the statements that update a row. If the old row `given` lacks key values, the key values of `after`
  /// identify the row.
  /// - Parameter isTolerant: Whether the row may be missing, or its values may differ from `given`.
  func update(_ given: [Value?], _ after: [Value?], isTolerant: Bool) throws(Unrepresentable) -> [String] {
    var before = given.isEmpty ? Array(repeating: nil, count: after.count) : given
    for index in key where before[index] == nil { before[index] = after[index] }
    let merged = zip(before, after).map { $1 ?? $0 }
    if isTolerant, !schema.flags.contains(.wholeRow), !merged.contains(nil) {
      let row = try insert(merged, isTolerant: true)
      let isMoved = key.contains { before[$0] != merged[$0] }
      let clears = try clear(for: merged)
      return isMoved || isWholeRow(before) ? [try delete(before)] + clears + [row] : clears + [row]
    }
    var assignments: [String] = []
    for (index, value) in after.enumerated() {
      guard let value, source.engine == .sqlite || !key.contains(index) || before[index] != value else { continue }
      assignments.append("\(column(index)) = \(try literal(value, index))")
    }
    guard !assignments.isEmpty else { return [] }
    return ["UPDATE \(name) SET \(assignments.joined(separator: ", ")) WHERE \(try identity(before));"]
  }

  // MARK: Identity

  private func isWholeRow(_ row: [Value?]) -> Bool {
    schema.flags.contains(.wholeRow) || key.isEmpty || key.contains { row[$0] == .null }
  }

  private func identity(_ row: [Value?]) throws(Unrepresentable) -> String {
    if let index = key.first(where: { row[$0] == nil }) {
      throw Unrepresentable(reason: "column \(schema.columns[index].name): the row before is not given")
    }
    var terms: [String] = []
    guard isWholeRow(row) else {
      for index in key {
        guard let value = row[index] else { continue }
        terms.append("\(compared(index, value, schema.columns[index].collation)) = \(try literal(value, index))")
      }
      return terms.joined(separator: " AND ")
    }
    for (index, value) in row.enumerated() {
      guard let value else { continue }
      terms.append(try equality(index, value))
    }
    // Select exactly one of several equal rows.
    let place = dialect == .sqlite ? rowid : "ctid"
    let condition = terms.isEmpty ? "" : " WHERE \(terms.joined(separator: " AND "))"
    return "\(place) = (SELECT \(place) FROM \(name)\(condition) LIMIT 1)"
  }

  /// Returns a condition that is true if the column has exactly this value; also for NULL.
  private func equality(_ index: Int, _ value: Value) throws(Unrepresentable) -> String {
    if value == .null { return "\(column(index)) IS NULL" }
    let literal = try literal(value, index)
    guard dialect == .sqlite else {
      return types[index].comparesAsText ? "\(column(index))::text = \(literal)" : "\(column(index)) = \(literal)"
    }
    let term = "\(compared(index, value, "BINARY")) IS \(literal)"
    // In a column that converts nothing, 1 and 1.0 are different values that compare as equal.
    let column = schema.columns[index]
    let isOpen =
      column.affinity == "BLOB" || (schema.flags.contains(.strict) && column.declaredType.asciiUppercased == "ANY")
    switch value {
    case .integer where isOpen: return "\(term) AND typeof(\(self.column(index))) = 'integer'"
    case .real where isOpen: return "\(term) AND typeof(\(self.column(index))) = 'real'"
    default: return term
    }
  }

  /// Returns the column for a comparison with `value`, with a COLLATE clause if necessary.
  private func compared(_ index: Int, _ value: Value, _ collation: String) -> String {
    guard dialect == .sqlite, !collation.isEmpty, case .text = value, namesCollation else { return column(index) }
    return "\(column(index)) COLLATE \(collation.quotedName)"
  }

  private var rowid: String {
    let taken = Set(schema.columns.map { $0.name.sqliteKey })
    return ["rowid", "_rowid_", "oid"].first { !taken.contains($0.nameKey) } ?? "rowid"
  }

  // MARK: Ranges

  /// Whether this dialect sorts the table's keys in the same order as the source.
  var canDeleteRanges: Bool {
    key.allSatisfy { index in
      switch (source.engine, dialect) {
      case (.sqlite, .sqlite), (.postgres, .postgres): true
      case (.sqlite, .postgres): types[index].keepsOrder(of: source.columns[index])
      case (.postgres, .sqlite): PostgresType(source.columns[index]).keepsOrderInSQLite
      }
    }
  }

  /// Returns statements that delete the rows in the range of a chunk.
  func delete(_ range: Refresh.Range) throws(Unrepresentable) -> [String] {
    switch range {
    case .unkeyed, .some: return []
    case .row(let values):
      var terms: [String] = []
      for index in key {
        guard index < values.count, let value = values[index] else {
          throw Unrepresentable(reason: "the row of a refresh has no key")
        }
        terms.append("\(column(index)) = \(try literal(value, index))")
      }
      return ["DELETE FROM \(name) WHERE \(terms.joined(separator: " AND "));"]
    case .nullKeys:
      return ["DELETE FROM \(name) WHERE \(key.map { "\(column($0)) IS NULL" }.joined(separator: " OR "));"]
    case .keys(let after, let through):
      var terms = schema.flags.contains(.nullableKey) ? key.map { "\(column($0)) IS NOT NULL" } : []
      for (sign, bound) in [(">", after), ("<=", through)] {
        guard let bound else { continue }
        var values: [String] = []
        for index in key {
          guard index < bound.count, let value = bound[index] else {
            throw Unrepresentable(reason: "the bound of a refresh chunk has no key")
          }
          values.append(sorted(try literal(value, index), index, isColumn: false))
        }
        let columns = key.map { sorted(column($0), $0, isColumn: true) }
        terms.append(
          columns.count == 1
            ? "\(columns[0]) \(sign) \(values[0])"
            : "(\(columns.joined(separator: ", "))) \(sign) (\(values.joined(separator: ", ")))")
      }
      return ["DELETE FROM \(name)\(terms.isEmpty ? "" : " WHERE " + terms.joined(separator: " AND "));"]
    }
  }

  /// Returns SQL for a key column, or for a value of that column, that sorts in the same order as at the source.
  private func sorted(_ term: String, _ index: Int, isColumn: Bool) -> String {
    let collation = source.columns[index].collation
    switch dialect {
    case .sqlite where source.engine == .postgres: return term
    case .sqlite:
      return isColumn && namesCollation && !collation.isEmpty ? "\(term) COLLATE \(collation.quotedName)" : term
    case .postgres:
      guard types[index].isCollatable else { return term }
      switch source.engine == .sqlite ? collation.asciiUppercased : "" {
      case "NOCASE": return "lower(\(term) COLLATE \"C\")"
      case "RTRIM": return "rtrim(\(term), ' ') COLLATE \"C\""
      default: return "\(term) COLLATE \"C\""
      }
    }
  }
}

extension TableSchema {
  /// Whether the table or its indexes may use another collation than SQLite's default.
  var namesCollation: Bool {
    ([createText] + objects.map(\.text)).contains { text in
      SQLText.tokens(Array(text.utf8)).contains { $0.word == "COLLATE" }
    }
  }
}
