/// The transaction that a closure of ``CapturedDatabase/transaction(_:)`` is in. Used behind that closure, or from another
/// thread, it throws ``DatabaseError/Kind/transactionEnded``.
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

  /// As ``CapturedDatabase/execute(_:_:)``, in this transaction. A statement that fails has changed nothing; the transaction is
  /// open still, and the closure may go on.
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

  /// As ``CapturedDatabase/query(_:_:)``, in this transaction.
  public func query(_ sql: String, _ parameters: (any SQLConvertible)?...) throws -> [Row] {
    try query(sql, parameters: parameters)
  }

  /// The same with the parameters as a list.
  public func query(_ sql: String, parameters: [(any SQLConvertible)?]) throws -> [Row] {
    try open { try $0.rows(sql, parameters.orNull) }
  }

  /// As ``CapturedDatabase/query(as:_:_:)``, in this transaction.
  public func query<T: Decodable>(
    as type: T.Type, _ sql: String, _ parameters: (any SQLConvertible)?...
  ) throws -> [T] { try query(sql, parameters: parameters).map { try $0.decode(T.self) } }

  /// As ``CapturedDatabase/forEach(_:_:body:)``, in this transaction.
  public func forEach(
    _ sql: String, _ parameters: (any SQLConvertible)?..., body: (Row) throws -> Void
  ) throws { try open { try $0.query(sql, parameters.orNull, body) } }

  /// The rowid of the last row that was inserted here.
  public var lastInsertRowid: Int64 { get throws { try open { $0.lastInsertRowid } } }

  /// Runs a closure as a part of the transaction that is rolled back by itself: whatever it throws takes back what it has done,
  /// and nothing else, and comes out. Savepoints may stand in savepoints.
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
