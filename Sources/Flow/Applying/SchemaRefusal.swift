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

  /// The highest number of tables that all applies create in one target. A list of more than 100,000 tables in an SQLite
  /// file would count as forged, and end every apply to that file.
  static let createdMax: Int64 = 10_000

  /// Throws `schema-stopped` if no more tables are created in the target.
  ///
  /// - Parameter created: The number of tables that Cairn has created there.
  func checkRoom(created: Int64, table: String) throws {
    guard created >= Self.createdMax else { return }
    throw error("Cairn has created \(created) tables there, which is the limit", table: table)
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

extension WaitingTable {
  package var notice: String {
    "\(code.rawValue): table \(name) is suspended, and all other tables continue: \(message)\n\(hint)"
  }

  package var resumedNotice: String { "table \(name) waits no longer: its schema change is made" }
}
