import CSQLite
import Changes

/// An error of SQLite: its extended result code and message, with the statement but never its values.
///
/// Source: https://sqlite.org/rescode.html
package struct SQLiteError: Error, CustomStringConvertible {
  package let code: Int32
  package let message: String
  package let sql: String
  package let path: String
  /// The action that the file requested and Cairn refused; nil if the error has another cause.
  package var refusal: FileRefusal?

  package var primary: Int32 { code & 0xff }
  package var isBusy: Bool { primary == SQLITE_BUSY || primary == SQLITE_LOCKED }
  package var isInterrupted: Bool { primary == SQLITE_INTERRUPT }
  package var isConstraint: Bool { primary == SQLITE_CONSTRAINT }
  /// Whether a row is the cause. It breaks a constraint, or a function in an index, a CHECK or a generated column does
  /// not take its values.
  package var isOfRow: Bool { [SQLITE_CONSTRAINT, SQLITE_ERROR, SQLITE_TOOBIG, SQLITE_MISMATCH].contains(primary) }
  /// Whether the statement failed at a PRIMARY KEY, UNIQUE or rowid constraint.
  package var isUniqueness: Bool {
    [SQLITE_CONSTRAINT | 6 << 8, SQLITE_CONSTRAINT | 8 << 8, SQLITE_CONSTRAINT | 10 << 8].contains(code)
  }

  package var description: String {
    "\(message) (SQLite \(code)\(sql.isEmpty ? "" : ", in: \(sql.prefix(300))"))"
  }

  /// The error for the operator: it names the database, the failure, and the next step.
  package var asCairnError: CairnError {
    if let refusal { return refusal.asCairnError(path) }
    return ofCode
  }

  private var ofCode: CairnError {
    switch primary {
    case SQLITE_BUSY, SQLITE_LOCKED:
      CairnError(
        .databaseBusy, "another program holds a lock on database \(path): \(message)",
        hint: "end the long transaction, or the connection with locking_mode=EXCLUSIVE, then run again", remedy: .retry)
    case SQLITE_NOTADB:
      CairnError(
        .databaseNotADatabase, "\(path) is not an SQLite database (or it is encrypted)",
        hint: "check the path; 'sqlite3 FILE .schema' must work", remedy: .badInput)
    case SQLITE_READONLY, SQLITE_PERM, SQLITE_AUTH:
      CairnError(
        .databaseReadOnly, "database \(path) cannot be written: \(message)",
        hint:
          "give this user write access to the file and to its folder (for -wal and -shm); a service needs ReadWritePaths= too",
        remedy: .stop)
    case SQLITE_CANTOPEN:
      CairnError(
        .databaseMissing, "database \(path) cannot be opened: \(message)",
        hint:
          "check that the file exists and that this user may read and write it and its folder; a service needs ReadWritePaths= too",
        remedy: .badInput)
    case SQLITE_FULL:
      CairnError(
        .databaseFull, "database \(path) is full: \(message)",
        hint: "free space on its disk (or raise max_page_count) and run again; nothing is lost")
    case SQLITE_CORRUPT:
      CairnError(
        .databaseDamaged, "database \(path) is damaged: \(self)",
        hint:
          "run 'sudo -u OWNER sqlite3 FILE \"PRAGMA integrity_check\"' as the owner of the file, and restore it from a backup"
      )
    case SQLITE_IOERR:
      CairnError(.ioFailed, "cannot read or write \(path): \(self)", hint: "check the disk and the kernel log")
    case SQLITE_CONSTRAINT:
      CairnError(
        .constraintFailed, "a constraint of \(path) refused a row: \(self)",
        hint: "compare the constraints of both tables")
    default:
      CairnError(
        .databaseFailed, "database \(path) failed: \(self)",
        hint: "see the message of SQLite; fix its cause, then run again"
      )
    }
  }
}
