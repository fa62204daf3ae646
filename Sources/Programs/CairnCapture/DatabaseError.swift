import Changes
import SQLiteKit

/// An error of a ``CapturedDatabase``. Errors never contain bound values.
///
/// Committed changes are never lost. Unless ``kind`` says otherwise, an open transaction stays open, and its closure
/// decides whether to continue or roll back.
///
/// ```swift
/// do { try shop.execute("DELETE FROM sale") } catch let error as DatabaseError { print(error.kind) }
/// ```
public struct DatabaseError: Error, Sendable {
  public enum Kind: Sendable, Hashable {
    /// Another connection held a lock for longer than the busy timeout. Try again.
    case busy
    /// A constraint refused the row; ``DatabaseError/code`` says which kind of constraint.
    case constraint
    /// The disk is full, or the file has reached its size limit.
    case full
    /// The file cannot be opened.
    case cannotOpen
    /// The file or its folder cannot be written, because of permissions or because the connection forbids writes.
    case readOnly
    /// The file is no SQLite database.
    case notADatabase
    /// The file is damaged.
    case damaged
    /// Reading or writing the disk failed.
    case io
    /// SQLite refused the statement: for example a syntax error, or a missing table.
    case refused

    /// The database has been closed.
    case closed
    /// The database cannot be closed, or synchronised, because a transaction or a query of this thread is open.
    case openTransaction
    /// `transaction` was called within a transaction. Use `savepoint` of the open transaction.
    case nestedTransaction
    /// The transaction has ended: its closure has returned, or SQLite rolled the transaction back (a full disk, ON
    /// CONFLICT ROLLBACK).
    case transactionEnded
    /// The statement is BEGIN, COMMIT, END, ROLLBACK, SAVEPOINT or RELEASE. Use `transaction` and `savepoint`.
    case transactionStatement
    /// The number of values differs from the number of parameters of the statement.
    case parameterCount(expected: Int, given: Int)
    /// The text contains no statement.
    case emptyStatement
    /// The text contains more than one statement, or a NUL character, after which SQLite reads nothing.
    case severalStatements
    /// The result of the query has no column of this name.
    case missingColumn(String)
    /// The value of the column cannot be converted to the requested type.
    case wrongType(column: String)
    /// The name of the node contains characters that trail names cannot have.
    case nodeName
    /// The journal or triggers in the file cannot be used; the message says why.
    case capture
  }

  public let kind: Kind
  /// SQLite's extended result code; 0 if the error does not come from SQLite.
  ///
  /// Source: https://sqlite.org/rescode.html
  public let code: Int32
  public let message: String
  /// The failed statement; empty if there is none.
  public let sql: String

  package init(_ kind: Kind, _ message: String, sql: String = "", code: Int32 = 0) {
    self.kind = kind
    self.message = message
    self.sql = sql
    self.code = code
  }
}

extension DatabaseError: CustomStringConvertible {
  public var description: String {
    "\(message)\(code == 0 ? "" : " (SQLite \(code))")\(sql.isEmpty ? "" : ", in: \(sql.prefix(300))")"
  }
}

extension DatabaseError {
  package init(_ error: SQLiteError) {
    guard !error.isOfMissingCapture else {
      self.init(
        .capture,
        "Cairn was detached from the database meanwhile; open the database again, and it is captured from then on",
        code: error.code)
      return
    }
    self.init(Self.kind(error.primary), error.message, sql: error.sql, code: error.code)
  }

  private static func kind(_ primary: Int32) -> Kind {
    // The primary result codes never change (https://sqlite.org/rescode.html).
    switch primary {
    case 5, 6: .busy
    case 19: .constraint
    case 13: .full
    case 14: .cannotOpen
    case 3, 8, 23: .readOnly
    case 26: .notADatabase
    case 11: .damaged
    case 10: .io
    default: .refused
    }
  }

  /// Runs `body`, and converts errors of SQLite and Cairn to ``DatabaseError``. Other errors are thrown unchanged.
  @inline(__always)
  package static func wrapping<T>(_ body: () throws -> T) throws -> T {
    do { return try body() } catch let error as SQLiteError {
      throw DatabaseError(error)
    } catch let error as CairnError {
      throw DatabaseError(.capture, "\(error.message); \(error.hint)")
    }
  }
}

extension SQLiteError {
  /// Whether SQLite reports that a table which capture installs is missing.
  fileprivate var isOfMissingCapture: Bool {
    primary == 1 && message.contains("no such table") && SQLiteTable.captureNames.contains { message.contains($0.text) }
  }
}
