import Changes

/// The functions of SQLite whose value depends only on their arguments.
///
/// Source: https://sqlite.org/lang_corefunc.html
enum Functions {
  enum Result {
    case storage(Storage?)
    /// The value is one of the arguments, but none of the first `besides` ones: 1 for `iif(x, a, b)`.
    case ofArguments(besides: Int)
  }

  static let scalar: [NameKey: Result] = [
    "abs": .ofArguments(besides: 0), "coalesce": .ofArguments(besides: 0), "ifnull": .ofArguments(besides: 0),
    "iif": .ofArguments(besides: 1), "length": .storage(.integer), "likely": .ofArguments(besides: 0),
    "lower": .storage(.text), "ltrim": .storage(.text), "nullif": .storage(nil), "round": .storage(.real),
    "rtrim": .storage(.text), "sign": .storage(nil), "substr": .storage(nil), "substring": .storage(nil),
    "trim": .storage(.text), "typeof": .storage(.text), "unicode": .storage(.integer),
    "unlikely": .ofArguments(besides: 0), "upper": .storage(.text),
  ]

  /// The functions whose value may be much longer than their arguments, or whose one call may take minutes.
  private static let growing: Set<NameKey> = [
    "char", "format", "glob", "hex", "instr", "like", "printf", "quote", "replace", "unhex", "zeroblob",
  ]

  static let dates: Set<NameKey> = ["date", "time", "datetime", "julianday", "unixepoch", "strftime"]

  /// Returns the reason why a statement that calls this function is not executed at the target.
  static func reason(_ name: String) -> String {
    switch name {
    case "random", "randomblob": "\(name)() gives another value each time"
    case "changes", "total_changes", "last_insert_rowid": "\(name)() depends on what the connection did before"
    case _ where growing.contains(name.nameKey): "a call of \(name)() may take long, or much memory"
    case "group_concat", "string_agg", "json_group_array", "json_group_object":
      "the order in which \(name)() finds its rows is not said"
    case "avg", "total": "the sum of reals depends on the order of rows"
    case "row_number", "rank", "dense_rank", "lag", "lead", "first_value", "last_value": "it has window functions"
    default: "\(name)() is not known to depend on its arguments alone"
    }
  }
}
