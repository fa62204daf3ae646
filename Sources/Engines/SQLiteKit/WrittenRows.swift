import CSQLite
import CShims
import Changes

/// Reports the rows that a statement inserts or updates, while it writes them (`sqlite3_preupdate_hook`).
///
/// Source: https://sqlite.org/c3ref/preupdate_blobwrite.html
package final class WrittenRows {
  /// Whether the loaded SQLite library can report written rows (`sqlite3_preupdate_hook`).
  package static let areTold = cairn_tells_written() != 0

  private let database: Database
  private let row: (borrowing WrittenRows) -> Void

  private init(_ database: Database, _ row: @escaping (borrowing WrittenRows) -> Void) {
    (self.database, self.row) = (database, row)
  }

  /// Calls `row` for each row that is written to a table while `body` runs, except rows that triggers write.
  package static func watch(
    _ database: Database, _ table: String, row: @escaping (borrowing WrittenRows) -> Void, _ body: () throws -> Void
  ) rethrows {
    let rows = WrittenRows(database, row)
    try withExtendedLifetime(rows) {
      try table.withCString { name in
        var watch = cairn_written_watch(table: name, context: Unmanaged.passUnretained(rows).toOpaque()) { context in
          guard let context else { return }
          let rows = Unmanaged<WrittenRows>.fromOpaque(context).takeUnretainedValue()
          rows.row(rows)
        }
        try withUnsafeMutablePointer(to: &watch) { watch in
          cairn_watch_written(database.handle, watch)
          defer { cairn_watch_written(database.handle, nil) }
          try body()
        }
      }
    }
  }

  /// Appends a column's value in the written row to an image; NULL if SQLite does not report it.
  ///
  /// - Parameter isReal: Whether integers are encoded as reals, because SQLite stores whole numbers of a real column as
  ///   integers.
  package func encode(_ column: Int, isReal: Bool, into writer: inout ByteWriter) {
    let value = cairn_written_value(database.handle, Int32(column))
    switch sqlite3_value_type(value) {
    case SQLITE_INTEGER:
      isReal ? writer.appendReal(sqlite3_value_double(value)) : writer.appendInteger(sqlite3_value_int64(value))
    case SQLITE_FLOAT: writer.appendReal(sqlite3_value_double(value))
    case SQLITE_TEXT:
      let start = sqlite3_value_text(value)
      writer.appendText(UnsafeRawBufferPointer(start: start, count: Int(sqlite3_value_bytes(value))))
    case SQLITE_BLOB:
      let start = sqlite3_value_blob(value)
      writer.appendBlob(UnsafeRawBufferPointer(start: start, count: Int(sqlite3_value_bytes(value))))
    default: writer.appendNull()
    }
  }
}
