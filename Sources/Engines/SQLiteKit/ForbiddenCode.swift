import CSQLite
import Changes
import Glibc

/// Denies the actions that a hostile file can cause, such as views in place of tables or access to other files.
///
/// Source: https://sqlite.org/c3ref/set_authorizer.html
final class ForbiddenCode {
  private static let pragmas: Set<NameKey> = [
    "schema_version", "journal_mode", "table_xinfo", "index_list", "index_xinfo", "index_info", "foreign_key_list",
    "quick_check", "user_version", "table_info", "encoding",
    "data_version", "page_count", "page_size", "cache_size",
  ]
  /// The SQL functions that stay allowed, because Cairn's own statements use them.
  static let functions: Set<NameKey> = [
    "abs", "coalesce", "count", "ifnull", "iif", "length", "like", "lower", "max", "min", "nullif", "sum", "total",
    "typeof", "upper",
  ]
  // Functions that reach outside of the database.
  static let reaching: Set<NameKey> = ["load_extension", "fts3_tokenizer", "writefile", "readfile", "edit"]
  static let denied = [
    "->", "->>", "char", "concat", "concat_ws", "date", "datetime", "edit", "format", "fts3_tokenizer", "glob",
    "group_concat", "hex", "instr", "json", "json_array", "json_extract", "json_group_array", "json_group_object",
    "json_insert", "json_object", "json_patch", "json_quote", "json_remove", "json_replace", "json_set", "jsonb",
    "load_extension", "ltrim", "printf", "quote", "random", "randomblob", "readfile", "replace", "rtrim", "soundex",
    "strftime", "string_agg", "substr", "substring", "trim", "unhex", "unistr", "unistr_quote", "writefile", "zeroblob",
  ]
  // Bytes: no pattern of Cairn is longer, and the time of a match grows with the length.
  private static let patternBytes: Int32 = 32

  // Bytes: the triggers of the widest table need some 200 KB.
  private static let sqlBytes: Int32 = 16 << 20
  // SQLite's own limit is 50 times as high, and can need gigabytes.
  private static let operations: Int32 = 5_000_000

  /// A function in place of a denied SQL function: it ends the calling statement with an error.
  private final class Denied {
    let name: String
    unowned let code: ForbiddenCode
    init(_ name: String, _ code: ForbiddenCode) { (self.name, self.code) = (name, code) }
  }

  private var refusal: FileRefusal?
  private var functions: [Denied] = []

  /// Guards a connection by limits, denied functions and an authorizer. The guard must outlive the connection.
  func watch(_ handle: OpaquePointer) {
    sqlite3_limit(handle, SQLITE_LIMIT_ATTACHED, 0)
    sqlite3_limit(handle, SQLITE_LIMIT_SQL_LENGTH, Self.sqlBytes)
    sqlite3_limit(handle, SQLITE_LIMIT_VDBE_OP, Self.operations)
    sqlite3_limit(handle, SQLITE_LIMIT_LIKE_PATTERN_LENGTH, Self.patternBytes)
    let listed = Self.functions(of: handle)
    for name in Set(Self.denied.map(\.nameKey)).union(listed.keys) where !Self.functions.contains(name) {
      // An extension's function with an exact number of arguments takes precedence over one with any number.
      for count in listed[name, default: []].union([-1]) { deny(function: name.text, arguments: count, handle) }
    }
    sqlite3_set_authorizer(
      handle,
      { context, action, first, second, _, accessor in
        guard let context else { return SQLITE_DENY }
        return Unmanaged<ForbiddenCode>.fromOpaque(context).takeUnretainedValue().judge(action, first, second, accessor)
      }, Unmanaged.passUnretained(self).toOpaque())
  }

  // The numbers of arguments that each function takes, by name.
  private static func functions(of handle: OpaquePointer) -> [NameKey: Set<Int32>] {
    var found: [NameKey: Set<Int32>] = [:]
    withUnsafeMutablePointer(to: &found) { found in
      _ = sqlite3_exec(
        handle, "PRAGMA function_list",
        { context, count, values, _ in
          guard let found = context?.assumingMemoryBound(to: [NameKey: Set<Int32>].self), count > 4,
            let name = values?[0], let arguments = values?[4]
          else { return 0 }
          found.pointee[String(cString: name).asciiLowercased.nameKey, default: []].insert(Int32(atoi(arguments)))
          return 0
        }, found, nil)
    }
    return found
  }

  // The new function is declared harmless and deterministic. Otherwise SQLite could not read the schema of a file whose
  // indexes call it.
  private func deny(function name: String, arguments: Int32, _ handle: OpaquePointer) {
    let function = Denied(name, self)
    functions.append(function)
    sqlite3_create_function_v2(
      handle, name, arguments, SQLITE_UTF8 | SQLITE_DETERMINISTIC | SQLITE_INNOCUOUS,
      Unmanaged.passUnretained(function).toOpaque(),
      { context, _, _ in
        guard let data = sqlite3_user_data(context) else { return }
        let function = Unmanaged<Denied>.fromOpaque(data).takeUnretainedValue()
        function.code.refusal = .foreignCode("\(function.name)()")
        sqlite3_result_error(context, "a function that Cairn does not run", -1)
      }, nil, nil, nil)
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
      return Self.reaching.contains(name) ? deny("\(name)()") : SQLITE_OK
    default: return SQLITE_OK
    }
  }

  private func deny(_ what: String) -> Int32 {
    refusal = .foreignCode(what)
    return SQLITE_DENY
  }
}
