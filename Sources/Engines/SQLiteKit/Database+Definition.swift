import CSQLite
import Changes

/// Decides, while SQLite prepares a statement, which actions the statement may perform.
private final class ActionGuard {
  /// An action as SQLite gives it to the authorizer: a code, and the names of up to two objects and of their database.
  struct Action {
    let code: Int32
    let first: String
    let second: String
    let database: String
    /// The trigger, view or WITH clause that performs the action; empty for the statement itself.
    let accessor: String
  }

  private let allows: (Action) -> Bool
  private(set) var refused: String?

  init(_ allows: @escaping (Action) -> Bool) { self.allows = allows }

  /// Sets this guard as the authorizer of a connection. The guard must live until the connection is closed or gets
  /// another authorizer.
  func watch(_ handle: OpaquePointer) {
    sqlite3_set_authorizer(
      handle,
      { context, code, first, second, database, accessor in
        guard let context else { return SQLITE_DENY }
        let guardian = Unmanaged<ActionGuard>.fromOpaque(context).takeUnretainedValue()
        func text(_ bytes: UnsafePointer<CChar>?) -> String { bytes.map { String(cString: $0) } ?? "" }
        let action = Action(
          code: code, first: text(first), second: text(second), database: text(database), accessor: text(accessor))
        if guardian.allows(action) { return SQLITE_OK }
        if guardian.refused == nil { guardian.refused = "action \(code) on \(action.first) \(action.second)" }
        return SQLITE_DENY
      }, Unmanaged.passUnretained(self).toOpaque())
  }
}

extension ActionGuard.Action {
  // SQLite itself needs these for a DDL statement, or to check an altered table.
  private static let own: Set<NameKey> = [
    "sqlite_master", "sqlite_schema", "sqlite_sequence", "sqlite_stat1", "sqlite_stat3", "sqlite_stat4",
    "sqlite_temp_master", "sqlite_temp_schema", "pragma_quick_check",
  ]
  /// Returns whether a DDL statement that may touch only `tables` may perform this action.
  func isOfDefinition(_ tables: Set<NameKey>) -> Bool {
    // For this action the database is the first argument, and a column the last.
    if code == SQLITE_ALTER_TABLE { return ["main", "temp"].contains(first) && tables.contains(second.sqliteKey) }
    guard ["", "main", "temp"].contains(database) else { return false }
    func isMine(_ name: String) -> Bool {
      Self.own.contains(name.asciiLowercased) || (database != "temp" && tables.contains(name.sqliteKey))
    }
    switch code {
    case SQLITE_SELECT, SQLITE_REINDEX: return true
    case SQLITE_PRAGMA: return first == "quick_check" || (first == "cache_size" && second == "-\(Database.cacheKiB)")
    case SQLITE_FUNCTION: return !ForbiddenCode.reaching.contains(second.asciiLowercased.nameKey)
    case SQLITE_CREATE_TABLE, SQLITE_DROP_TABLE, SQLITE_INSERT, SQLITE_DELETE, SQLITE_READ, SQLITE_UPDATE:
      return isMine(first)
    case SQLITE_CREATE_INDEX, SQLITE_DROP_INDEX, SQLITE_CREATE_TRIGGER, SQLITE_DROP_TRIGGER: return isMine(second)
    default: return false
    }
  }

  /// Returns whether a statement that may read and write only `table` may perform this action.
  func isOfWrite(to table: NameKey) -> Bool {
    switch code {
    case SQLITE_SELECT, SQLITE_RECURSIVE: return true
    case SQLITE_FUNCTION: return !ForbiddenCode.reaching.contains(second.asciiLowercased.nameKey)
    case SQLITE_READ:
      if first.sqliteKey == table { return ["", "main"].contains(database) }
      // The columns of a subquery or WITH clause have no database. Neither has a table whose columns are not read.
      return database.isEmpty && (!second.isEmpty || first.isEmpty)
    case SQLITE_INSERT, SQLITE_DELETE, SQLITE_UPDATE:
      return accessor.isEmpty && database == "main" && first.sqliteKey == table
    default: return false
    }
  }
}

extension Database {
  /// Runs one DDL statement, which may touch only `tables` and no other file. Text after the statement is an error.
  ///
  ///     try database.define("CREATE TABLE t(a)", tables: ["t"])
  ///
  /// - Throws: ``SQLiteError`` with SQLITE_ERROR for a refused action, and for text after the statement.
  package func define(_ sql: String, tables: [String]) throws {
    let keys = Set(tables.map(\.sqliteKey))
    try guarding(sql, { $0.isOfDefinition(keys) }) {
      // ALTER TABLE reads every view and trigger of the file.
      let isAlteration = SQLText.tokens(Array(sql.utf8)).first?.word == "ALTER"
      try isAlteration ? readingAsPrograms { try define(sql) } : define(sql)
    }
  }

  /// Runs `body`, in which statements may read and write only `table`, of the main database.
  ///
  ///     try database.writing(only: "t") { try database.execute("DELETE FROM t WHERE a > 1") }
  ///
  /// Writes of triggers are refused. Values and rows above 256 KiB are refused too.
  ///
  /// - Throws: The errors of `body`; ``SQLiteError`` with SQLITE_ERROR for a refused action.
  package func writing<Result>(only table: String, _ body: () throws -> Result) throws -> Result {
    let own = table.sqliteKey
    let limits = [(SQLITE_LIMIT_LENGTH, Self.valueBytesMax), (SQLITE_LIMIT_LIKE_PATTERN_LENGTH, Self.patternBytesMax)]
    let before = limits.map { ($0.0, sqlite3_limit(handle, $0.0, $0.1)) }
    defer { for (limit, value) in before { sqlite3_limit(handle, limit, value) } }
    return try guarding("", { $0.isOfWrite(to: own) }, body)
  }

  private static let valueBytesMax: Int32 = 256 << 10
  private static let patternBytesMax: Int32 = 256

  private func guarding<Result>(
    _ sql: String, _ allows: @escaping (ActionGuard.Action) -> Bool, _ body: () throws -> Result
  ) throws -> Result {
    let guardian = ActionGuard(allows)
    return try withExtendedLifetime(guardian) {
      if !keepsAuthorizer { guardian.watch(handle) }
      defer {
        // Restores the authorizer that the connection had before.
        if let forbidden {
          forbidden.watch(handle)
        } else if !keepsAuthorizer {
          sqlite3_set_authorizer(handle, nil, nil)
        }
      }
      do { return try body() } catch let error as SQLiteError {
        guard let refused = guardian.refused else { throw error }
        throw SQLiteError(
          code: SQLITE_ERROR, message: "\(error.message) (\(refused))", sql: sql.isEmpty ? error.sql : sql, path: path)
      }
    }
  }

  private func define(_ sql: String) throws {
    let statement = try prepare(sql)
    guard !statement.hasMore else {
      throw SQLiteError(code: SQLITE_ERROR, message: "another statement follows the first", sql: sql, path: path)
    }
    while try statement.step() {}
  }
}
