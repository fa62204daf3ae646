import Changes
import SQLiteKit

/// What went wrong: what kind of thing it is, SQLite's extended result code, its message and the SQL. Never the values that
/// were bound.
///
/// Whatever is thrown, nothing that was committed is lost; unless ``kind`` says otherwise, a transaction that is open stays
/// open, and goes on or is rolled back as its closure decides.
public struct DatabaseError: Error, Sendable {
  public enum Kind: Sendable, Hashable {
    /// Another connection holds the lock, and kept it longer than the busy timeout. Try again.
    case busy
    /// A constraint refused the row; ``DatabaseError/code`` says which kind of one.
    case constraint
    /// The disk, or the limit of the file, is full.
    case full
    /// The file cannot be opened.
    case cannotOpen
    /// The file, or its folder, may not be written to.
    case readOnly
    /// The file is no SQLite database.
    case notADatabase
    /// The file is damaged.
    case damaged
    /// The disk failed.
    case io
    /// SQLite refused the statement: a mistake in it, or a table that is not there.
    case refused

    /// The database has been closed.
    case closed
    /// `close()` inside of a transaction.
    case openTransaction
    /// `transaction` inside of a transaction. Use `savepoint` of the one that is open.
    case nestedTransaction
    /// The transaction is over: it was used behind its closure, or SQLite has rolled it back (a full disk, ON CONFLICT
    /// ROLLBACK).
    case transactionEnded
    /// BEGIN, COMMIT, ROLLBACK, SAVEPOINT or RELEASE as a statement. Use `transaction` and `savepoint`.
    case transactionStatement
    /// Not as many values as the statement has parameters.
    case parameterCount(expected: Int, given: Int)
    /// No statement in the text.
    case emptyStatement
    /// More than one statement in the text, or a character 0, behind which SQLite reads nothing.
    case severalStatements
    /// The rows have no such column.
    case missingColumn(String)
    /// The value of the column is none of the type that was asked for.
    case wrongType(column: String)
    /// The name of the node is not one that trails can have.
    case nodeName
    /// What stands in the file for capture cannot be used; the message says why.
    case capture
  }

  public let kind: Kind
  /// SQLite's extended result code; 0 where the error is not SQLite's.
  ///
  /// Source: https://sqlite.org/rescode.html
  public let code: Int32
  public let message: String
  /// The statement; empty where there is none.
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
        .capture, "Cairn was detached from the database meanwhile; open it again, and it is captured from then on",
        code: error.code)
      return
    }
    self.init(Self.kind(error.primary), error.message, sql: error.sql, code: error.code)
  }

  private static func kind(_ primary: Int32) -> Kind {
    // sqlite.org/rescode.html: the primary codes are as fixed as the file format.
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

  /// Calls `body`; what it throws comes out as an error of this type, but for those of the program's own closures.
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
  /// A table is not there that capture has put into the file.
  fileprivate var isOfMissingCapture: Bool {
    primary == 1 && message.contains("no such table") && SQLiteTable.captureNames.contains { message.contains($0.text) }
  }
}
