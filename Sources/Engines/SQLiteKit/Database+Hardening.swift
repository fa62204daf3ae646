import CSQLite
import CShims
import Glibc
import SystemKit

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
  /// Applies SQLite's settings for hostile files (https://sqlite.org/security.html, section 1).
  func harden() {
    // No statement alters sqlite_master, shadow tables or the file itself, also in a hostile file.
    _ = cairn_db_config_int(handle, Int32(SQLITE_DBCONFIG_DEFENSIVE), 1)
    // Views, triggers, CHECKs and indexes of the file call only functions without effects.
    _ = cairn_db_config_int(handle, Int32(SQLITE_DBCONFIG_TRUSTED_SCHEMA), Self.misjudgesJSON ? 1 : 0)
    takesQuotedTexts = false
    let limit = SchemaLimit()
    limit.watch(handle)
    schemaLimit = limit
    // A page that is damaged is seen before it is used. A file in memory that is cut short would end the process.
    sqlite3_exec(handle, "PRAGMA cell_size_check = ON; PRAGMA mmap_size = 0", nil, nil, nil)
  }

  /// The size of the page cache of a connection in KiB, unless a later statement sets another one. This is SQLite's own
  /// default. The header of a file can ask for any size (`PRAGMA default_cache_size`).
  static let cacheKiB = 2000

  /// Sets the size of the page cache, before the first statement of a connection to a file that may be hostile.
  ///
  /// SQLite reads the schema first, as for almost all statements. So this throws what the statement would throw.
  func limitCache(_ sql: String) throws {
    guard !limitsCache, fileGuard != nil else { return }
    let pragma = "PRAGMA cache_size = -\(Self.cacheKiB)"
    var (code, attempts) = (SQLITE_SCHEMA, 0)
    while code & 0xff == SQLITE_SCHEMA, attempts <= Statement.schemaAttempts {
      if attempts > 0 { usleep(2000) }
      code = Pulse.inStatement { sqlite3_exec(handle, pragma, nil, nil, nil) }
      attempts += 1
    }
    guard code == SQLITE_OK else { throw error(code, sql) }
    limitsCache = true
  }

  /// The memory that the parsed schema of this connection takes, in bytes.
  package var schemaBytes: Int { SchemaLimit.bytes(of: handle) }

  /// Whether the SQLite library treats its own JSON functions as unsafe in the schema of a file, as SQLite 3.38 to 3.40
  /// do.
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

  /// Sets the limit for values and rows that statements make (`SQLITE_LIMIT_LENGTH`).
  ///
  /// - Parameter bytes: The limit, which must exceed the largest row to be written. A statement that makes a larger
  ///   value or row fails with SQLITE_TOOBIG.
  package func limitValues(bytes: Int32) { sqlite3_limit(handle, SQLITE_LIMIT_LENGTH, bytes) }

  var trustsSchema: Bool { cairn_db_config_is_on(handle, Int32(SQLITE_DBCONFIG_TRUSTED_SCHEMA)) != 0 }

  /// Lets triggers of the file write to its virtual tables, such as FTS5, as on an application's own connection.
  package func trustSchema() {
    _ = cairn_db_config_int(handle, Int32(SQLITE_DBCONFIG_TRUSTED_SCHEMA), 1)
    takesQuotedTexts = true
  }

  /// Whether a name in double quotes that is no column counts as a text (`SQLITE_DBCONFIG_DQS_DML`).
  private(set) var takesQuotedTexts: Bool {
    get { cairn_db_config_is_on(handle, Int32(SQLITE_DBCONFIG_DQS_DML)) != 0 }
    set { _ = cairn_db_config_int(handle, Int32(SQLITE_DBCONFIG_DQS_DML), newValue ? 1 : 0) }
  }

  /// Runs `body` while a name in double quotes may be a text, as on the connections of applications. `body` must not
  /// name a column.
  package func readingAsPrograms<T>(_ body: () throws -> T) rethrows -> T {
    let before = takesQuotedTexts
    takesQuotedTexts = true
    defer { takesQuotedTexts = before }
    return try body()
  }
}
