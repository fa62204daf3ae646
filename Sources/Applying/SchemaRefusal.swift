import Changes

/// The reason why a schema change was not made at the target, for the message about the waiting table.
struct SchemaRefusal {
  /// The target's database, as messages name it.
  let place: String
  /// The parts of the schema change, such as `add column note text`.
  var phrases: [String]
  /// The statements that create the table before and after, in the target's language; nil if there was or is none.
  var before: String?
  var after: String?
  /// The statements that an operator may run at the target; empty if none helps.
  var statements: [String] = []

  /// Returns the error for the change.
  ///
  /// - Parameter why: The reason; it completes "it is not made at PLACE:".
  /// - Parameter hint: The advice that replaces the statements if there are none.
  func error(_ why: String, table: String, hint: String = "make the target's table as it is after") -> CairnError {
    var message = "\(phrases.joined(separator: ", ")) is not made at \(place): \(why)"
    if let before { message += "\n  before: \(Self.statement(before))" }
    if let after { message += "\n  after: \(Self.statement(after))" }
    let advice =
      statements.isEmpty
      ? "\(hint); it goes on by itself then"
      : "run this at the target, and it goes on by itself:"
        + statements.map { "\n  \(Self.statement($0))" }.joined()
    return CairnError(.schemaStopped, message, hint: advice, context: ["table": table])
  }

  /// Returns the error for a renamed column whose new name a column has that only the target has.
  func error(inTheWay names: (old: String, new: String), table: String) -> CairnError {
    error(ownColumn: names.new, "has the name that column \(names.old) is to have", table: table)
  }

  /// Returns the error for a column that only the target has, and which stays as it is.
  ///
  /// - Parameter why: The reason; it completes "column NAME, which only the target has,".
  func error(ownColumn name: String, _ why: String, table: String) -> CairnError {
    var refusal = self
    refusal.statements = []
    return refusal.error(
      "column \(name), which only the target has, \(why)", table: table,
      hint: "rename or drop the target's own column \(name)")
  }

  private static func statement(_ text: String) -> String { text.hasSuffix(";") ? text : text + ";" }
}

extension TableSchema.Column {
  /// The default that rows have which are older than the column; nil if it is NULL.
  var defaultValue: String? {
    guard let text = defaultText else { return nil }
    let word = text.drop { "( ".contains($0) }.asciiUppercased
    guard word.hasPrefix("NULL") else { return text }
    let rest = word.dropFirst(4).drop { ") ".contains($0) }
    return rest.isEmpty || rest.hasPrefix("::") ? nil : text
  }

  /// The default as a bare literal, without its cast; `NULL` if there is none. Nil if it is anything else: apply does not
  /// execute such a text.
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

/// A new column of the source that the target had before the change: the values that its rows must have.
struct FilledColumn {
  let column: TableSchema.Column
  /// The default at the source; nil: none.
  let sourceDefault: String?
  /// The literal that each row has at the source; nil: not known, as the default is no literal.
  private let literal: String?
  /// The literal with which all rows are compared; nil: they are not.
  let wanted: String?

  /// - Parameter column: The column at the target.
  /// - Parameter isSourceAlone: Whether every row of the target's table is one of the source. If other trails or
  ///   applications write to the table too, only NULL is known to be another value.
  init(_ source: TableSchema.Column, _ column: TableSchema.Column, isSourceAlone: Bool) {
    (self.column, sourceDefault) = (column, source.defaultValue)
    literal = source.defaultValue == nil ? "NULL" : column.literalDefault
    // The source had no rows if the column may not be NULL and has no default: rows here are the target's own.
    let hadRows = !source.isNotNull || source.defaultValue != nil
    wanted = isSourceAlone && hadRows ? literal : nil
  }

  /// Returns the error for rows that have another value.
  ///
  /// - Parameter condition: The SQL condition that such rows meet.
  /// - Parameter table: The table in SQL.
  func error(_ refusal: SchemaRefusal, _ condition: String, of table: String, named name: String, isNull: Bool)
    -> CairnError
  {
    var refusal = refusal
    let value = literal ?? column.defaultValue ?? "…"
    refusal.statements = ["UPDATE \(table) SET \(column.name.quotedName) = \(value) WHERE \(condition)"]
    let what =
      isNull
      ? "NULL in rows that have the default \(sourceDefault ?? value) at the source"
      : "has another value in rows that have \(value) at the source"
    return refusal.error("column \(column.name) is there, but \(what)", table: name)
  }
}

extension WaitingTable {
  /// The message when the table begins to wait.
  package var notice: String { "\(code.rawValue): table \(name) waits, all others go on: \(message)\n\(hint)" }

  /// The message when the table no longer waits.
  package var resumedNotice: String { "table \(name) waits no longer: its schema change is made" }
}
