import CSQLite
import CShims
import Changes

/// The connection of an application that uses the embedded API. The object records the time, the tables and the journal
/// rows of each statement.
///
/// If the application opened the connection itself, nothing is recorded.
///
///     let program = try ProgramDatabase(path: "shop.db", busyTimeoutMilliseconds: 5000)
///     try program.database.execute("DELETE FROM item")
package final class ProgramDatabase {
  package let database: Database
  /// Whether this object opened the connection.
  package let isOwned: Bool
  private let watch: UnsafeMutablePointer<cairn_journal_watch>
  private let touched = TouchedTables()
  private let mutex: OpaquePointer?
  private var checkpointer: Checkpointer?

  /// Opens an SQLite file for the application; creates the file if it is missing.
  package init(path: String, busyTimeoutMilliseconds: Int32) throws {
    database = try Database(
      path: path, mode: .create, busyTimeoutMilliseconds: busyTimeoutMilliseconds, vfs: cairn_watching_vfs())
    isOwned = true
    mutex = nil
    watch = .allocate(capacity: 1)
    watch.initialize(to: cairn_journal_watch())
  }

  package init(borrowing handle: OpaquePointer) {
    database = Database(borrowing: handle)
    isOwned = false
    mutex = sqlite3_db_mutex(handle)
    watch = .allocate(capacity: 1)
    watch.initialize(to: cairn_journal_watch())
  }

  deinit {
    if isOwned {
      sqlite3_update_hook(database.handle, nil, nil)
      sqlite3_set_authorizer(database.handle, nil, nil)
    }
    if let checkpointer {
      sqlite3_wal_hook(database.handle, nil, nil)
      checkpointer.end()
    }
    watch.deallocate()
  }

  /// Records times, tables and journal rows of statements from now on.
  package func beginWatching() {
    guard isOwned else { return }
    cairn_watch_journal(database.handle, watch)
    // Set once: setting it again would make SQLite prepare every statement again.
    touched.watch(database.handle)
  }

  /// Lets a separate thread checkpoint the write-ahead log while the application commits.
  ///
  /// Call ``settle()`` before an operation that needs exclusive access to the file.
  package func checkpointBeside() {
    guard isOwned else { return }
    checkpointer = Checkpointer.watch(database.handle)
  }

  /// Waits until no checkpoint runs.
  package func settle() { checkpointer?.settle() }

  /// Locks a connection that the application shares with other threads, until ``leave()``.
  package func enter() { if let mutex { sqlite3_mutex_enter(mutex) } }
  package func leave() { if let mutex { sqlite3_mutex_leave(mutex) } }

  // MARK: Journal

  /// The rowid of the first journal row that this connection has written since `first` was set to 0; 0: none.
  package var first: Int64 {
    get { watch.pointee.first }
    set { watch.pointee.first = newValue }
  }
  package var last: Int64 {
    get { watch.pointee.last }
    set { watch.pointee.last = newValue }
  }

  // MARK: Statements

  /// Prepares a statement. Returns it with the names of the tables that it reads or changes; nil instead of the names
  /// if the application opened the connection.
  package func prepare(_ sql: String) throws -> (statement: Statement, tables: [String]?) {
    guard isOwned else { return (try database.prepare(sql), nil) }
    let (statement, tables) = try touched.collect { try database.prepare(sql) }
    return (statement, tables)
  }

  /// Steps to a statement's next row; returns false at the end.
  ///
  /// - Parameter now: Set to the current time that SQLite gave to the statement, µs since 1970 UTC. Nil if the
  ///   statement did not ask for the time, or if the application opened the connection.
  package func step(_ statement: Statement, now: inout Int64?) throws -> Bool {
    var julian: Int64 = 0
    let code = cairn_step_watched(statement.handle, &julian)
    now = julian == 0 ? nil : (julian - Self.julianOf1970) * 1000
    return try statement.taken(code)
  }

  private static let julianOf1970: Int64 = 210_866_760_000_000
}

/// The tables that a statement reads or changes. SQLite names them to the authorizer while the statement is prepared.
///
/// Source: https://sqlite.org/c3ref/set_authorizer.html
private final class TouchedTables {
  private var names: Set<NameKey>?

  /// Makes SQLite report the tables of a connection's statements to this object, which must outlive the connection.
  func watch(_ handle: OpaquePointer) {
    sqlite3_set_authorizer(
      handle,
      { context, action, first, second, third, accessor in
        guard let context else { return SQLITE_OK }
        Unmanaged<TouchedTables>.fromOpaque(context).takeUnretainedValue().note(action, first, second, third, accessor)
        return SQLITE_OK
      }, Unmanaged.passUnretained(self).toOpaque())
  }

  func collect<T>(_ body: () throws -> T) rethrows -> (T, [String]) {
    names = []
    defer { names = nil }
    let result = try body()
    return (result, (names ?? []).sorted().map(\.text))
  }

  private func note(
    _ action: Int32, _ first: UnsafePointer<CChar>?, _ second: UnsafePointer<CChar>?,
    _ database: UnsafePointer<CChar>?, _ accessor: UnsafePointer<CChar>?
  ) {
    guard names != nil else { return }
    let named: UnsafePointer<CChar>?
    var schema = database
    switch action {
    case SQLITE_INSERT, SQLITE_UPDATE, SQLITE_DELETE, SQLITE_READ, SQLITE_CREATE_TABLE, SQLITE_DROP_TABLE,
      SQLITE_CREATE_VIEW, SQLITE_DROP_VIEW:
      named = first
    case SQLITE_CREATE_INDEX, SQLITE_DROP_INDEX, SQLITE_CREATE_TRIGGER, SQLITE_DROP_TRIGGER, SQLITE_CREATE_VTABLE,
      SQLITE_DROP_VTABLE:
      named = action == SQLITE_CREATE_VTABLE || action == SQLITE_DROP_VTABLE ? first : second
    case SQLITE_ALTER_TABLE:
      // For this action the database is the first argument.
      (named, schema) = (second, first)
    case SQLITE_CREATE_TEMP_TABLE, SQLITE_DROP_TEMP_TABLE, SQLITE_CREATE_TEMP_VIEW, SQLITE_DROP_TEMP_VIEW: named = first
    default: return
    }
    guard let named, !isOurs(accessor) else { return }
    let name = String(cString: named)
    let folded = name.asciiLowercased
    if folded.hasPrefix("sqlite_") || folded.hasPrefix("cairn_") { return }
    let place = schema.map { String(cString: $0) } ?? "main"
    names?.insert(place == "main" ? name : "\(place).\(name)")
  }

  private func isOurs(_ accessor: UnsafePointer<CChar>?) -> Bool {
    accessor.map { String(cString: $0).hasPrefix("cairn_") } ?? false
  }
}
