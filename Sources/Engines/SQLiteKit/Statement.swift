import CSQLite
import CShims
import Changes
import Glibc
import SystemKit

/// A prepared statement, for use on the thread of its ``Database``. The statement keeps the database open.
package final class Statement {
  package let database: Database
  package let sql: String
  let handle: OpaquePointer
  package let parameterCount: Int
  /// Whether the text contains another statement, which is not run, after the prepared one.
  package let hasMore: Bool

  init(_ database: Database, _ sql: String) throws {
    self.database = database
    self.sql = sql
    // SQLite reads a text only up to a NUL: the rest would be ignored without an error.
    guard !sql.utf8.contains(0) else {
      throw SQLiteError(code: SQLITE_MISUSE, message: "the statement contains a NUL", sql: sql, path: database.path)
    }
    try database.limitCache(sql)
    var prepared: OpaquePointer?
    let (code, more) = sql.withCString { text in
      var tail: UnsafePointer<CChar>?
      var code = SQLITE_SCHEMA
      var attempts = 0
      while code & 0xff == SQLITE_SCHEMA, attempts <= Self.schemaAttempts {
        if attempts > 0 { usleep(2000) }
        code = Pulse.inStatement {
          sqlite3_prepare_v3(database.handle, text, -1, UInt32(SQLITE_PREPARE_PERSISTENT), &prepared, &tail)
        }
        attempts += 1
      }
      guard let tail, tail.pointee != 0 else { return (code, false) }
      let rest = SQLText.tokens(Array(String(cString: tail).utf8))
      return (code, rest.contains { $0.symbol != UInt8(ascii: ";") })
    }
    hasMore = more
    guard code == SQLITE_OK, let prepared else {
      throw code == SQLITE_OK
        ? SQLiteError(code: SQLITE_MISUSE, message: "the statement is empty", sql: sql, path: database.path)
        : database.error(code, sql)
    }
    handle = prepared
    parameterCount = Int(sqlite3_bind_parameter_count(prepared))
  }

  deinit { sqlite3_finalize(handle) }

  /// Steps to the next row; returns false at the end. The end and an error reset the statement, so that it holds no
  /// lock.
  package func step() throws -> Bool {
    var code = Pulse.inStatement { sqlite3_step(handle) }
    var attempts = 0
    while code & 0xff == SQLITE_SCHEMA, attempts < Self.schemaAttempts {
      attempts += 1
      sqlite3_reset(handle)
      usleep(2000)
      code = Pulse.inStatement { sqlite3_step(handle) }
    }
    return try taken(code)
  }

  /// The maximum number of times that a statement is started again because another connection has changed the schema.
  static let schemaAttempts = 500

  /// Evaluates the result code of a step. Returns whether there is a row; throws ``SQLiteError`` for an error code.
  func taken(_ code: Int32) throws -> Bool {
    switch code {
    case SQLITE_ROW:
      do { try database.checkIndex(sql) } catch {
        sqlite3_reset(handle)
        throw error
      }
      return true
    case SQLITE_DONE:
      sqlite3_reset(handle)
      try database.checkIndex(sql)
      return false
    default:
      let failure = database.error(code, sql)
      sqlite3_reset(handle)
      throw failure
    }
  }

  /// Returns the next rows: no more after `bytesMax` bytes, and at least one. Empty at the end.
  package func rows(bytesMax: Int) throws -> [[Value]] {
    var rows: [[Value]] = []
    var bytes = 0
    while bytes < bytesMax, try step() {
      let row = (0..<columnCount).map { value($0) }
      bytes += row.reduce(0) { $0 + 32 + $1.byteCount }
      rows.append(row)
    }
    return rows
  }

  package func reset() { sqlite3_reset(handle) }

  package var isReadOnly: Bool { sqlite3_stmt_readonly(handle) != 0 }

  /// The number of columns of the statement's rows. It may change if SQLite prepares the statement again.
  package var columnCount: Int { Int(sqlite3_column_count(handle)) }

  /// The number of times that SQLite prepared the statement again by itself, because the schema had changed.
  ///
  /// Source: https://sqlite.org/c3ref/c_stmtstatus_counter.html
  package var repreparedCount: Int32 { sqlite3_stmt_status(handle, SQLITE_STMTSTATUS_REPREPARE, 0) }

  package func columnName(_ column: Int) -> String {
    sqlite3_column_name(handle, Int32(column)).map { String(cString: $0) } ?? ""
  }

  package func bind(_ values: [Value]) throws {
    for (index, value) in values.enumerated() { try bind(value, at: index + 1) }
  }

  /// Binds a copy of a value to a parameter; parameters are numbered from 1.
  package func bind(_ value: Value, at index: Int) throws {
    let i = Int32(index)
    let code: Int32
    switch value {
    case .null: code = sqlite3_bind_null(handle, i)
    case .integer(let n): code = sqlite3_bind_int64(handle, i, n)
    case .real(let r): code = sqlite3_bind_double(handle, i, r)
    case .text(let b), .exact(let b): code = b.withUnsafeBytes { bindText($0, i, copy: true) }
    case .blob(let b): code = b.withUnsafeBytes { bindBlob($0, i, copy: true) }
    }
    guard code == SQLITE_OK else { throw database.error(code, sql) }
  }

  /// Binds a value to a parameter. Unless `copies` is set, the bytes of the value are not copied, and must stay valid
  /// until a reset. The value `unchanged` binds NULL.
  package func bind(_ view: ColumnView, at index: Int, copies: Bool = false) throws {
    let i = Int32(index)
    let code: Int32
    switch view {
    case .unchanged, .null: code = sqlite3_bind_null(handle, i)
    case .integer(let n): code = sqlite3_bind_int64(handle, i, n)
    case .real(let r): code = sqlite3_bind_double(handle, i, r)
    case .text(let b), .exact(let b): code = bindText(b, i, copy: copies)
    case .blob(let b): code = bindBlob(b, i, copy: copies)
    }
    guard code == SQLITE_OK else { throw database.error(code, sql) }
  }

  package func bind(_ value: Int64, at index: Int) throws {
    let code = sqlite3_bind_int64(handle, Int32(index), value)
    guard code == SQLITE_OK else { throw database.error(code, sql) }
  }

  package func bind(_ value: Double, at index: Int) throws {
    let code = sqlite3_bind_double(handle, Int32(index), value)
    guard code == SQLITE_OK else { throw database.error(code, sql) }
  }

  package func bindNull(at index: Int) throws {
    let code = sqlite3_bind_null(handle, Int32(index))
    guard code == SQLITE_OK else { throw database.error(code, sql) }
  }

  private func bindText(_ bytes: UnsafeRawBufferPointer, _ index: Int32, copy: Bool) -> Int32 {
    // An empty buffer may have no address, which SQLite would read as NULL.
    guard let start = bytes.baseAddress else { return cairn_bind_text(handle, index, "", 0, 1) }
    return cairn_bind_text(handle, index, start, bytes.count, copy ? 1 : 0)
  }

  private func bindBlob(_ bytes: UnsafeRawBufferPointer, _ index: Int32, copy: Bool) -> Int32 {
    guard let start = bytes.baseAddress, !bytes.isEmpty else { return sqlite3_bind_zeroblob(handle, index, 0) }
    return cairn_bind_blob(handle, index, start, bytes.count, copy ? 1 : 0)
  }

  package func integer(_ column: Int) -> Int64 { sqlite3_column_int64(handle, Int32(column)) }

  package func isNull(_ column: Int) -> Bool { sqlite3_column_type(handle, Int32(column)) == SQLITE_NULL }

  package func text(_ column: Int) -> String { String(decoding: textBytes(Int32(column)), as: UTF8.self) }

  /// Returns a copy of a column's value in the current row, in its storage class.
  package func value(_ column: Int) -> Value {
    let i = Int32(column)
    switch sqlite3_column_type(handle, i) {
    case SQLITE_INTEGER: return .integer(sqlite3_column_int64(handle, i))
    case SQLITE_FLOAT: return .real(sqlite3_column_double(handle, i))
    case SQLITE_TEXT: return .text(Array(textBytes(i)))
    case SQLITE_BLOB: return .blob(Array(blobBytes(i)))
    default: return .null
    }
  }

  /// Returns a column's value in the current row, in place: valid until the next step.
  package func view(_ column: Int) -> ColumnView {
    let i = Int32(column)
    switch sqlite3_column_type(handle, i) {
    case SQLITE_INTEGER: return .integer(sqlite3_column_int64(handle, i))
    case SQLITE_FLOAT: return .real(sqlite3_column_double(handle, i))
    case SQLITE_TEXT: return .text(textBytes(i))
    case SQLITE_BLOB: return .blob(blobBytes(i))
    default: return .null
    }
  }

  /// Appends a column's value in the current row to an image.
  package func encode(_ column: Int, into writer: inout ByteWriter) {
    let i = Int32(column)
    switch sqlite3_column_type(handle, i) {
    case SQLITE_INTEGER: writer.appendInteger(sqlite3_column_int64(handle, i))
    case SQLITE_FLOAT: writer.appendReal(sqlite3_column_double(handle, i))
    case SQLITE_TEXT:
      if database.watchesText, !isWellFormed(i) { database.illFormedColumn = column }
      writer.appendText(textBytes(i))
    case SQLITE_BLOB: writer.appendBlob(blobBytes(i))
    default: writer.appendNull()
    }
  }

  /// Returns whether a column's text in a UTF-16 file is well-formed. Only then does SQLite return the same text as
  /// UTF-8.
  private func isWellFormed(_ i: Int32) -> Bool {
    guard let start = sqlite3_column_text16(handle, i) else { return true }
    let units = UnsafeRawBufferPointer(start: start, count: Int(sqlite3_column_bytes16(handle, i)))
      .bindMemory(to: UInt16.self)
    var expectsLow = false
    for unit in units {
      let isLow = unit & 0xfc00 == 0xdc00
      guard isLow == expectsLow else { return false }
      expectsLow = unit & 0xfc00 == 0xd800
    }
    return !expectsLow
  }

  private func textBytes(_ i: Int32) -> UnsafeRawBufferPointer {
    let start = sqlite3_column_text(handle, i)
    return UnsafeRawBufferPointer(start: start, count: Int(sqlite3_column_bytes(handle, i)))
  }

  private func blobBytes(_ i: Int32) -> UnsafeRawBufferPointer {
    let start = sqlite3_column_blob(handle, i)
    return UnsafeRawBufferPointer(start: start, count: Int(sqlite3_column_bytes(handle, i)))
  }
}
