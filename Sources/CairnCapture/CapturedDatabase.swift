import Changes
import SQLiteKit

/// An SQLite database whose commits are captured: each row change, the statements that were executed, and where each
/// transaction ends stand in a journal in the same file, committed with the change itself. A `cairnd`, or a synchroniser in the
/// same program, takes them from there whenever it comes; the program needs no network, and never waits for one.
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
/// It is one connection, which any number of threads and tasks may use: one at a time, the others wait. All calls block, as
/// SQLite does. Inside of a `transaction` closure the database may be used as well, by the same thread: that is part of the
/// transaction. Two databases of one file, in one program or in two, are two connections as ever in SQLite.
///
/// Cairn adds tables and triggers to the file, whose names begin with `cairn_`; tables of the program stay as they are, and
/// `cairn detach` removes what was added. Other programs may write to the file by whatever means: their rows are captured too,
/// without statements. What capture of SQLite cannot see is told in `docs/sqlite-capture.md`.
public final class CapturedDatabase: Sendable {
  /// What can be chosen when a database is opened.
  public struct Options: Sendable {
    /// Whether triggers and journal are put into the file, and what is executed is kept. Switched off for a file that is
    /// captured already, its triggers stay: rows are captured, statements and ends of transactions are not told.
    public var capture = true
    /// Whether executed statements are kept, besides the rows.
    public var statements = true
    /// For how long a call waits for a lock of another connection before it throws ``DatabaseError/Kind/busy``.
    public var busyTimeout: Duration = .seconds(5)
    /// Whether a file that is created now gets the journal mode WAL, in which readers and the writer do not wait for each
    /// other. A file that is there keeps its mode.
    public var createsWithWAL = true
    public init() {}

    fileprivate var busyTimeoutMilliseconds: Int32 {
      let (seconds, rest) = busyTimeout.components
      return Int32(clamping: max(0, min(seconds, 1_000_000)) * 1000 + rest / 1_000_000_000_000_000)
    }
  }

  /// The name of this installation, the origin of all that is committed here.
  public let node: String
  let connection: Connection

  /// Opens a database file, or creates it, and puts capture into it where it is not.
  ///
  /// `node` is the name of this installation: letters, digits, `-` and `_`; never give that of one to another. The first time,
  /// and after a change of the schema that was not made through this API, a short write transaction makes the triggers.
  public convenience init(path: String, node: String, options: Options = Options()) throws {
    let session = try DatabaseError.wrapping {
      try Self.check(node: node)
      guard !path.isEmpty else {
        throw DatabaseError(
          .cannotOpen, "the path is empty, which SQLite takes for a database that is gone when it is closed")
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

  /// Takes a connection that the program has (`sqlite3 *`), and goes on to use and to close: close this before.
  ///
  /// Rows are captured whatever writes them. Statements are kept of what is executed here; those that use the time
  /// (`datetime('now')`, CURRENT_TIMESTAMP) are not executed again elsewhere, since only a connection that was opened here
  /// tells what the time was. Transactions that the program begins and ends by itself are captured without their exact ends.
  /// ``Options/busyTimeout`` and ``Options/createsWithWAL`` are the program's own business then.
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

  /// Closes the database. Every later call throws ``DatabaseError/Kind/closed``; to close again does nothing.
  public func close() throws { try connection.close() }

  @inline(__always)
  private func open<T>(_ body: (Session) throws -> T) throws -> T {
    try connection.alone { session in
      try session.checkIsNotOver()
      return try body(session)
    }
  }

  // MARK: Statements

  /// Executes one statement, outside of a transaction as one of its own. Returns how many rows it inserted, updated or deleted,
  /// without those of triggers and foreign key actions.
  ///
  /// The statement is prepared once for each text and used again: use parameters. There must be a value for each.
  @discardableResult
  public func execute(_ sql: String, _ parameters: (any SQLConvertible)?...) throws -> Int {
    try execute(sql, values: parameters.orNull)
  }

  /// The same without parameters.
  @discardableResult
  public func execute(_ sql: String) throws -> Int { try execute(sql, values: []) }

  /// The same where none of the parameters may be nil, which costs least.
  @discardableResult
  public func execute(_ sql: String, _ parameters: any SQLConvertible...) throws -> Int {
    try execute(sql, values: parameters)
  }

  /// The same with the parameters as a list.
  @discardableResult
  public func execute(_ sql: String, parameters: [(any SQLConvertible)?]) throws -> Int {
    try execute(sql, values: parameters.orNull)
  }

  package func execute(_ sql: String, values: [any SQLConvertible]) throws -> Int {
    try open { try $0.execute(sql, values) }
  }

  /// All rows of a query; also of a statement that writes, with RETURNING.
  public func query(_ sql: String, _ parameters: (any SQLConvertible)?...) throws -> [Row] {
    try query(sql, parameters: parameters)
  }

  /// The same with the parameters as a list.
  public func query(_ sql: String, parameters: [(any SQLConvertible)?]) throws -> [Row] {
    try open { try $0.rows(sql, parameters.orNull) }
  }

  /// All rows of a query, each as a value of a type of the program (``Row/decode(_:)``):
  /// `try shop.query(as: Item.self, "SELECT * FROM item")`.
  public func query<T: Decodable>(
    as type: T.Type, _ sql: String, _ parameters: (any SQLConvertible)?...
  ) throws -> [T] { try query(sql, parameters: parameters).map { try $0.decode(T.self) } }

  /// Calls `body` with each row of a query, one after the other, without keeping them. The closure may use the database; other
  /// threads wait.
  public func forEach(
    _ sql: String, _ parameters: (any SQLConvertible)?..., body: (Row) throws -> Void
  ) throws { try open { try $0.query(sql, parameters.orNull, body) } }

  /// The rowid of the last row that was inserted here.
  public var lastInsertRowid: Int64 { get throws { try connection.alone { $0.lastInsertRowid } } }

  // MARK: Transactions

  /// Runs a closure in a transaction (BEGIN IMMEDIATE), and commits. Whatever it throws rolls back, and comes out.
  ///
  /// The token stands for this commit. A transaction inside of a transaction throws ``DatabaseError/Kind/nestedTransaction``;
  /// a part that may be rolled back by itself is a ``CapturedTransaction/savepoint(_:)``.
  @discardableResult
  public func transaction(_ body: (CapturedTransaction) throws -> Void) throws -> CommitToken {
    try transaction(returning: Void.self, body).token
  }

  /// The same with what the closure returns: `let (id, token) = try shop.transaction(returning: Int64.self) { db in … }`.
  public func transaction<T>(
    returning type: T.Type, _ body: (CapturedTransaction) throws -> T
  ) throws -> (value: T, token: CommitToken) {
    try connection.alone { session in
      try session.transact { try body(CapturedTransaction(connection, session.serial)) }
    }
  }

  // MARK: What becomes of it

  /// What was committed, and no trail has yet.
  ///
  /// A capture that has taken it says so in the file when the program pauses, after some seconds at the latest. Costs a look
  /// through what waits.
  public var pending: Pending { get throws { try connection.alone { try $0.pending() } } }
}
