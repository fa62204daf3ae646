import CSQLite
import CShims
import Changes
import Glibc
import SystemKit

/// A connection to one SQLite file. It owns the `sqlite3*`, and is for use on one thread.
///
/// Source: https://sqlite.org/c3ref/intro.html
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
  /// Whether this object opened the connection, and so closes it.
  private let isOwned: Bool
  /// Whether the connection's authorizer must not be replaced. It then belongs to the application, or records the
  /// tables that the application's statements touch.
  let keepsAuthorizer: Bool
  /// The file system layer of a connection that Cairn opened for itself; nil for a connection of an application.
  private let fileGuard: OpaquePointer?
  /// The guard that denies actions which only a hostile file requests; nil if none is set.
  private(set) var forbidden: ForbiddenCode?
  /// Whether texts are checked for well-formed UTF-16 when they are encoded, because the file is in UTF-16. See
  /// ``watchText()``.
  private(set) var watchesText = false
  /// The index of the column whose encoded text was not well-formed UTF-16, since the last check; nil if there was
  /// none.
  var illFormedColumn: Int?
  /// The time at which the running statement is interrupted, in monotonic ms.
  private var deadline = Int64.max

  /// Opens a file that may be hostile, because an application can write it and prepare its `-journal` or `-wal`.
  ///
  /// If the file or its folder is missing, the call throws ``SQLiteError`` with SQLITE_CANTOPEN. The first statement
  /// shows whether the file is a database. Cairn does not open a symbolic link, nor a `-journal`, `-wal` or `-shm` file
  /// that is not a plain file (``FileRefusal``). The content of the file cannot make SQLite open another file.
  package convenience init(path: String, mode: Mode = .readWrite, busyTimeoutMilliseconds: Int32 = 10_000) throws {
    // A database in memory, or a temporary one, has no file.
    if path.isEmpty || path == ":memory:" {
      try self.init(path: path, mode: mode, busyTimeoutMilliseconds: busyTimeoutMilliseconds, vfs: nil)
    } else {
      try self.init(guarded: path, mode: mode, busyTimeoutMilliseconds: busyTimeoutMilliseconds)
    }
    // A long statement, such as one that creates an index, counts as alive while it computes.
    sqlite3_progress_handler(
      handle, 1_000_000,
      { context in
        Pulse.beat()
        guard let context else { return 0 }
        let database = Unmanaged<Database>.fromOpaque(context).takeUnretainedValue()
        return Clock.monotonicMilliseconds < database.deadline ? 0 : 1
      }, Unmanaged.passUnretained(self).toOpaque())
  }

  /// Opens a file as an application does: with SQLite's own settings.
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

  /// Wraps a connection that the application keeps, uses and closes. The connection must outlive this object.
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

  /// Calls `body`, and interrupts its statement after a time. The statement then throws an error with
  /// ``SQLiteError/isInterrupted``.
  ///
  /// SQLite checks the clock after every million instructions, and never within a function. If the interrupted
  /// statement writes, it rolls back the whole transaction (https://sqlite.org/c3ref/interrupt.html).
  package func within<T>(milliseconds: Int64, _ body: () throws -> T) throws -> T {
    deadline = Clock.monotonicMilliseconds + milliseconds
    defer { deadline = .max }
    return try body()
  }

  package func setBusyTimeout(milliseconds: Int32) { sqlite3_busy_timeout(handle, milliseconds) }

  /// Switches the triggers of this connection on or off (`SQLITE_DBCONFIG_ENABLE_TRIGGER`).
  package func setTriggersEnabled(_ enabled: Bool) {
    _ = cairn_db_config_int(handle, Int32(CAIRN_DBCONFIG_ENABLE_TRIGGER), enabled ? 1 : 0)
  }

  /// The number of rows that the last INSERT, UPDATE or DELETE changed, without rows that triggers changed
  /// (`sqlite3_changes64`).
  package var changes: Int64 { sqlite3_changes64(handle) }
  /// The rowid of the last row that this connection inserted.
  package var lastInsertRowid: Int64 {
    get { sqlite3_last_insert_rowid(handle) }
    set { sqlite3_set_last_insert_rowid(handle, newValue) }
  }

  package var isInTransaction: Bool { sqlite3_get_autocommit(handle) == 0 }

  /// Keeps the process alive if another process truncates the shared memory (`-shm`) of a database in WAL mode, which
  /// SQLite always maps. Statements on that database then throw `database-unsafe`.
  ///
  /// It installs a handler of SIGBUS. Call it in Cairn's own programs only, never in a library in an application.
  package static func surviveCutIndexes() { cairn_index_survive() }

  /// Throws if the shared memory of the database was truncated, because the result of the last step is invalid then.
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
      refusal: FileRefusal(takenFrom: fileGuard) ?? forbidden?.takeRefusal())
  }

  /// Denies every action that only a hostile file requests, from this call on: the file's views and triggers are not
  /// run.
  ///
  /// This is for connections that read tables and write Cairn's own. See ``ForbiddenCode``.
  package func forbidForeignCode() {
    _ = cairn_db_config_int(handle, Int32(SQLITE_DBCONFIG_TRUSTED_SCHEMA), 0)
    let forbidden = ForbiddenCode()
    forbidden.watch(handle)
    self.forbidden = forbidden
  }

  /// Begins to check whether texts are well-formed UTF-16, if the file is in UTF-16. SQLite reads an ill-formed text as
  /// another text, without an error.
  ///
  /// In such a file, SQLite's collation BINARY sorts by the bytes in UTF-16, an order that targets do not have. So
  /// ``binaryCollation`` becomes a collation that sorts by the bytes in UTF-8.
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

  /// Whether the file stores text in UTF-16, as found by ``readEncoding()``.
  package private(set) var isUTF16 = false

  /// Reads the encoding of the file. For a file without content, it is the encoding that SQLite would give it.
  package func readEncoding() throws { isUTF16 = try text("PRAGMA encoding")?.hasPrefix("UTF-16") ?? false }

  package static let binary = "BINARY"
  private static let bytesOfUTF8 = "cairn_utf8"

  /// The collation that sorts text by its bytes in UTF-8. In a file in UTF-16, no index has this order.
  package var binaryCollation: String { watchesText ? Self.bytesOfUTF8 : Self.binary }

  /// Returns the index of the column whose text was not well-formed UTF-16, among the values encoded since the last
  /// call. Nil if there was none.
  package func takeIllFormedColumn() -> Int? {
    defer { illFormedColumn = nil }
    return illFormedColumn
  }

  package func prepare(_ sql: String) throws -> Statement { try Statement(self, sql) }

  /// Runs one statement without parameters; rows that it returns are dropped.
  ///
  /// Throws ``SQLiteError`` with SQLITE_MISUSE, and runs nothing, if the text contains a second statement.
  package func execute(_ sql: String) throws { try run(sql) }

  /// Runs several statements that are constant text of Cairn (`sqlite3_exec`).
  ///
  /// Never pass text with a name or a value in it: an unescaped quote would end one statement and begin another.
  /// `QuotingLintTests` accepts constants only.
  package func executeScript(_ constant: String) throws {
    let code = Pulse.inStatement { sqlite3_exec(handle, constant, nil, nil, nil) }
    guard code == SQLITE_OK else { throw error(code, constant) }
    try checkIndex(constant)
  }

  /// Runs one statement with parameters to its end; rows that it returns are dropped.
  package func run(_ sql: String, _ parameters: [Value] = []) throws {
    let statement = try only(sql)
    try statement.bind(parameters)
    while try statement.step() {}
  }

  /// Returns all rows of a query, each as the values of its columns.
  package func query(_ sql: String, _ parameters: [Value] = []) throws -> [[Value]] {
    let statement = try only(sql)
    try statement.bind(parameters)
    var rows: [[Value]] = []
    while try statement.step() { rows.append((0..<statement.columnCount).map { statement.value($0) }) }
    return rows
  }

  /// Prepares a statement. Throws ``SQLiteError`` if another statement follows it in the text.
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
    try query(sql, parameters).first?.first
  }

  package func integer(_ sql: String, _ parameters: [Value] = []) throws -> Int64? {
    if case .integer(let n)? = try first(sql, parameters) { n } else { nil }
  }

  package func text(_ sql: String, _ parameters: [Value] = []) throws -> String? {
    if case .text(let bytes)? = try first(sql, parameters) { String(decoding: bytes, as: UTF8.self) } else { nil }
  }

  /// Runs `body` between BEGIN and COMMIT; any error rolls back.
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
