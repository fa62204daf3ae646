import CSQLite
import CShims

extension Database.Mode {
  var flags: Int32 {
    let flags = SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE
    return switch self {
    case .readOnly: flags | SQLITE_OPEN_READONLY
    case .readWrite: flags | SQLITE_OPEN_READWRITE
    case .create: flags | SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE
    }
  }
}

extension Database {
  /// Settings for hostile files: https://sqlite.org/security.html, section 1.
  func harden() {
    // No statement alters sqlite_master, shadow tables or the file itself, whatever the file suggests.
    _ = cairn_db_config_int(handle, Int32(SQLITE_DBCONFIG_DEFENSIVE), 1)
    // Views, triggers, CHECKs and indexes of the file call only functions without effects.
    _ = cairn_db_config_int(handle, Int32(SQLITE_DBCONFIG_TRUSTED_SCHEMA), Self.misjudgesJSON ? 1 : 0)
    takesQuotedTexts = false
    // A page that is damaged is seen before it is used. A file in memory that is cut short would end the process.
    sqlite3_exec(handle, "PRAGMA cell_size_check = ON; PRAGMA mmap_size = 0", nil, nil, nil)
  }

  /// Whether the library takes its own JSON functions for unsafe in a schema that is not trusted, as SQLite 3.38 to 3.40
  /// do: a table with `CHECK (json_valid(c))`, or an index of `c ->> 'name'`, could not be written then.
  ///
  /// Such a library has no other function that a schema may not call and that does more than compute, except those that
  /// it denies to every schema. What reads a hostile file denies all functions: ``forbidForeignCode()``.
  static let misjudgesJSON: Bool = {
    guard let database = try? Database(path: ":memory:", mode: .create, busyTimeoutMilliseconds: 0, vfs: nil) else {
      return false
    }
    _ = cairn_db_config_int(database.handle, Int32(SQLITE_DBCONFIG_TRUSTED_SCHEMA), 0)
    do {
      try database.executeScript("CREATE TABLE t(c CHECK (json_valid(c))); INSERT INTO t VALUES ('1')")
      return false
    } catch let error as SQLiteError { return error.message.contains("unsafe use") } catch { return false }
  }()

  /// Sets the largest value, and the largest row, that statements make (`SQLITE_LIMIT_LENGTH`).
  ///
  /// - Parameter bytes: more than a statement makes for the largest row that is to be written. A larger value is
  ///   ``SQLiteError`` with SQLITE_TOOBIG.
  package func limitValues(bytes: Int32) { sqlite3_limit(handle, SQLITE_LIMIT_LENGTH, bytes) }

  var trustsSchema: Bool { cairn_db_config_is_on(handle, Int32(SQLITE_DBCONFIG_TRUSTED_SCHEMA)) != 0 }

  /// Lets triggers of the file write to its virtual tables, as they do on a program's own connection.
  ///
  /// For a session that writes as a program does. SQLite takes FTS5 in a trigger for unsafe otherwise.
  package func trustSchema() {
    _ = cairn_db_config_int(handle, Int32(SQLITE_DBCONFIG_TRUSTED_SCHEMA), 1)
    takesQuotedTexts = true
  }

  /// Whether a name in double quotes that names no column is a text (`SQLITE_DBCONFIG_DQS_DML`), as SQLite has it by
  /// default; false on a connection that Cairn opened for itself.
  ///
  /// With true, a column that a program has dropped would be read as a text, its own name, in each row.
  /// Source: https://sqlite.org/quirks.html, section 8.
  private(set) var takesQuotedTexts: Bool {
    get { cairn_db_config_is_on(handle, Int32(SQLITE_DBCONFIG_DQS_DML)) != 0 }
    set { _ = cairn_db_config_int(handle, Int32(SQLITE_DBCONFIG_DQS_DML), newValue ? 1 : 0) }
  }

  /// Runs `body` with the rules by which programs have written the views and triggers of the file: what uses or renames
  /// them is to find them valid. `body` must name no column of its own.
  package func readingAsPrograms<T>(_ body: () throws -> T) rethrows -> T {
    let before = takesQuotedTexts
    takesQuotedTexts = true
    defer { takesQuotedTexts = before }
    return try body()
  }
}
