import Changes

/// Builds the error for a schema change that is not made at the target. The table is then suspended.
struct SchemaRefusal {
  let place: String
  /// The parts of the schema change, such as `add column note text`.
  var phrases: [String]
  /// The CREATE TABLE statement of the target's table before the schema change; nil: there was no table.
  var before: String?
  var after: String?
  var statements: [String] = []

  /// Returns the error for the schema change.
  ///
  /// - Parameter why: The reason; it completes "PHRASES is not made at PLACE:".
  /// - Parameter hint: The advice if ``statements`` is empty. Otherwise, the advice is to run those statements.
  func error(
    _ why: String, table: String, hint: String = "give the target's table the shape that it has after the change"
  ) -> CairnError {
    var message = "\(phrases.joined(separator: ", ")) is not made at \(place): \(why)"
    if let before { message += "\n  before: \(Self.statement(before))" }
    if let after { message += "\n  after: \(Self.statement(after))" }
    let advice =
      statements.isEmpty
      ? "\(hint); apply then continues by itself"
      : "run this at the target, and apply continues by itself:"
        + statements.map { "\n  \(Self.statement($0))" }.joined()
    return CairnError(.schemaStopped, message, hint: advice, context: ["table": table])
  }

  /// Returns the error for a renamed column whose new name is taken by a column that only the target has.
  func error(inTheWay names: (old: String, new: String), table: String) -> CairnError {
    error(ownColumn: names.new, "has the name that column \(names.old) is to have", table: table)
  }

  /// Returns the error for a schema change by which columns take the former names of other columns.
  ///
  /// - Parameter why: The reason why Cairn does not make the schema change.
  func error(reusedNames why: String, table: String) -> CairnError {
    var refusal = self
    refusal.statements = []
    return refusal.error(
      "\(why), and columns take the names of others, so that the target's table looks the same before and after",
      table: table, hint: "make the change at the target, and request the rows with 'cairn copy'")
  }

  /// Returns the error for a column that only the target has and that prevents the schema change.
  ///
  /// - Parameter why: The reason; it completes "column NAME, which only the target has,".
  func error(ownColumn name: String, _ why: String, table: String) -> CairnError {
    var refusal = self
    refusal.statements = []
    return refusal.error(
      "column \(name), which only the target has, \(why)", table: table,
      hint: "rename or drop the target's own column \(name)")
  }

  /// Returns the error for a table that the target no longer has under its name.
  ///
  /// - Parameter name: The table's name at the target.
  func error(noTable name: String, table: String, goesBothWays: Bool) -> CairnError {
    var refusal = self
    refusal.statements = []
    let error = refusal.error("the target has no such table", table: table)
    return CairnError(
      error.code, error.message, hint: Self.hint(noTable: name, after, goesBothWays: goesBothWays),
      context: error.context)
  }

  /// Returns the hint for a table that the target no longer has under its name.
  ///
  /// - Parameter create: The statements that create the table; nil if they are not known.
  static func hint(noTable name: String, _ create: String?, goesBothWays: Bool) -> String {
    let renamed =
      goesBothWays
      ? "if the table was renamed here, do nothing: apply continues by itself when capture has recorded the new name"
      : "if the table was renamed at the target, rename it back to \(name), and apply continues by itself"
    return renamed + "; if it was dropped, create it, and request its rows with 'cairn copy'"
      + (create.map { ": \($0)" } ?? "")
  }

  /// Returns the hint for a column that a two-way table lacks at the target.
  ///
  /// - Parameter hint: The advice for the case that no application has renamed or dropped the column at the target.
  static func hint(noColumn hint: String) -> String {
    "if the column was renamed or dropped here, do nothing: apply continues by itself when capture has recorded the change; otherwise "
      + hint
  }

  private static func statement(_ text: String) -> String { text.hasSuffix(";") ? text : text + ";" }
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

/// A column that the source has added and that the target already had.
struct FilledColumn {
  let column: TableSchema.Column
  let sourceDefault: String?
  /// The value that the source gave its rows in the column, as an SQL literal. Nil if the column's default is an
  /// expression.
  private let literal: String?
  /// The value, as an SQL literal, that all rows of the target must have in the column. Nil: rows are not checked.
  let wanted: String?
  /// The target's default of the column (`own`) and the source's (`wanted`). Rows that have `own` must get `wanted`.
  /// Nil: no row is changed.
  let displaced: (own: String, wanted: String)?
  /// Whether the target's own default of the column, for new rows, differs from the source's.
  let isUnlike: Bool

  /// Determines the value that the target's rows must have in a new column.
  ///
  /// - Parameter column: The column at the target.
  /// - Parameter isSourceAlone: Whether all rows at the target come from the source.
  /// - Parameter own: The column as the target had it before the schema change.
  /// - Parameter yields: Two-way: whether this database takes the source's default instead of its own.
  init(
    _ source: TableSchema.Column, _ column: TableSchema.Column, isSourceAlone: Bool, own: TableSchema.Column?,
    yields: Bool
  ) {
    (self.column, sourceDefault) = (column, source.defaultValue)
    literal = source.defaultValue == nil ? "NULL" : column.literalDefault
    isUnlike = literal != own?.literalDefault
    // The source had no rows if the column may not be NULL and has no default: rows here are the target's own.
    let hadRows = !source.isNotNull || source.defaultValue != nil
    wanted = isSourceAlone && hadRows ? literal : nil
    if yields, let literal, literal != "NULL", let mine = own?.literalDefault, mine != "NULL", mine != literal {
      displaced = (mine, literal)
    } else {
      displaced = nil
    }
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
}

extension WaitingTable {
  package var notice: String {
    "\(code.rawValue): table \(name) is suspended, and all other tables continue: \(message)\n\(hint)"
  }

  package var resumedNotice: String { "table \(name) waits no longer: its schema change is made" }
}
