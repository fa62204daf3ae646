/// The open transaction that a closure of ``CapturedDatabase/transaction(_:)`` receives. Any use after that closure, or
/// from another thread, throws ``DatabaseError/Kind/transactionEnded``.
public final class CapturedTransaction {
  private let connection: Connection
  private let serial: UInt64

  init(_ connection: Connection, _ serial: UInt64) {
    self.connection = connection
    self.serial = serial
  }

  @inline(__always)
  private func open<T>(_ body: (Session) throws -> T) throws -> T {
    try connection.alone { session in
      try session.checkIsOpen(serial)
      return try body(session)
    }
  }

  /// Executes one statement in this transaction. A failed statement changes nothing, and the transaction stays open.
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

  /// Returns all rows of a query in this transaction, like ``CapturedDatabase/query(_:_:)``.
  public func query(_ sql: String, _ parameters: (any SQLConvertible)?...) throws -> [Row] {
    try query(sql, parameters: parameters)
  }

  /// Returns all rows of a query with its parameters as an array.
  public func query(_ sql: String, parameters: [(any SQLConvertible)?]) throws -> [Row] {
    try open { try $0.rows(sql, parameters.orNull) }
  }

  /// Returns all rows of a query, each decoded as a type, like ``CapturedDatabase/query(as:_:_:)``.
  public func query<T: Decodable>(
    as type: T.Type, _ sql: String, _ parameters: (any SQLConvertible)?...
  ) throws -> [T] { try query(sql, parameters: parameters).map { try $0.decode(T.self) } }

  /// Calls `body` with each row of a query, like ``CapturedDatabase/forEach(_:_:body:)``.
  public func forEach(
    _ sql: String, _ parameters: (any SQLConvertible)?..., body: (Row) throws -> Void
  ) throws { try open { try $0.query(sql, parameters.orNull, body) } }

  /// The rowid of the last row that this connection inserted.
  public var lastInsertRowid: Int64 { get throws { try open { $0.lastInsertRowid } } }

  /// Runs a closure in a savepoint. If the closure throws, only its own changes roll back, and the error is rethrown.
  /// Savepoints may be nested.
  @discardableResult
  public func savepoint<T>(_ body: (CapturedTransaction) throws -> T) throws -> T {
    try open { session in try session.savepoint { try body(self) } }
  }
}

extension Session {
  func rows(_ sql: String, _ values: [any SQLConvertible]) throws -> [Row] {
    var rows: [Row] = []
    try query(sql, values) { rows.append($0) }
    return rows
  }
}
