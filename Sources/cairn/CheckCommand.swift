import Capturing
import Changes
import Operating
import SQLiteKit

/// `cairn check`: what would be captured, how, and what stands in the way.
struct CheckCommand: Command {
  static let name = "check"
  static let summary = "look at a source and a target before replicating"
  static let operands = "--from URL [--to URL]"
  static let options = [
    Option("--from", "URL", "the source"),
    Option("--to", "URL", "the target"),
    Option("--tables", "PATTERN,...", "tables to take (default: all)"),
    Option.json,
  ]
  static let details = """
    Says of every table by what its rows are told apart, whether it can be captured, and why not. Writes nothing.
    Exits 0 when replication can start, else with the status of the first error.

    example: cairn check --from sqlite:shop.db --to sqlite:copy.db
    """

  static func run(_ arguments: Arguments) throws -> Int32 {
    _ = try arguments.operands(0...0)
    let path = try DatabaseURL(arguments.required("--from")).sqlitePath()
    let patterns = TablePatterns((arguments.value("--tables") ?? "*").split(separator: ",").map(String.init))
    let source = try Ends.open(path, mode: .readWrite)
    let isJSON = arguments.has("--json")
    let mode = try source.text("PRAGMA journal_mode") ?? "?"
    say(
      isJSON,
      "\(path): journal mode \(mode)\(mode == "wal" ? "" : "; in WAL mode programs would not wait for our reads")",
      [("event", .text("source")), ("database", .text(path)), ("journal_mode", .text(mode))])
    if let owner = try Journal(source).owner() {
      say(
        isJSON, "\(path): captured already, state in \(owner.place)",
        [("event", .text("captured")), ("state", .text(owner.place)), ("trail_id", .text(owner.trail.description))])
    }
    var count = 0
    for table in try source.userTables() where patterns.includes(table.name) {
      if table.refusal == nil { count += 1 }
      say(
        isJSON, "table \(table.name): \(table.refusal.map { "not captured: \($0)" } ?? identity(of: table))",
        [
          ("event", .text("table")), ("table", .text(table.name)), ("captured", .bool(table.refusal == nil)),
          ("identity", .text(table.refusal ?? identity(of: table))),
        ])
    }
    guard count > 0 else {
      throw CairnError(
        .noTables, "\(path) has no table that could be captured", hint: "create a table first, or look at --tables",
        remedy: .badInput)
    }
    if let to = arguments.value("--to") {
      let target = try DatabaseURL(to)
      try Replication(from: .sqlite(path: path), to: target, options: .init(), notice: { _ in }).checkTarget(patterns)
      say(isJSON, "\(try target.sqlitePath()): can be written", [("event", .text("target")), ("ok", .bool(true))])
    }
    return 0
  }

  private static func identity(of table: SQLiteTable) -> String {
    if table.schema.flags.contains(.wholeRow) {
      return "no key: rows are told apart by all their columns, which is slow"
    }
    let names = table.schema.key.map { table.schema.columns[$0].name }.joined(separator: ", ")
    return table.schema.flags.contains(.nullableKey)
      ? "key \(names), which may be NULL: such rows are told apart by all their columns" : "key \(names)"
  }

  private static func say(_ isJSON: Bool, _ text: String, _ members: [(String, JSONObject.Value)]) {
    Terminal.print(isJSON ? JSONObject(members).line : text)
  }
}
