import Changes

/// The SQL texts of the tables that Cairn adds to a file, and the check that they are unchanged.
///
/// An index, a CHECK or a generated column of an application would make Cairn's statements run an expression.
package enum OwnTables {
  package static let control =
    "CREATE TABLE cairn_control(id INTEGER PRIMARY KEY, version, trail, place, taken, nonce, cap, purged, schema_version)"
  package static let layout =
    "CREATE TABLE cairn_layout(id INTEGER PRIMARY KEY, previous, since, ended, action, refresh, schema)"
  package static let unhooked = "CREATE TABLE cairn_unhooked(name TEXT PRIMARY KEY COLLATE NOCASE) WITHOUT ROWID"

  /// Returns the CREATE TABLE text of `cairn_journal` with this number of value columns.
  package static func journal(values: Int) -> String {
    "CREATE TABLE cairn_journal(seq INTEGER PRIMARY KEY, code, at, \(columns(values)))"
  }

  package static func stage(values: Int) -> String { "CREATE TABLE cairn_stage(layout, \(columns(values)))" }

  /// Opens a file that programs write, for a task beside its capture. Refuses a file whose own tables of Cairn are not as
  /// Cairn makes them.
  ///
  ///     let source = try OwnTables.openChecked("shop.db", isReader: true)
  ///
  /// - Parameter isReader: Whether the connection only reads. The file itself is opened for writing: a read-only
  ///   connection could not recover the log of a program that crashed.
  /// - Parameter sizes: The tables of Cairn whose sizes are checked; nil: all.
  /// - Throws: `database-unsafe`; ``SQLiteError``.
  package static func openChecked(
    _ path: String, isReader: Bool, mode: Database.Mode = .readWrite, busyTimeoutMilliseconds: Int32 = 10_000,
    sizes: Set<NameKey>? = nil
  ) throws -> Database {
    let database = try Database(path: path, mode: mode, busyTimeoutMilliseconds: busyTimeoutMilliseconds)
    if isReader { try database.execute("PRAGMA query_only = 1") }
    database.forbidForeignCode()
    try database.checkOwnTables()
    try database.checkOwnSizes(of: sizes)
    return database
  }

  private static func columns(_ values: Int) -> String { (0..<values).map { "v\($0)" }.joined(separator: ",") }

  /// Returns whether a CREATE TABLE text creates the table as Cairn does. For a table that ``OwnTables`` does not
  /// define, returns whether `text` has no computed expression.
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

  private static func isOwn(_ tokens: [[UInt8]], _ text: (_ values: Int) -> String) -> Bool {
    // Commas separate the columns.
    tokens == words(text(max(0, (tokens.count - words(text(0)).count + 1) / 2)))
  }

  /// The words that begin a computed expression in a CREATE TABLE text.
  private static let computing = ["CHECK", "GENERATED", "AS"].map { Array($0.utf8) }

  private static func words(_ text: String) -> [[UInt8]] {
    let bytes = Array(text.utf8)
    return SQLText.tokens(bytes).map { $0.word.isEmpty ? Array(bytes[$0.range]) : Array($0.word.utf8) }
  }
}

extension Database {
  /// The maximum number of rows of each of Cairn's own tables that Cairn reads into memory.
  private static let ownRowsMax = [
    ("cairn_checkpoint", 100_000), ("cairn_table", 100_000), ("cairn_origin", 100_000), ("cairn_returned", 20_000),
    ("cairn_candidate", 1_000_000), ("cairn_quarantine", 1_000_000), ("cairn_discarded", 20_000),
    ("cairn_layout", 100_000), ("cairn_unhooked", 100_000), ("cairn_control", 100_000),
  ]
  private static let ownBytesMax = 256 << 20

  /// Throws `database-unsafe` if a table of Cairn is larger than Cairn makes it. A table that an application enlarged
  /// could fill the memory of the process.
  ///
  /// - Parameter some: The tables to check; nil: all.
  package func checkOwnSizes(of some: Set<NameKey>? = nil) throws {
    for (table, rows) in Self.ownRowsMax where some?.contains(table.nameKey) ?? true {
      let columns = try query("SELECT name FROM pragma_table_info(?)", [.text(table)]).map { $0[0].string.quotedName }
      guard !columns.isEmpty else { continue }
      let bytes = columns.map { "coalesce(length(CAST(\($0) AS BLOB)), 0)" }.joined(separator: " + ")
      let sizes = try prepare("SELECT \(bytes) FROM \(table) LIMIT \(rows + 1)")
      var (count, total) = (0, Int64(0))
      while count <= rows, total <= Self.ownBytesMax, try sizes.step() {
        count += 1
        total = total.addingBounded(sizes.integer(0))
      }
      guard count > rows || total > Self.ownBytesMax else { continue }
      throw CairnError(
        .databaseUnsafe,
        "table \(table) of \(path) has more than \(rows) rows or \(Self.ownBytesMax >> 20) MiB, which Cairn did not write",
        hint: "find the program that wrote them; then delete them, or run 'cairn detach' and replicate again",
        context: ["table": table])
    }
  }

  /// Throws `database-unsafe` if an application has changed a table of Cairn, or has added an index or trigger to it.
  package func checkOwnTables() throws {
    let rows = try query(
      "SELECT tbl_name, type, name, sql FROM sqlite_master WHERE tbl_name LIKE 'cairn\\_%' ESCAPE '\\'")
    for row in rows {
      let (table, type, name) = (row[0].string, row[1].string, row[2].string)
      guard SQLiteTable.ownNames.contains(table.asciiLowercased) else { continue }
      let isOwn =
        switch type {
        case "table": OwnTables.isOwn(row[3].string, of: table)
        // The automatic index of a key has no text.
        case "index": row[3] == .null
        default: false
        }
      guard isOwn else { throw FileRefusal.foreignCode(name).asCairnError(path) }
    }
  }
}
