import CSQLite
import CShims
import Changes
import SystemKit

/// A connection to one SQLite file. Owns the `sqlite3*`; for one thread.
///
/// Source: https://sqlite.org/c3ref/intro.html
package final class Database {
  package enum Mode: Sendable {
    case readOnly
    case readWrite
    case create
  }

  /// Of the SQLite library that is loaded, such as `3.40.1`.
  package static var libraryVersion: String { String(cString: sqlite3_libversion()) }

  package let path: String
  let handle: OpaquePointer
  /// Whether it is ours to close.
  private let isOwned: Bool
  /// Whether the authorizer is the program's, or watches what the program's statements touch: it must stay.
  let keepsAuthorizer: Bool
  /// The file system layer of a connection that Cairn opened for itself; nil for a connection of a program.
  private let fileGuard: OpaquePointer?
  /// Denies what a database of a program must not make this connection do; nil where nothing is denied.
  private(set) var forbidden: ForbiddenCode?
  /// Whether texts are checked when they are encoded: the file is in UTF-16. See ``watchText()``.
  private(set) var watchesText = false
  /// The column of the last text that was encoded and is no well-formed UTF-16.
  var illFormedColumn: Int?

  /// Opens a file that may be hostile: a program writes it, and may have prepared it, its `-journal` or its `-wal`.
  ///
  /// A missing file or folder is ``SQLiteError`` with SQLITE_CANTOPEN. That the file is a database is seen at the first
  /// statement. A path that is a link, and companions that are no plain files of their own, are refused
  /// (``FileRefusal``). What SQLite finds in the file cannot reach another file.
  package convenience init(path: String, mode: Mode = .readWrite, busyTimeoutMilliseconds: Int32 = 10_000) throws {
    // In memory, or temporary: there is no file.
    if path.isEmpty || path == ":memory:" {
      try self.init(path: path, mode: mode, busyTimeoutMilliseconds: busyTimeoutMilliseconds, vfs: nil)
    } else {
      try self.init(guarded: path, mode: mode, busyTimeoutMilliseconds: busyTimeoutMilliseconds)
    }
    // A long statement, such as one that makes an index, is alive as long as it computes.
    sqlite3_progress_handler(
      handle, 1_000_000,
      { _ in
        Pulse.beat()
        return 0
      }, nil)
  }

  /// Opens a file as the program does that it belongs to: with SQLite's own settings.
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

  /// A connection that the program has, and goes on to use and to close: it must outlive this.
  init(borrowing handle: OpaquePointer) {
    self.handle = handle
    path = sqlite3_db_filename(handle, "main").map { String(cString: $0) } ?? ""
    (isOwned, keepsAuthorizer) = (false, true)
    fileGuard = nil
  }

  deinit {
    guard isOwned else { return }
    // With a statement that lives on, SQLite closes later, and needs the layer until then.
    if sqlite3_close(handle) == SQLITE_OK { return cairn_guard_free(fileGuard) }
    sqlite3_close_v2(handle)
  }

  package func setBusyTimeout(milliseconds: Int32) { sqlite3_busy_timeout(handle, milliseconds) }

  /// Switches the triggers of this connection on or off (`SQLITE_DBCONFIG_ENABLE_TRIGGER`).
  package func setTriggersEnabled(_ enabled: Bool) {
    _ = cairn_db_config_int(handle, Int32(CAIRN_DBCONFIG_ENABLE_TRIGGER), enabled ? 1 : 0)
  }

  /// Rows changed by the last INSERT, UPDATE or DELETE, without those of triggers (`sqlite3_changes64`).
  package var changes: Int64 { sqlite3_changes64(handle) }
  /// Of the last row that this connection inserted.
  package var lastInsertRowid: Int64 {
    get { sqlite3_last_insert_rowid(handle) }
    set { sqlite3_set_last_insert_rowid(handle, newValue) }
  }

  package var isInTransaction: Bool { sqlite3_get_autocommit(handle) == 0 }

  /// Keeps the process alive if another process truncates the shared memory of a database in WAL mode (`-shm`), which SQLite
  /// always maps: statements of that database then throw `database-unsafe`.
  ///
  /// Installs a handler of SIGBUS. For programs of Cairn, never for a library in another program.
  package static func surviveCutIndexes() { cairn_index_survive() }

  /// Throws if the shared memory of the database was truncated: what the last step read does not count.
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

  /// Denies all that only a hostile file makes this connection do, from here on: its views and triggers are not run.
  ///
  /// For connections that read tables and write Cairn's own. See ``ForbiddenCode``.
  package func forbidForeignCode() {
    let forbidden = ForbiddenCode()
    forbidden.watch(handle)
    self.forbidden = forbidden
  }

  /// Begins to look for texts that are no well-formed UTF-16, if the file is in UTF-16.
  ///
  /// SQLite reads such a text as another one, and says nothing.
  package func watchText() throws { watchesText = try text("PRAGMA encoding")?.hasPrefix("UTF-16") ?? false }

  /// The column of an ill-formed text that a statement has encoded since the last call; nil if there was none.
  package func takeIllFormedColumn() -> Int? {
    defer { illFormedColumn = nil }
    return illFormedColumn
  }

  package func prepare(_ sql: String) throws -> Statement { try Statement(self, sql) }

  /// Runs one statement without parameters; rows are dropped.
  ///
  /// Throws ``SQLiteError`` with SQLITE_MISUSE if another statement follows in the text, before anything runs.
  package func execute(_ sql: String) throws { try run(sql) }

  /// Runs several statements that are constant text of Cairn (`sqlite3_exec`).
  ///
  /// Never pass text with a name or a value in it: a quote that was missed would end one statement and begin another.
  /// `QuotingLintTests` accepts constants only.
  package func executeScript(_ constant: String) throws {
    let code = Pulse.inStatement { sqlite3_exec(handle, constant, nil, nil, nil) }
    guard code == SQLITE_OK else { throw error(code, constant) }
    try checkIndex(constant)
  }

  /// Runs one statement with parameters to its end.
  package func run(_ sql: String, _ parameters: [Value] = []) throws {
    let statement = try only(sql)
    try statement.bind(parameters)
    while try statement.step() {}
  }

  /// All rows of a query, as values.
  package func query(_ sql: String, _ parameters: [Value] = []) throws -> [[Value]] {
    let statement = try only(sql)
    try statement.bind(parameters)
    var rows: [[Value]] = []
    while try statement.step() { rows.append((0..<statement.columnCount).map { statement.value($0) }) }
    return rows
  }

  /// Prepares a text that must be one statement and no more.
  private func only(_ sql: String) throws -> Statement {
    let statement = try prepare(sql)
    guard !statement.hasMore else {
      throw SQLiteError(
        code: SQLITE_MISUSE, message: "another statement follows the first", sql: sql, path: path)
    }
    return statement
  }

  /// The first column of the first row; nil when there is none.
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
