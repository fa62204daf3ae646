import CCairn
import CairnCapture
import Glibc

// The functions of cairn.h for databases. The compiler checks each signature against the header.

/// The address of the version text, a C string that is never freed.
private let versionText = UInt(bitPattern: strdup(Cairn.version))

@c @implementation
public func cairn_version() -> UnsafePointer<CChar>? { UnsafePointer(bitPattern: versionText) }

@c @implementation
public func cairn_open(
  _ path: UnsafePointer<CChar>?, _ node: UnsafePointer<CChar>?, _ options: UnsafePointer<cairn_options>?,
  _ database: UnsafeMutablePointer<OpaquePointer?>?
) -> cairn_code {
  answering {
    let place = try given(database, "the place for the database")
    place.pointee = nil
    let opened = try CapturedDatabase(
      path: given(path, "the path"), node: given(node, "the node"), options: chosen(options))
    place.pointee = Handle.make(DatabaseHandle(opened))
  }
}

@c @implementation
public func cairn_open_connection(
  _ connection: UnsafeMutableRawPointer?, _ node: UnsafePointer<CChar>?, _ options: UnsafePointer<cairn_options>?,
  _ database: UnsafeMutablePointer<OpaquePointer?>?
) -> cairn_code {
  answering {
    let place = try given(database, "the place for the database")
    place.pointee = nil
    guard let connection else { throw Misuse(CAIRN_MISUSE, "the connection is NULL") }
    let opened = try CapturedDatabase(
      connection: OpaquePointer(connection), node: given(node, "the node"), options: chosen(options))
    place.pointee = Handle.make(DatabaseHandle(opened))
  }
}

private func chosen(_ options: UnsafePointer<cairn_options>?) throws -> CapturedDatabase.Options {
  var chosen = CapturedDatabase.Options()
  guard let given = options?.pointee else { return chosen }
  guard given.size == MemoryLayout<cairn_options>.size else { throw Misuse.unset("cairn_options", "CAIRN_OPTIONS") }
  chosen.busyTimeout = .milliseconds(given.busy_timeout_milliseconds)
  chosen.capture = given.captures != 0
  chosen.statements = given.keeps_statements != 0
  return chosen
}

extension Misuse {
  static func unset(_ type: String, _ macro: String) -> Misuse {
    Misuse(CAIRN_MISUSE, "the size in the \(type) does not match this library", hint: "begin with = \(macro)")
  }
}

@c @implementation
public func cairn_close(_ database: OpaquePointer?) -> cairn_code {
  guard let database else { return CAIRN_OK }
  return answering {
    try given(database, DatabaseHandle.self).database.close()
    Handle.close(database, DatabaseHandle.self)
  }
}

// MARK: Statements

/// The maximum number of parameters of a statement.
private let parametersMax = 1_000_000

private func values(_ parameters: UnsafePointer<cairn_value>?, _ count: Int) throws -> [any SQLConvertible] {
  guard count != 0 else { return [] }
  guard (0...parametersMax).contains(count) else {
    throw Misuse(CAIRN_MISUSE, "the count of the parameters is more than any statement has")
  }
  guard let parameters else { throw Misuse(CAIRN_MISUSE, "the parameters are NULL, and their count is \(count)") }
  return try UnsafeBufferPointer(start: parameters, count: count).enumerated().map { index, value in
    guard let value = SQLValue(value) else {
      throw Misuse(
        CAIRN_MISUSE,
        "parameter \(index + 1) is invalid: its type is unknown, its bytes are NULL, its size is out of range, or its text is not UTF-8",
        hint: "make it with cairn_text, cairn_blob or another of these macros; bytes that are not UTF-8 are a blob")
    }
    return value
  }
}

@c @implementation
public func cairn_execute(
  _ database: OpaquePointer?, _ sql: UnsafePointer<CChar>?, _ parameters: UnsafePointer<cairn_value>?, _ count: Int,
  _ changed: UnsafeMutablePointer<Int64>?
) -> cairn_code {
  answering {
    let handle = try given(database, DatabaseHandle.self)
    let rows = try handle.database.execute(given(sql, "the statement"), values: values(parameters, count))
    changed?.pointee = Int64(rows)
  }
}

@c @implementation
public func cairn_query(
  _ database: OpaquePointer?, _ sql: UnsafePointer<CChar>?, _ parameters: UnsafePointer<cairn_value>?, _ count: Int,
  _ rows: UnsafeMutablePointer<OpaquePointer?>?
) -> cairn_code {
  answering {
    let place = try given(rows, "the place for the rows")
    place.pointee = nil
    let handle = try given(database, DatabaseHandle.self)
    let all = try handle.database.query(given(sql, "the statement"), parameters: values(parameters, count))
    place.pointee = Handle.make(RowsHandle(all))
  }
}

@c @implementation
public func cairn_last_insert_rowid(_ database: OpaquePointer?) -> Int64 {
  (try? Handle.object(database, as: DatabaseHandle.self)?.database.lastInsertRowid) ?? 0
}

// MARK: Rows

@c @implementation
public func cairn_rows_next(_ rows: OpaquePointer?) -> CInt {
  Handle.object(rows, as: RowsHandle.self)?.advance() == true ? 1 : 0
}

@c @implementation
public func cairn_rows_column_count(_ rows: OpaquePointer?) -> CInt {
  CInt(Handle.object(rows, as: RowsHandle.self)?.columnCount ?? 0)
}

@c @implementation
public func cairn_rows_column_name(_ rows: OpaquePointer?, _ column: CInt) -> UnsafePointer<CChar>? {
  Handle.object(rows, as: RowsHandle.self)?.name(Int(column))
}

@c @implementation
public func cairn_rows_value(_ rows: OpaquePointer?, _ column: CInt) -> cairn_value {
  Handle.object(rows, as: RowsHandle.self)?.value(Int(column)) ?? cairn_null()
}

@c @implementation
public func cairn_rows_close(_ rows: OpaquePointer?) { Handle.close(rows, RowsHandle.self) }

// MARK: Transactions

@c @implementation
public func cairn_transaction(
  _ database: OpaquePointer?,
  _ body: (@convention(c) (_ database: OpaquePointer?, _ context: UnsafeMutableRawPointer?) -> CInt)?,
  _ context: UnsafeMutableRawPointer?, _ token: UnsafeMutablePointer<Int64>?
) -> cairn_code {
  answering {
    let handle = try given(database, DatabaseHandle.self)
    let body = try given(body)
    let commit = try handle.database.transaction { transaction in
      handle.transaction = transaction
      defer { handle.transaction = nil }
      try check(body(database, context))
    }
    token?.pointee = commit.sequence
  }
}

@c @implementation
public func cairn_savepoint(
  _ database: OpaquePointer?,
  _ body: (@convention(c) (_ database: OpaquePointer?, _ context: UnsafeMutableRawPointer?) -> CInt)?,
  _ context: UnsafeMutableRawPointer?
) -> cairn_code {
  answering {
    let handle = try given(database, DatabaseHandle.self)
    let body = try given(body)
    // If another thread had a transaction, that transaction has ended by the time this thread gets the connection.
    guard let transaction = try handle.database.alone({ handle.transaction }) else {
      throw Misuse(CAIRN_TRANSACTION, "no transaction is open, and a savepoint needs one")
    }
    try transaction.savepoint { _ in try check(body(database, context)) }
  }
}

private typealias Body = @convention(c) (OpaquePointer?, UnsafeMutableRawPointer?) -> CInt

private func given(_ body: Body?) throws -> Body {
  guard let body else { throw Misuse(CAIRN_MISUSE, "the function is NULL") }
  return body
}

private func check(_ answer: CInt) throws {
  guard answer == 0 else { throw Misuse(CAIRN_ROLLED_BACK, "rolled back: the function returned \(answer)") }
}

@c @implementation
public func cairn_database_pending(
  _ database: OpaquePointer?, _ pending: UnsafeMutablePointer<cairn_pending>?
) -> cairn_code {
  answering {
    let waiting = try given(database, DatabaseHandle.self).database.pending
    try given(pending, "the place for what is pending").pointee = cairn_pending(
      transactions: Int64(waiting.transactions), rows: Int64(waiting.rows), unsent: 0)
  }
}
