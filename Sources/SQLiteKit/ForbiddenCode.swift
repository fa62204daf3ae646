import CSQLite
import Changes

/// Denies what a database may hold to make a connection act that reads its tables: views and triggers in the place of
/// tables, other files, settings that undo the hardening.
///
/// Example: the file's program replaces table `cairn_control` by a view that never ends. Reading it is
/// ``SQLiteError`` with SQLITE_AUTH and ``FileRefusal/foreignCode(_:)`` instead of an endless loop.
///
/// Source: https://sqlite.org/c3ref/set_authorizer.html
final class ForbiddenCode {
  /// Settings that capture reads; whatever it sets, it sets before.
  private static let pragmas: Set<NameKey> = [
    "schema_version", "journal_mode", "table_xinfo", "index_list", "index_xinfo", "index_info", "foreign_key_list",
    "quick_check", "user_version", "table_info", "encoding",
    "data_version", "page_count", "page_size",
  ]
  private static let functions: Set<NameKey> = ["load_extension", "fts3_tokenizer", "writefile", "readfile", "edit"]

  /// Bytes of one statement, and of one entry of the schema. The triggers of the widest table take some 200 KB.
  private static let sqlBytes: Int32 = 16 << 20
  /// Operations of one prepared statement; SQLite's own limit is fifty times that, and gigabytes.
  private static let operations: Int32 = 5_000_000

  private var refusal: FileRefusal?

  /// Must live as long as the connection.
  func watch(_ handle: OpaquePointer) {
    sqlite3_limit(handle, SQLITE_LIMIT_ATTACHED, 0)
    sqlite3_limit(handle, SQLITE_LIMIT_SQL_LENGTH, Self.sqlBytes)
    sqlite3_limit(handle, SQLITE_LIMIT_VDBE_OP, Self.operations)
    sqlite3_set_authorizer(
      handle,
      { context, action, first, second, _, accessor in
        guard let context else { return SQLITE_DENY }
        return Unmanaged<ForbiddenCode>.fromOpaque(context).takeUnretainedValue().judge(action, first, second, accessor)
      }, Unmanaged.passUnretained(self).toOpaque())
  }

  func takeRefusal() -> FileRefusal? {
    defer { refusal = nil }
    return refusal
  }

  private func judge(
    _ action: Int32, _ first: UnsafePointer<CChar>?, _ second: UnsafePointer<CChar>?,
    _ accessor: UnsafePointer<CChar>?
  ) -> Int32 {
    if let accessor { return deny(String(cString: accessor)) }
    switch action {
    case SQLITE_ATTACH, SQLITE_DETACH: return deny("ATTACH")
    case SQLITE_CREATE_VTABLE, SQLITE_DROP_VTABLE, SQLITE_CREATE_VIEW, SQLITE_DROP_VIEW:
      return deny(first.map { String(cString: $0) } ?? "")
    case SQLITE_PRAGMA:
      let name = first.map { String(cString: $0).asciiLowercased } ?? ""
      return Self.pragmas.contains(name) ? SQLITE_OK : deny("PRAGMA \(name)")
    case SQLITE_FUNCTION:
      let name = second.map { String(cString: $0).asciiLowercased } ?? ""
      return Self.functions.contains(name) ? deny("\(name)()") : SQLITE_OK
    default: return SQLITE_OK
    }
  }

  private func deny(_ what: String) -> Int32 {
    refusal = .foreignCode(what)
    return SQLITE_DENY
  }
}
