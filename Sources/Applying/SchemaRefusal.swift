import Changes

/// Why a schema change was not made at the target, in the words in which a table that waits is told of.
struct SchemaRefusal {
  /// The target's database, as people know it.
  let place: String
  /// What became of the table, such as `add column note text`.
  var phrases: [String]
  /// The statements that create it before and after, in the target's language; nil where there was or is none.
  var before: String?
  var after: String?
  /// What a person may run at the target; empty where no statement helps.
  var statements: [String] = []

  /// `why` completes "it is not made at PLACE:"; `hint` takes the place of the statements where there are none.
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

  private static func statement(_ text: String) -> String { text.hasSuffix(";") ? text : text + ";" }
}

extension TableSchema.Column {
  /// The default of rows that were there before the column; nil where that is NULL.
  var defaultValue: String? {
    guard let text = defaultText else { return nil }
    let word = text.drop { "( ".contains($0) }.asciiUppercased
    guard word.hasPrefix("NULL") else { return text }
    let rest = word.dropFirst(4).drop { ") ".contains($0) }
    return rest.isEmpty || rest.hasPrefix("::") ? nil : text
  }
}

extension WaitingTable {
  /// What is said at once when it begins to wait.
  package var notice: String { "\(code.rawValue): table \(name) waits, all others go on: \(message)\n\(hint)" }

  /// And when it no longer does.
  package var resumedNotice: String { "table \(name) waits no longer: its schema change is made" }
}
