import CSQLite
import SystemKit

/// Interrupts the reading of a schema that would take too much memory or time.
///
/// SQLite parses all definitions of a file before the first statement, and again after each change of the schema. A
/// small file can have many long ones, because the rows of `sqlite_master` can share their pages.
///
/// Source: https://sqlite.org/c3ref/trace_v2.html
final class SchemaLimit {
  /// The maximum size of one definition, in bytes. The triggers of the widest table need some 200 KB.
  static let definitionBytesMax = 1 << 20
  /// The maximum memory of a connection's schema, in bytes. A captured table of ten columns takes some 37 KB.
  static let bytesMax = 128 << 20
  /// After as many bytes of text the memory is measured. Each byte takes up to some 60.
  private static let step = 256 << 10
  /// The columns of `sqlite_master`. SQLite keeps no text of the statement by which it reads them.
  private static let columnCount: Int32 = 5

  private var unmeasured = 0
  /// The size of the definitions that SQLite has read by one statement so far, in bytes.
  private var read: Int64 = 0
  /// The instructions that this statement had executed at its last row.
  private var instructions: Int32 = 0
  private var refusal: FileRefusal?

  /// Watches a connection, which this object must outlive.
  func watch(_ handle: OpaquePointer) {
    sqlite3_trace_v2(
      handle, UInt32(SQLITE_TRACE_ROW),
      { _, context, statement, _ in
        guard let context, let statement else { return 0 }
        Unmanaged<SchemaLimit>.fromOpaque(context).takeUnretainedValue().look(OpaquePointer(statement))
        return 0
      }, Unmanaged.passUnretained(self).toOpaque())
  }

  // Called for each row of each statement, before the row is used.
  private func look(_ statement: OpaquePointer) {
    guard sqlite3_sql(statement) == nil, sqlite3_column_count(statement) == Self.columnCount else { return }
    let bytes = Int(sqlite3_column_bytes(statement, 4))
    unmeasured += bytes
    let handle = sqlite3_db_handle(statement)
    // The count grows within a statement, so a count that has not grown is that of another reading.
    let count = sqlite3_stmt_status(statement, SQLITE_STMTSTATUS_VM_STEP, 0)
    if count <= instructions { read = 0 }
    (read, instructions) = (read + Int64(bytes) + Self.rowBytes, count)
    Pulse.beat()
    if read > Self.textBytesMax {
      refusal = .schema(Self.tooMuchText)
      return sqlite3_interrupt(handle)
    }
    if bytes > Self.definitionBytesMax {
      refusal = .schema("a definition has more than \(Self.definitionBytesMax >> 20) MiB")
      return sqlite3_interrupt(handle)
    }
    guard unmeasured >= Self.step, let handle else { return }
    unmeasured = 0
    guard Self.bytes(of: handle) > Self.bytesMax else { return }
    refusal = .schema("its definitions take more than \(Self.bytesMax >> 20) MiB of memory")
    sqlite3_interrupt(handle)
  }

  /// Returns the memory that the schema of a connection takes.
  static func bytes(of handle: OpaquePointer) -> Int {
    var (now, highest): (Int32, Int32) = (0, 0)
    sqlite3_db_status(handle, SQLITE_DBSTATUS_SCHEMA_USED, &now, &highest, 0)
    return Int(now)
  }

  func takeRefusal() -> FileRefusal? {
    defer { refusal = nil }
    return refusal
  }

  /// The maximum size of all definitions of a file, in bytes. They are kept together. The parsed schema has no comments,
  /// so it can be small although SQLite reads definitions that share their pages for minutes.
  static let textBytesMax: Int64 = 32 << 20
  /// The bytes that each row of `sqlite_master` counts in addition to its definition, which it may lack.
  private static let rowBytes: Int64 = 64
  private static let tooMuchText = "its definitions have more than \(textBytesMax >> 20) MiB"

  /// Throws `database-unsafe` if the texts of all definitions do not fit into memory together. The
  /// memory of the parsed schema does not count comments.
  static func checkTexts(_ database: Database) throws {
    var bytes: Int64 = 0
    try database.forEachRow("SELECT length(CAST(sql AS BLOB)) FROM sqlite_master WHERE sql IS NOT NULL") { row in
      if case .integer(let size) = row[0] { bytes += size }
      guard bytes <= Self.textBytesMax else {
        throw FileRefusal.schema(Self.tooMuchText).asCairnError(database.path)
      }
    }
  }
}
