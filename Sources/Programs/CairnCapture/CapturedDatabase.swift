import Changes
import SQLiteKit

/// An SQLite database whose commits are captured. Each changed row, each executed statement and the end of each
/// transaction go into a journal in the same file. The journal commits together with the change itself. A `cairnd`, or
/// a ``Synchronizer`` in the same program, reads the journal later. The program needs no network and never waits for
/// one.
///
/// ```swift
/// let shop = try CapturedDatabase(path: "shop.db", node: "till-7")
/// try shop.execute("INSERT INTO item (name, price) VALUES (?, ?)", "tea", 3.50)
/// let token = try shop.transaction { db in
///   try db.execute("UPDATE item SET stock = stock - ? WHERE name = ?", 1, "tea")
/// }
/// for row in try shop.query("SELECT name, stock FROM item") { print(row["name"], row["stock"]) }
/// ```
///
/// The database is one connection, which any number of threads and tasks may share: it serves one thread at a time, and
/// the others wait. All calls block, as in SQLite. Within a `transaction` closure, the same thread may call the
/// database too; those calls are part of the transaction. Two databases on one file, in one program or in two, are two
/// independent SQLite connections.
///
/// Cairn adds tables and triggers to the file, with names that begin with `cairn_`. The program's own tables are not
/// altered, and `cairn detach` removes all additions. Capture also takes rows that other programs write to the file,
/// but not their statements. `docs/explanation/sqlite-capture.md` lists what capture of SQLite cannot see.
public final class CapturedDatabase: Sendable {
  /// Options for opening a database.
  ///
  /// ```swift
  /// var options = CapturedDatabase.Options()
  /// options.busyTimeout = .seconds(30)
  /// let shop = try CapturedDatabase(path: "shop.db", node: "till", options: options)
  /// ```
  public struct Options: Sendable {
    /// Whether opening the database installs the triggers and the journal of capture. If false, no statements go into
    /// the journal; triggers that the file already has stay.
    public var capture = true
    /// Whether the journal keeps the executed statements, in addition to the rows.
    public var statements = true
    /// The time that a call waits for a lock of another connection before it throws ``DatabaseError/Kind/busy``.
    public var busyTimeout: Duration = .seconds(5)
    /// Whether a newly created file gets journal mode WAL, in which readers and the writer do not block each other. An
    /// existing file keeps its mode.
    public var createsWithWAL = true
    public init() {}

    fileprivate var busyTimeoutMilliseconds: Int32 {
      let (seconds, rest) = busyTimeout.components
      return Int32(clamping: max(0, min(seconds, 1_000_000)) * 1000 + rest / 1_000_000_000_000_000)
    }
  }

  /// The name of this installation, which becomes part of the origin of each commit.
  public let node: String
  let connection: Connection

  /// Opens a database file, or creates it, and installs capture if the file has none.
  ///
  /// If capture is missing, or the schema was changed without this API, opening runs a short write transaction that
  /// makes the triggers.
  /// - Parameters:
  ///   - path: The file. A relative path begins in the current folder.
  ///   - node: The name of this installation: letters, digits, `-` and `_`. Never give the name of one installation to
  ///     another.
  ///   - options: The settings of the connection and of capture.
  public convenience init(path: String, node: String, options: Options = Options()) throws {
    let session = try DatabaseError.wrapping {
      try Self.check(node: node)
      guard !path.isEmpty else {
        throw DatabaseError(
          .cannotOpen, "the path is empty: SQLite would open a temporary database and delete it on close")
      }
      let program = try ProgramDatabase(
        path: path, busyTimeoutMilliseconds: options.busyTimeoutMilliseconds)
      if options.createsWithWAL, try program.database.integer("PRAGMA page_count") == 0 {
        try program.database.execute("PRAGMA journal_mode = WAL")
      }
      return try Session(program, isCaptured: options.capture, keepsStatements: options.statements)
    }
    self.init(node: node, session)
  }

  /// Uses an existing connection (`sqlite3 *`), which the program may continue to use. Close this object before the
  /// program closes the connection.
  ///
  /// Capture sees all changed rows. The journal keeps only statements that are executed through this object. If the
  /// program begins and ends a transaction itself, capture does not know exactly where the transaction ends.
  ///
  /// On such a connection, Cairn does not know the time that `datetime('now')` or CURRENT_TIMESTAMP returned. Apply
  /// then writes the rows of the statement instead of executing it.
  ///
  /// ``Options/busyTimeout`` and ``Options/createsWithWAL`` have no effect here; the program sets them itself.
  public convenience init(connection: OpaquePointer, node: String, options: Options = Options()) throws {
    let session = try DatabaseError.wrapping {
      try Self.check(node: node)
      let program = ProgramDatabase(borrowing: connection)
      program.enter()
      defer { program.leave() }
      return try Session(program, isCaptured: options.capture, keepsStatements: options.statements)
    }
    self.init(node: node, session)
  }

  private init(node: String, _ session: Session) {
    self.node = node
    connection = Connection(session)
  }

  private static func check(node: String) throws {
    guard TrailName.isValid(node) else {
      throw DatabaseError(.nodeName, "'\(node)' is no name for a node: use letters, digits, '-' and '_'")
    }
  }

  /// Closes the database. Every later call throws ``DatabaseError/Kind/closed``. Closing again has no effect.
  public func close() throws { try connection.close() }

  @inline(__always)
  private func open<T>(_ body: (Session) throws -> T) throws -> T {
    try connection.alone { session in
      try session.checkIsNotOver()
      return try body(session)
    }
  }

  // MARK: Statements

  /// Executes one statement. Outside of a transaction, the statement is a transaction of its own.
  ///
  /// Each SQL text is prepared once and then reused, so use parameters instead of literals. Give exactly one value for
  /// each parameter.
  /// - Returns: the number of rows inserted, updated or deleted, without those of triggers and foreign key actions.
  @discardableResult
  public func execute(_ sql: String, _ parameters: (any SQLConvertible)?...) throws -> Int {
    try execute(sql, values: parameters.orNull)
  }

  /// Executes one statement without parameters.
  @discardableResult
  public func execute(_ sql: String) throws -> Int { try execute(sql, values: []) }

  /// Executes one statement with parameters that are not optional. This is the fastest variant.
  @discardableResult
  public func execute(_ sql: String, _ parameters: any SQLConvertible...) throws -> Int {
    try execute(sql, values: parameters)
  }

  /// Executes one statement with its parameters as an array.
  @discardableResult
  public func execute(_ sql: String, parameters: [(any SQLConvertible)?]) throws -> Int {
    try execute(sql, values: parameters.orNull)
  }

  package func execute(_ sql: String, values: [any SQLConvertible]) throws -> Int {
    try open { try $0.execute(sql, values) }
  }

  /// Returns all rows of a query, or of a writing statement with RETURNING.
  public func query(_ sql: String, _ parameters: (any SQLConvertible)?...) throws -> [Row] {
    try query(sql, parameters: parameters)
  }

  /// Returns all rows of a query with its parameters as an array.
  public func query(_ sql: String, parameters: [(any SQLConvertible)?]) throws -> [Row] {
    try open { try $0.rows(sql, parameters.orNull) }
  }

  /// Returns all rows of a query, each decoded as a type of the program (``Row/decode(_:)``).
  public func query<T: Decodable>(
    as type: T.Type, _ sql: String, _ parameters: (any SQLConvertible)?...
  ) throws -> [T] { try query(sql, parameters: parameters).map { try $0.decode(T.self) } }

  /// Calls `body` with each row of a query in turn, without keeping the rows. `body` may use the database; other
  /// threads wait until the query ends.
  public func forEach(
    _ sql: String, _ parameters: (any SQLConvertible)?..., body: (Row) throws -> Void
  ) throws { try open { try $0.query(sql, parameters.orNull, body) } }

  /// The rowid of the last row that this connection inserted.
  public var lastInsertRowid: Int64 { get throws { try connection.alone { $0.lastInsertRowid } } }

  // MARK: Transactions

  /// Runs a closure in a transaction (BEGIN IMMEDIATE) and commits. If the closure throws, the transaction rolls back
  /// and the error is rethrown.
  ///
  /// A transaction within a transaction throws ``DatabaseError/Kind/nestedTransaction``. To roll back only a part, use
  /// ``CapturedTransaction/savepoint(_:)``.
  /// - Returns: a token that identifies this commit.
  @discardableResult
  public func transaction(_ body: (CapturedTransaction) throws -> Void) throws -> CommitToken {
    try transaction(returning: Void.self, body).token
  }

  /// Runs a closure in a transaction and also returns its value: `let (id, token) = try shop.transaction(returning:
  /// Int64.self) { db in … }`.
  public func transaction<T>(
    returning type: T.Type, _ body: (CapturedTransaction) throws -> T
  ) throws -> (value: T, token: CommitToken) {
    try connection.alone { session in
      try session.transact { try body(CapturedTransaction(connection, session.serial)) }
    }
  }

  // MARK: Delivery

  /// The commits that are not yet known to be in a trail.
  ///
  /// Capture records its progress in the file only from time to time, so commits that it has just read may still count.
  /// Getting this value scans the unread rows of the journal.
  public var pending: Pending { get throws { try connection.alone { try $0.pending() } } }
}
