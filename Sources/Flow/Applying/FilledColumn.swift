import Changes
import Mapping

/// A column that the source has added and that the target already had.
struct FilledColumn {
  /// The column at the target after the schema change.
  let column: TableSchema.Column
  /// The column as the target had it before the schema change.
  let own: TableSchema.Column
  let sourceDefault: String?
  /// The value that the source gave its rows in the column, as an SQL literal. Nil if the column's default is an
  /// expression.
  let literal: String?
  /// The value, as an SQL literal, that all rows of the target must have in the column. Nil: rows are not checked.
  let wanted: String?
  /// The target's default of the column (`own`) and the source's (`wanted`). Rows that have `own` must get `wanted`.
  /// Nil: no row is changed.
  let displaced: (own: String, wanted: String)?
  /// Whether a row with NULL in the column lacks the source's default. Otherwise, an application wrote that NULL.
  let lacksDefault: Bool
  /// Whether the target's own default of the column, for new rows, differs from the source's.
  let isUnlike: Bool

  /// Determines the value that the target's rows must have in a new column.
  ///
  /// - Parameter column: The column at the target.
  /// - Parameter isSourceAlone: Whether all rows at the target come from the source.
  /// - Parameter own: The column as the target had it before the schema change.
  /// - Parameter wasFilled: Whether the target gave its rows the default of `own` when the column was added.
  /// - Parameter yields: Two-way: whether this database takes the source's default instead of its own.
  init(
    _ source: TableSchema.Column, _ column: TableSchema.Column, isSourceAlone: Bool, own: TableSchema.Column,
    wasFilled: Bool, yields: Bool
  ) {
    (self.column, self.own, sourceDefault) = (column, own, source.defaultValue)
    literal = source.defaultValue == nil ? "NULL" : column.literalDefault
    isUnlike = literal != own.literalDefault
    // The source had no rows if the column may not be NULL and has no default: rows here are the target's own.
    let hadRows = !source.isNotNull || source.defaultValue != nil
    wanted = isSourceAlone && hadRows ? literal : nil
    lacksDefault = sourceDefault != nil && (isSourceAlone || !wasFilled)
    if yields, let literal, literal != "NULL", let mine = own.literalDefault, mine != "NULL", mine != literal {
      displaced = (mine, literal)
    } else {
      displaced = nil
    }
  }

  /// Returns a notice if each database computes the default of a column that the source adds, such as `random()`; nil
  /// for a literal.
  ///
  /// - Parameter table: The table's name.
  static func notice(_ source: TableSchema.Column, of table: String) -> String? {
    guard let text = source.defaultValue, source.literalDefault == nil else { return nil }
    let bytes = Array(text.utf8)
    let tokens = SQLText.tokens(bytes)
    // A function with arguments, or one such as CURRENT_TIMESTAMP.
    let calls = tokens.indices.contains { index in
      if tokens[index].word.hasPrefix("CURRENT_") || tokens[index].word.hasPrefix("LOCALTIME") { return true }
      guard index > 0, bytes[tokens[index].range] == [UInt8(ascii: "(")] else { return false }
      return !tokens[index - 1].word.isEmpty
    }
    guard calls else { return nil }
    return
      "table \(table): each database computes the default \(text) of the new column \(source.name) by itself, so rows that were on their way between them may differ in it: run 'cairn compare'"
  }

  /// Returns the error for the target's rows whose value in the column differs from the source's.
  ///
  /// - Parameter condition: The SQL condition that selects these rows.
  /// - Parameter table: The table in SQL.
  /// - Parameter more: Statements that the hint lists after the UPDATE of these rows.
  func error(
    _ refusal: SchemaRefusal, _ condition: String, of table: String, named name: String, isNull: Bool,
    more: [String] = []
  ) -> CairnError {
    var refusal = refusal
    let value = literal ?? column.defaultValue ?? "…"
    refusal.statements = ["UPDATE \(table) SET \(column.name.quotedName) = \(value) WHERE \(condition)"] + more
    let what =
      isNull
      ? "NULL in rows that have the default \(sourceDefault ?? value) at the source"
      : "has another value in rows that have \(value) at the source"
    return refusal.error("column \(column.name) is there, but \(what)", table: name)
  }

  /// Returns a waiting row with the value that rows of its table have in the column; nil if it has that value.
  ///
  /// The row may have begun to wait before its table had the column, or before its table got the source's default.
  ///
  /// - Parameter trail: The name of this database's own trail. A value that this database wrote last stays.
  /// - Parameter value: Returns the value of an SQL literal, as a waiting row has it.
  func filled(_ candidate: DisplacedRow, trail: String, value: (_ literal: String) throws -> Value) throws
    -> DisplacedRow?
  {
    guard let literal, literal != "NULL", displaced != nil || lacksDefault else { return nil }
    var candidate = candidate
    let place = candidate.row.row.columns.firstIndex { $0.name.hasSameBytes(as: column.name) }
    guard let place else {
      candidate.row.row.columns.append(.init(column.name, try value(literal)))
      return candidate
    }
    let former = try displaced.map { try value($0.own) } ?? .null
    guard candidate.row.row.columns[place].value == former, !candidate.stamp.origin.hasSameBytes(as: trail) else {
      return nil
    }
    candidate.row.row.columns[place].value = try value(literal)
    return candidate
  }
}

/// The rows of a target's table in a column that the source has added and the target already had.
protocol FilledRows {
  associatedtype Store: DisplacedRowStore
  /// The table's name in SQL.
  var table: String { get }
  /// The waiting rows of the target; nil if there cannot be any.
  var store: Store? { get }
  /// Returns whether rows satisfy a condition.
  func areThere(where condition: String) throws -> Bool
  /// Returns the condition for rows whose value in a column is a literal, or another value. Nil if the values of the
  /// column cannot be compared.
  func condition(_ column: String, is isEqual: Bool, _ literal: String) throws -> String?
  /// Returns the statements that give a column another default for new rows. Empty if there are none in the target's
  /// language.
  func statements(settingDefault literal: String, of column: String) -> [String]
  /// Returns the value of a literal, as a waiting row has it in a column.
  func value(_ literal: String, of column: String) throws -> Value
}

extension FilledRows {
  /// Throws `schema-stopped` if the rows of the target lack the source's values in a column. Then gives the waiting
  /// rows these values.
  ///
  /// - Parameter isRefreshed: Whether a refresh of the table follows the schema change.
  /// - Parameter trail: Two-way: the name of this database's own trail.
  func check(_ filled: FilledColumn, isRefreshed: Bool, trail: String?, _ refusal: SchemaRefusal, named name: String)
    throws
  {
    // A copy lacks the rows that only this end has: they need the source's default if both ends differ.
    if isRefreshed, !filled.isUnlike { return }
    let column = filled.column.name
    func check(_ condition: String?, isNull: Bool = false, more: [String] = []) throws {
      guard let condition, try areThere(where: condition) else { return }
      throw filled.error(refusal, condition, of: table, named: name, isNull: isNull, more: more)
    }
    if filled.lacksDefault { try check("\(column.quotedName) IS NULL", isNull: true) }
    if let (mine, wanted) = filled.displaced, let isMine = try condition(column, is: true, mine),
      let isUnlike = try condition(column, is: false, wanted)
    {
      try check("\(isMine) AND \(isUnlike)", more: statements(settingDefault: wanted, of: column))
    }
    if !isRefreshed, let wanted = filled.wanted { try check(condition(column, is: false, wanted)) }
    guard let trail, let store else { return }
    try store.forEach { candidate in
      guard candidate.row.isOf(table) else { return }
      let filled = try filled.filled(candidate, trail: trail) { try value($0, of: column) }
      if let filled { try store.add(filled) }
    }
  }
}

extension ContestedRow {
  /// Returns whether the row is of a table, given by its name in SQL.
  fileprivate func isOf(_ table: String) -> Bool {
    let name = self.table.quotedName
    return (namespace.isEmpty ? name : "\(namespace.quotedName).\(name)").hasSameBytes(as: table)
  }
}

extension TableSchema.Column {
  /// The SQL expression of the value that ALTER TABLE ADD COLUMN gives to the table's existing rows; nil for NULL.
  var defaultValue: String? {
    guard let text = defaultText else { return nil }
    let word = text.drop { "( ".contains($0) }.asciiUppercased
    guard word.hasPrefix("NULL") else { return text }
    let rest = word.dropFirst(4).drop { ") ".contains($0) }
    return rest.isEmpty || rest.hasPrefix("::") ? nil : text
  }

  /// The column's default as an SQL literal without a cast; `NULL` if there is none. Nil if it is an expression.
  ///
  ///     'x'::character varying  ->  'x'
  var literalDefault: String? {
    guard let text = defaultValue else { return "NULL" }
    let bytes = Array(text.utf8)
    let quote = UInt8(ascii: "'")
    guard bytes.first == quote else {
      let isNumber = !bytes.isEmpty && bytes.allSatisfy { (0x30...0x39).contains($0) || "-.".utf8.contains($0) }
      return isNumber && Double(text) != nil || ["TRUE", "FALSE"].contains(text.asciiUppercased) ? text : nil
    }
    var end = 1
    while end < bytes.count, bytes[end] != quote || (end + 1 < bytes.count && bytes[end + 1] == quote) {
      end += bytes[end] == quote ? 2 : 1
    }
    guard end < bytes.count, !bytes[...end].contains(UInt8(ascii: "\\")) else { return nil }
    let rest = bytes[(end + 1)...]
    guard rest.isEmpty || rest.starts(with: "::".utf8) else { return nil }
    return String(decoding: bytes[...end], as: UTF8.self)
  }
}
