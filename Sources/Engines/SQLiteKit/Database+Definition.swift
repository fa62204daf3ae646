import CSQLite
import Changes

/// Restricts a DDL statement to certain tables while SQLite prepares it.
private final class DefinitionGuard {
  let tables: Set<NameKey>
  var refused: String?

  init(_ tables: [String]) { self.tables = Set(tables.map { $0.sqliteKey }) }

  /// Sets this guard as the authorizer of a connection. The guard must outlive that.
  func watch(_ handle: OpaquePointer) {
    sqlite3_set_authorizer(
      handle,
      { context, action, first, second, database, _ in
        guard let context else { return SQLITE_DENY }
        let guardian = Unmanaged<DefinitionGuard>.fromOpaque(context).takeUnretainedValue()
        func text(_ bytes: UnsafePointer<CChar>?) -> String { bytes.map { String(cString: $0) } ?? "" }
        if guardian.allows(action, text(first), text(second), text(database)) { return SQLITE_OK }
        if guardian.refused == nil { guardian.refused = "action \(action) on \(text(first)) \(text(second))" }
        return SQLITE_DENY
      }, Unmanaged.passUnretained(self).toOpaque())
  }

  // SQLite itself needs these for a DDL statement, or to check an altered table.
  private static let own: Set<NameKey> = [
    "sqlite_master", "sqlite_schema", "sqlite_sequence", "sqlite_stat1", "sqlite_stat3", "sqlite_stat4",
    "sqlite_temp_master", "sqlite_temp_schema", "pragma_quick_check",
  ]

  /// Returns whether the DDL statement may perform an action.
  func allows(_ action: Int32, _ first: String, _ second: String, _ database: String) -> Bool {
    // For this action the database is the first argument, and a column the last.
    if action == SQLITE_ALTER_TABLE { return ["main", "temp"].contains(first) && tables.contains(second.sqliteKey) }
    guard ["", "main", "temp"].contains(database) else { return false }
    func isMine(_ name: String) -> Bool {
      Self.own.contains(name.asciiLowercased) || (database != "temp" && tables.contains(name.sqliteKey))
    }
    switch action {
    case SQLITE_SELECT, SQLITE_REINDEX: return true
    case SQLITE_PRAGMA: return first == "quick_check"
    case SQLITE_FUNCTION:
      return !["load_extension", "fts3_tokenizer", "writefile", "readfile", "edit"].contains(second)
    case SQLITE_CREATE_TABLE, SQLITE_DROP_TABLE, SQLITE_INSERT, SQLITE_DELETE, SQLITE_READ, SQLITE_UPDATE:
      return isMine(first)
    case SQLITE_CREATE_INDEX, SQLITE_DROP_INDEX, SQLITE_CREATE_TRIGGER, SQLITE_DROP_TRIGGER: return isMine(second)
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
    let guardian = DefinitionGuard(tables)
    try withExtendedLifetime(guardian) {
      if !keepsAuthorizer { guardian.watch(handle) }
      defer {
        // Restores the authorizer that the connection had before.
        if let forbidden {
          forbidden.watch(handle)
        } else if !keepsAuthorizer {
          sqlite3_set_authorizer(handle, nil, nil)
        }
      }
      do {
        // ALTER TABLE reads every view and trigger of the file.
        let isAlteration = SQLText.tokens(Array(sql.utf8)).first?.word == "ALTER"
        try isAlteration ? readingAsPrograms { try define(sql) } : define(sql)
      } catch let error as SQLiteError {
        guard let refused = guardian.refused else { throw error }
        throw SQLiteError(code: SQLITE_ERROR, message: "\(error.message) (\(refused))", sql: sql, path: path)
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
