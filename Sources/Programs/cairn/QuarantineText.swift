import Applying
import Changes
import Endpoints

/// Formats transactions in quarantine, as text and as JSON.
enum QuarantineText {
  /// Returns one line of text about a transaction in quarantine.
  static func line(_ one: QuarantinedTransaction) -> String {
    let parts = [
      "  #\(one.id)", UTCTime(one.at).description, "transaction \(one.number) of \(one.trail)",
      "\(one.writeSet.changeCount.counted("row")) in \(one.tables.joined(separator: ", "))",
      one.heldBy.map { "waits for #\($0)" } ?? "[\(one.code)] \(one.message.firstLine)",
    ]
    return parts.joined(separator: "  ") + (one.wish.map { "  [\($0.rawValue) asked]" } ?? "")
  }

  /// Returns the details of a transaction in quarantine.
  /// - Parameter waiting: The numbers of the transactions that depend on this one.
  /// - Parameter state: The state folder that has the trail; nil for the default.
  static func whole(
    _ one: QuarantinedTransaction, _ url: DatabaseURL, _ waiting: [Int64], state: String?
  ) -> String {
    var lines = [
      "quarantine \(one.id) of \(url.place)", "  since        \(UTCTime(one.at))",
      "  transaction  \(one.number) of \(one.trail), at \(one.position)",
      "  rows         \(one.writeSet.changeCount)", "  tables       \(one.tables.joined(separator: ", "))",
      "  why          [\(one.code)] \(one.message)", "  what to do   \(one.hint)",
    ]
    if let holder = one.heldBy { lines.append("  waits for    \(holder)") }
    if !waiting.isEmpty { lines.append("  holds        \(waiting.map(String.init).joined(separator: ", "))") }
    if let wish = one.wish { lines.append("  asked for    \(wish.rawValue)") }
    let place = state.map { " --state \($0.shellWord)" } ?? ""
    lines.append("  its changes: cairn trail show \(one.trail)\(place) --from \(one.border.position)")
    return lines.map(\.oneLine).joined(separator: "\n")
  }

  static func json(_ one: QuarantinedTransaction, _ url: DatabaseURL) -> String {
    JSONObject([
      ("database", .text(url.place)), ("number", .integer(one.id)), ("at", .text(UTCTime(one.at).description)),
      ("trail", .text(one.trail.description)), ("transaction", .integer(Int64(clamping: one.number))),
      ("position", .text(one.position.description)), ("rows", .integer(Int64(one.writeSet.changeCount))),
      ("tables", .list(one.tables.map { .text($0) })), ("code", .text(one.code)), ("message", .text(one.message)),
      ("hint", .text(one.hint)), ("held_by", one.heldBy.map { .integer($0) } ?? .null),
      ("wanted", one.wish.map { .text($0.rawValue) } ?? .null),
    ]).line
  }
}
