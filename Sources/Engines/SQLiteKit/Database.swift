import CSQLite
import CShims
import Changes
import Glibc
import SystemKit

/// A connection to one SQLite file, for use on one thread.
///
/// Source: https://sqlite.org/c3ref/intro.html
///
///     let database = try Database(path: "shop.db", mode: .readOnly)
///     let rows = try database.query("SELECT id FROM item WHERE name = ?", [.text("tea")])
package final class Database {
  package enum Mode: Sendable {
    case readOnly
    case readWrite
    case create
  }

  /// The version of the loaded SQLite library, such as `3.40.1`.
  package static var libraryVersion: String { String(cString: sqlite3_libversion()) }

  package let path: String
  let handle: OpaquePointer
  private let isOwned: Bool
  /// Whether the connection's authorizer must not be replaced.
  let keepsAuthorizer: Bool
  // Nil for a connection of an application.
  let fileGuard: OpaquePointer?
  /// The guard against actions that only a hostile file requests; nil if none is set.
  private(set) var forbidden: ForbiddenCode?
  /// The limit of the schema's memory; nil for a connection of an application.
  var schemaLimit: SchemaLimit?
  /// Whether texts are checked for well-formed UTF-16, because the file is in UTF-16.
  private(set) var watchesText = false
  /// The index of a result column that returned ill-formed UTF-16, until it is reported; nil if there is none.
  var illFormedColumn: Int?
  private var limit: StatementLimit?
  /// Whether the file no longer sets the size of the page cache.
  var limitsCache = false
  /// The highest size of all rows but the largest one that ``query(_:_:)`` returns, in bytes.
  package var answerBytesMax = 128 << 20

  /// Opens a file that may be hostile. Symbolic links and special files are refused (``FileRefusal``). A missing file
  /// is an ``SQLiteError`` with SQLITE_CANTOPEN.
  package convenience init(path: String, mode: Mode = .readWrite, busyTimeoutMilliseconds: Int32 = 10_000) throws {
    // A database in memory, or a temporary one, has no file.
    if path.isEmpty || path == ":memory:" {
      try self.init(path: path, mode: mode, busyTimeoutMilliseconds: busyTimeoutMilliseconds, vfs: nil)
    } else {
      try self.init(guarded: path, mode: mode, busyTimeoutMilliseconds: busyTimeoutMilliseconds)
    }
    // A long statement, such as one that creates an index, counts as alive while it computes.
    watchProgress(every: Self.operations)
  }

  // The instructions of SQLite after which a statement's time is looked at. One may write 256 KiB.
  private static let operations: Int32 = 1_000_000
  private static let limitedOperations: Int32 = 1000

  private func watchProgress(every operations: Int32) {
    sqlite3_progress_handler(
      handle, operations,
      { context in
        Pulse.beat()
        guard let context else { return 0 }
        return Unmanaged<Database>.fromOpaque(context).takeUnretainedValue().limit?.isReached() == true ? 1 : 0
      }, Unmanaged.passUnretained(self).toOpaque())
  }

  /// Opens a file with SQLite's own settings, as an application does.
  package convenience init(ofProgram path: String) throws {
    try self.init(path: path, mode: .create, busyTimeoutMilliseconds: 10_000, vfs: nil)
  }

  init(path: String, mode: Mode, busyTimeoutMilliseconds: Int32, vfs: UnsafePointer<CChar>?) throws {
    self.path = path
    isOwned = true
    keepsAuthorizer = vfs != nil
    fileGuard = nil
    var opened: OpaquePointer?
    let code = sqlite3_open_v2(path, &opened, mode.flags, vfs)
    guard code == SQLITE_OK, let opened else {
      let message = opened.map { String(cString: sqlite3_errmsg($0)) } ?? "out of memory"
      sqlite3_close_v2(opened)
      throw SQLiteError(code: code, message: message, sql: "", path: path)
    }
    handle = opened
    sqlite3_busy_timeout(handle, busyTimeoutMilliseconds)
  }

  private init(guarded path: String, mode: Mode, busyTimeoutMilliseconds: Int32) throws {
    self.path = path
    (isOwned, keepsAuthorizer) = (true, false)
    var opened: OpaquePointer?
    var made: OpaquePointer?
    let code = cairn_guard_open(path, mode.flags, &opened, &made)
    guard code == SQLITE_OK, let opened else {
      let message = opened.map { String(cString: sqlite3_errmsg($0)) } ?? "out of memory"
      let refusal = FileRefusal(takenFrom: made)
      sqlite3_close_v2(opened)
      cairn_guard_free(made)
      throw SQLiteError(code: code, message: message, sql: "", path: path, refusal: refusal)
    }
    (handle, fileGuard) = (opened, made)
    sqlite3_busy_timeout(handle, busyTimeoutMilliseconds)
    harden()
  }

  /// Wraps a connection that the application closes. The connection must outlive this object.
  init(borrowing handle: OpaquePointer) {
    self.handle = handle
    path = sqlite3_db_filename(handle, "main").map { String(cString: $0) } ?? ""
    (isOwned, keepsAuthorizer) = (false, true)
    fileGuard = nil
  }

  deinit {
    guard isOwned else { return }
    // If a statement is still open, SQLite closes the connection later, and needs the layer until then.
    if sqlite3_close(handle) == SQLITE_OK { return cairn_guard_free(fileGuard) }
    sqlite3_close_v2(handle)
  }

  /// Calls `body`, and interrupts the running statement of `body` after the given time, or when the free disk space has
  /// shrunk by `diskBytes`. If `diskBytes` is nil, disk space has no limit.
  ///
  /// An interrupted write rolls back the whole transaction.
  package func within<T>(milliseconds: Int64, diskBytes: Int64? = nil, _ body: () throws -> T) throws -> T {
    limit = StatementLimit(milliseconds: milliseconds, diskBytes: diskBytes, file: path)
    watchProgress(every: Self.limitedOperations)
    defer {
      limit = nil
      watchProgress(every: Self.operations)
    }
    return try body()
  }

  package func setBusyTimeout(milliseconds: Int32) { sqlite3_busy_timeout(handle, milliseconds) }

  /// Switches the triggers of this connection on or off (`SQLITE_DBCONFIG_ENABLE_TRIGGER`).
  package func setTriggersEnabled(_ enabled: Bool) {
    _ = cairn_db_config_int(handle, Int32(CAIRN_DBCONFIG_ENABLE_TRIGGER), enabled ? 1 : 0)
  }

  /// The number of rows that the last INSERT, UPDATE or DELETE changed itself, not through triggers
  /// (`sqlite3_changes64`).
  package var changes: Int64 { sqlite3_changes64(handle) }
  /// The rowid of the last row that this connection inserted.
  package var lastInsertRowid: Int64 {
    get { sqlite3_last_insert_rowid(handle) }
    set { sqlite3_set_last_insert_rowid(handle, newValue) }
  }

  package var isInTransaction: Bool { sqlite3_get_autocommit(handle) == 0 }

  /// Keeps the process alive if another process truncates the shared memory (`-shm`) of a database. Refuses a file with
  /// a lease, for which open(2) would wait.
  ///
  /// Installs a handler for SIGBUS and replaces a system call of SQLite, so only Cairn's own programs may call this
  /// function. Call it before the process has other threads.
  package static func surviveHostileFiles() {
    cairn_index_survive()
    cairn_guard_never_wait()
  }

  /// Throws if the shared memory of the database was truncated. The statement's last row is then invalid.
  func checkIndex(_ sql: String) throws {
    guard cairn_guard_is_cut(fileGuard) != 0 else { return }
    throw SQLiteError(
      code: SQLITE_IOERR, message: "the shared memory was truncated", sql: sql, path: path,
      refusal: FileRefusal(takenFrom: fileGuard))
  }

  func error(_ code: Int32, _ sql: String) -> SQLiteError {
    SQLiteError(
      code: sqlite3_extended_errcode(handle) == SQLITE_OK ? code : sqlite3_extended_errcode(handle),
      message: String(cString: sqlite3_errmsg(handle)), sql: sql, path: path,
      refusal: FileRefusal(takenFrom: fileGuard) ?? schemaLimit?.takeRefusal()
        ?? forbidden?.takeRefusal())
  }

  /// Denies every action that only a hostile file requests, such as the use of the file's views and triggers, from this
  /// call on.
  package func forbidForeignCode() {
    _ = cairn_db_config_int(handle, Int32(SQLITE_DBCONFIG_TRUSTED_SCHEMA), 0)
    let forbidden = ForbiddenCode()
    forbidden.watch(handle)
    self.forbidden = forbidden
  }

  /// Begins to check whether texts are well-formed UTF-16, if the file is in UTF-16.
  package func watchText() throws {
    try readEncoding()
    watchesText = isUTF16
    guard watchesText else { return }
    sqlite3_create_collation_v2(
      handle, Self.bytesOfUTF8, SQLITE_UTF8, nil,
      { _, count, one, otherCount, other in
        guard let one, let other else { return count - otherCount }
        let order = memcmp(one, other, Int(min(count, otherCount)))
        return order != 0 ? order : count - otherCount
      }, nil)
  }

  /// Whether the file stores text in UTF-16. Valid after ``readEncoding()``.
  package private(set) var isUTF16 = false

  /// Sets ``isUTF16``: whether the file stores text in UTF-16.
  package func readEncoding() throws { isUTF16 = try text("PRAGMA encoding")?.hasPrefix("UTF-16") ?? false }

  package static let binary = "BINARY"
  private static let bytesOfUTF8 = "cairn_utf8"

  /// The collation that sorts text by its bytes in UTF-8. In a UTF-16 file, no index has this order.
  package var binaryCollation: String { watchesText ? Self.bytesOfUTF8 : Self.binary }

  /// Returns the index of a result column that returned ill-formed UTF-16 since the last call; nil if none did.
  package func takeIllFormedColumn() -> Int? {
    defer { illFormedColumn = nil }
    return illFormedColumn
  }

  package func prepare(_ sql: String) throws -> Statement { try Statement(self, sql) }

  /// Runs one statement without parameters. A second statement in the text is an ``SQLiteError`` with SQLITE_MISUSE,
  /// and nothing runs.
  package func execute(_ sql: String) throws { try run(sql) }

  /// Runs several statements of constant text (`sqlite3_exec`). Never pass text with a name or a value in it.
  package func executeScript(_ constant: String) throws {
    try limitCache(constant)
    let code = Pulse.inStatement { sqlite3_exec(handle, constant, nil, nil, nil) }
    guard code == SQLITE_OK else { throw error(code, constant) }
    try checkIndex(constant)
  }

  /// Runs one statement with parameters. Rows that it returns are dropped.
  package func run(_ sql: String, _ parameters: [Value] = []) throws {
    let statement = try only(sql)
    try statement.bind(parameters)
    while try statement.step() {}
  }

  /// Returns all rows of a query, each as the values of its columns.
  package func query(_ sql: String, _ parameters: [Value] = []) throws -> [[Value]] {
    var rows: [[Value]] = []
    try forEachRow(sql, parameters) { rows.append($0) }
    return rows
  }

  /// Calls `body` with each row of a query. Only one row is in memory at a time.
  ///
  /// - Throws: `database-unsafe` if there are more than `rowsMax` rows, or more than ``answerBytesMax`` bytes.
  package func forEachRow(
    _ sql: String, _ parameters: [Value] = [], rowsMax: Int = .max, _ body: ([Value]) throws -> Void
  ) throws {
    let statement = try only(sql)
    try statement.bind(parameters)
    var (count, bytes, largest) = (0, 0, 0)
    while try statement.step() {
      let row = (0..<statement.columnCount).map { statement.value($0) }
      let size = row.reduce(0) { $0 + 32 + $1.byteCount }
      (count, bytes, largest) = (count + 1, bytes + size, max(largest, size))
      // The pages of a file can point to each other in a circle, so that a small file has rows without end.
      guard count <= rowsMax, bytes - largest <= answerBytesMax else {
        throw CairnError(
          .databaseUnsafe, "\(path) has more rows than fit into memory, in a table that is read as a whole",
          hint: "check the file with 'PRAGMA integrity_check', and find out which program wrote the rows",
          context: ["statement": String(sql.prefix(200))])
      }
      try body(row)
    }
  }

  // A second statement in the text is an error.
  private func only(_ sql: String) throws -> Statement {
    let statement = try prepare(sql)
    guard !statement.hasMore else {
      throw SQLiteError(
        code: SQLITE_MISUSE, message: "another statement follows the first", sql: sql, path: path)
    }
    return statement
  }

  /// Returns the first column of a query's first row; nil if there is no row.
  package func first(_ sql: String, _ parameters: [Value] = []) throws -> Value? {
    let statement = try only(sql)
    try statement.bind(parameters)
    return try statement.step() && statement.columnCount > 0 ? statement.value(0) : nil
  }

  package func integer(_ sql: String, _ parameters: [Value] = []) throws -> Int64? {
    if case .integer(let n)? = try first(sql, parameters) { n } else { nil }
  }

  package func text(_ sql: String, _ parameters: [Value] = []) throws -> String? {
    if case .text(let bytes)? = try first(sql, parameters) { String(decoding: bytes, as: UTF8.self) } else { nil }
  }

  /// Runs `body` between BEGIN and COMMIT. An error rolls back.
  package func transaction<T>(_ begin: String = "BEGIN IMMEDIATE", _ body: () throws -> T) throws -> T {
    try execute(begin)
    do {
      let result = try body()
      try execute("COMMIT")
      return result
    } catch {
      if isInTransaction { try? execute("ROLLBACK") }
      throw error
    }
  }
}
