import CSQLite
import Changes
import Glibc

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
  /// The functions of Cairn's own statements on such a connection. None takes longer than its arguments are large, and none
  /// makes a larger value.
  ///
  /// All others end their statement with an error, wherever the file calls them: SQLite asks the authorizer for functions of
  /// statements, views and triggers, not for those of indexes, CHECKs, defaults and generated columns, and cannot interrupt
  /// a call. `instr(zeroblob(20000000), zeroblob(10000000))` would take days.
  static let functions: Set<NameKey> = [
    "abs", "coalesce", "count", "ifnull", "iif", "length", "like", "lower", "max", "min", "nullif", "sum", "total",
    "typeof", "upper",
  ]
  /// Functions that reach out of the database.
  private static let reaching: Set<NameKey> = ["load_extension", "fts3_tokenizer", "writefile", "readfile", "edit"]
  /// Functions of SQLite that are denied even if the library does not list what it has.
  static let denied = [
    "->", "->>", "char", "concat", "concat_ws", "date", "datetime", "edit", "format", "fts3_tokenizer", "glob",
    "group_concat", "hex", "instr", "json", "json_array", "json_extract", "json_group_array", "json_group_object",
    "json_insert", "json_object", "json_patch", "json_quote", "json_remove", "json_replace", "json_set", "jsonb",
    "load_extension", "ltrim", "printf", "quote", "random", "randomblob", "readfile", "replace", "rtrim", "soundex",
    "strftime", "string_agg", "substr", "substring", "trim", "unhex", "unistr", "unistr_quote", "writefile", "zeroblob",
  ]
  /// Bytes of a pattern: none of Cairn's is longer, and the time of a match grows with it.
  private static let patternBytes: Int32 = 32

  /// Bytes of one statement, and of one entry of the schema. The triggers of the widest table take some 200 KB.
  private static let sqlBytes: Int32 = 16 << 20
  /// Operations of one prepared statement; SQLite's own limit is fifty times that, and gigabytes.
  private static let operations: Int32 = 5_000_000

  /// A function that ends its statement.
  private final class Denied {
    let name: String
    unowned let code: ForbiddenCode
    init(_ name: String, _ code: ForbiddenCode) { (self.name, self.code) = (name, code) }
  }

  private var refusal: FileRefusal?
  private var functions: [Denied] = []

  /// Must live as long as the connection.
  func watch(_ handle: OpaquePointer) {
    sqlite3_limit(handle, SQLITE_LIMIT_ATTACHED, 0)
    sqlite3_limit(handle, SQLITE_LIMIT_SQL_LENGTH, Self.sqlBytes)
    sqlite3_limit(handle, SQLITE_LIMIT_VDBE_OP, Self.operations)
    sqlite3_limit(handle, SQLITE_LIMIT_LIKE_PATTERN_LENGTH, Self.patternBytes)
    let listed = Self.functions(of: handle)
    for name in Set(Self.denied.map(\.nameKey)).union(listed.keys) where !Self.functions.contains(name) {
      // An extension's function with so many arguments counts before one with any number.
      for count in listed[name, default: []].union([-1]) { deny(function: name.text, arguments: count, handle) }
    }
    sqlite3_set_authorizer(
      handle,
      { context, action, first, second, _, accessor in
        guard let context else { return SQLITE_DENY }
        return Unmanaged<ForbiddenCode>.fromOpaque(context).takeUnretainedValue().judge(action, first, second, accessor)
      }, Unmanaged.passUnretained(self).toOpaque())
  }

  /// The numbers of arguments of all functions of the connection, by name.
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

  /// Puts a function that ends its statement in the place of one of SQLite's; -1: for any number of arguments.
  ///
  /// SQLite looks for a program's function first. It counts as harmless and deterministic, or SQLite could not read the
  /// schema of a file whose indexes call it.
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
