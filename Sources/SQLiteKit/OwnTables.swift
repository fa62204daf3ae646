import Changes

/// The texts of the tables that Cairn adds to a file, and the proof that a file has them as Cairn made them.
///
/// A program that writes to the file can put an index, a trigger, a CHECK or a generated column on them. Its expressions
/// would be computed by Cairn's own statements, in a step that SQLite does not interrupt.
package enum OwnTables {
  package static let control =
    "CREATE TABLE cairn_control(id INTEGER PRIMARY KEY, version, trail, place, taken, nonce, cap, purged, schema_version)"
  package static let layout =
    "CREATE TABLE cairn_layout(id INTEGER PRIMARY KEY, previous, since, ended, action, refresh, schema)"
  package static let unhooked = "CREATE TABLE cairn_unhooked(name TEXT PRIMARY KEY COLLATE NOCASE) WITHOUT ROWID"

  /// Returns the text of `cairn_journal` with so many columns for values, `v0` first.
  package static func journal(values: Int) -> String {
    "CREATE TABLE cairn_journal(seq INTEGER PRIMARY KEY, code, at, \(columns(values)))"
  }

  package static func stage(values: Int) -> String { "CREATE TABLE cairn_stage(layout, \(columns(values)))" }

  private static func columns(_ values: Int) -> String { (0..<values).map { "v\($0)" }.joined(separator: ",") }

  /// Returns whether the text makes the table as Cairn does, or a table of which nothing is computed.
  ///
  ///     OwnTables.isOwn("CREATE TABLE cairn_stage(layout, v0, v1)", of: "cairn_stage")                // true
  ///     OwnTables.isOwn("CREATE TABLE cairn_stage(layout, v0 CHECK (length(v0)))", of: "cairn_stage") // false
  static func isOwn(_ text: String, of table: String) -> Bool {
    let tokens = words(text)
    switch table.asciiLowercased {
    case "cairn_control": return tokens == words(control)
    case "cairn_layout": return tokens == words(layout)
    case "cairn_unhooked": return tokens == words(unhooked)
    case "cairn_journal": return isOwn(tokens, journal)
    case "cairn_stage": return isOwn(tokens, stage)
    default:
      return tokens.starts(with: words("CREATE TABLE"))
        && !zip(tokens, tokens.dropFirst() + [[]]).contains { token, next in
          computing.contains(token) || token == Array("DEFAULT".utf8) && next == Array("(".utf8)
        }
    }
  }

  /// The same for a table to which columns for values are added, one by one.
  private static func isOwn(_ tokens: [[UInt8]], _ text: (_ values: Int) -> String) -> Bool {
    // Between the columns are commas.
    tokens == words(text(max(0, (tokens.count - words(text(0)).count + 1) / 2)))
  }

  /// Words before an expression of a table.
  private static let computing = ["CHECK", "GENERATED", "AS"].map { Array($0.utf8) }

  /// The tokens of a statement: words in capitals, all else as it is.
  private static func words(_ text: String) -> [[UInt8]] {
    let bytes = Array(text.utf8)
    return SQLText.tokens(bytes).map { $0.word.isEmpty ? Array(bytes[$0.range]) : Array($0.word.utf8) }
  }
}

extension Database {
  /// Throws `database-unsafe` if a table of Cairn in the file is not as Cairn makes it, or if a program has put an index or
  /// a trigger on one.
  package func checkOwnTables() throws {
    let rows = try query(
      "SELECT tbl_name, type, name, sql FROM sqlite_master WHERE tbl_name LIKE 'cairn\\_%' ESCAPE '\\'")
    for row in rows {
      let (table, type, name) = (row[0].string, row[1].string, row[2].string)
      guard SQLiteTable.ownNames.contains(table.asciiLowercased) else { continue }
      let isOwn =
        switch type {
        case "table": OwnTables.isOwn(row[3].string, of: table)
        // The index of a key has no text.
        case "index": row[3] == .null
        default: false
        }
      guard isOwn else { throw FileRefusal.foreignCode(name).asCairnError(path) }
    }
  }
}
