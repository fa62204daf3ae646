import Applying
import Changes
import Conflicts
import Endpoints

/// Formats conflicts, as text and as JSON.
enum ConflictText {
  static func line(_ record: ConflictRecord) -> String {
    let parts = [
      "  #\(record.id)", moment(record.at), record.kind.rawValue, "\(record.fullName) (\(record.key.shown))",
      "\(record.rule): \(outcome(record))", "with \(record.trail) \(record.number)",
    ]
    return parts.joined(separator: "  ") + (state(record).map { "  [\($0)]" } ?? "")
  }

  /// Returns a line about a waiting row.
  static func line(_ row: WaitingRows.Row) -> String {
    let values = row.holders.map { "\($0.values.shown), which \(row.table) (\($0.key.shown)) has" }
    let cause = values.isEmpty ? "a unique value" : values.joined(separator: "; ")
    let since = row.since.map { "  since \(moment($0))" } ?? ""
    return "  \(row.table) (\(row.key.shown))  waits for \(cause)\(since)  \(row.row.json)".oneLine
  }

  static func json(_ row: WaitingRows.Row, _ url: DatabaseURL) -> String {
    JSONObject([
      ("database", .text(url.place)), ("table", .text(row.table)), ("key", .object(row.key.object)),
      ("row", .object(row.row.object)), ("since", row.since.map { .text(moment($0)) } ?? .null),
      (
        "waits_for",
        .list(
          row.holders.map {
            .object(JSONObject([("values", .object($0.values.object)), ("held_by", .object($0.key.object))]))
          })
      ),
    ]).line
  }

  /// Returns the details of a conflict, with both versions of the row.
  static func whole(_ record: ConflictRecord, _ url: DatabaseURL) -> String {
    var lines = [
      "conflict \(record.id) of \(url.place)", "  met       \(moment(record.at))",
      "  kind      \(record.kind.rawValue)",
      "  table     \(record.fullName)", "  key       \(record.key.shown)",
      "  incoming  transaction \(record.number) of \(record.trail), made \(moment(Int64(clamping: record.clock))), at \(record.position)",
    ]
    if let other = record.other {
      lines.append(
        "  local     transaction \(other.number) of \(other.origin), made \(moment(Int64(clamping: other.clock)))")
    }
    lines.append("  rule      \(record.rule): \(outcome(record))")
    if let state = state(record) { lines.append("  state     \(state)") }
    let sides = [
      ("before", record.before, "not known"), ("local", record.local, "not there"),
      ("incoming", record.incoming, "not there"), ("settled", record.settled, "not there"),
    ]
    var names: [String] = []
    for row in sides.compactMap(\.1) {
      for column in row.columns where !names.contains(column.name) { names.append(column.name) }
    }
    lines += table(
      [[""] + sides.map(\.0)]
        + names.map { name in
          [name] + sides.map { side in side.1.map { $0[name]?.shown ?? "" } ?? "" }
        } + (sides.contains { $0.1 == nil } ? [[""] + sides.map { $0.1 == nil ? "(\($0.2))" : "" }] : []))
    return lines.map(\.oneLine).joined(separator: "\n")
  }

  static func json(_ record: ConflictRecord, _ url: DatabaseURL) -> String {
    func number(_ n: UInt64) -> JSONObject.Value { .integer(Int64(clamping: n)) }
    func row(_ row: ConflictRow?) -> JSONObject.Value { row.map { .object($0.object) } ?? .null }
    return JSONObject([
      ("database", .text(url.place)), ("number", .integer(record.id)), ("at", .text(moment(record.at))),
      ("kind", .text(record.kind.rawValue)), ("table", .text(record.fullName)), ("key", .object(record.key.object)),
      ("trail", .text(record.trail.description)), ("position", .text(record.position.description)),
      ("transaction", number(record.number)), ("clock", .text(moment(Int64(clamping: record.clock)))),
      ("other_trail", record.other.map { .text($0.origin) } ?? .null),
      ("other_transaction", record.other.map { number($0.number) } ?? .null),
      ("other_clock", record.other.map { .text(moment(Int64(clamping: $0.clock))) } ?? .null),
      ("rule", .text(record.rule)), ("winner", .text(record.winner.rawValue)), ("before", row(record.before)),
      ("local", row(record.local)), ("incoming", row(record.incoming)), ("settled", row(record.settled)),
      ("overturned_at", record.overturnedAt.map { .text(moment($0)) } ?? .null),
    ]).line
  }

  private static func moment(_ microseconds: Int64) -> String { UTCTime(microseconds).description }

  private static func outcome(_ record: ConflictRecord) -> String {
    record.winner == .merged ? "both are merged" : "the \(record.winner.rawValue) version won"
  }

  private static func state(_ record: ConflictRecord) -> String? {
    if let at = record.overturnedAt { return "overturned \(moment(at))" }
    return record.rule.split(separator: ",").contains { $0.filter { $0 != " " } == ConflictRules.Rule.ask.text }
      ? "open" : nil
  }

  /// Returns the lines of a table with aligned columns.
  private static func table(_ rows: [[String]]) -> [String] {
    guard let first = rows.first else { return [] }
    let widths = first.indices.map { index in rows.map { $0[index].count }.max() ?? 0 }
    return rows.map { row in
      let cells = zip(row, widths).map { $0 + String(repeating: " ", count: $1 - $0.count) }
      return String(("  " + cells.joined(separator: "  ")).reversed().drop { $0 == " " }.reversed())
    }
  }
}
