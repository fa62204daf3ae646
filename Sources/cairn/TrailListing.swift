import Changes
import Operating
import Trails

/// The trails of one state folder, or of all of them, with what can be told without reading their records.
enum TrailListing {
  /// One that cannot be read does not hide the others: its error comes last.
  static func run(state: String?, asJSON: Bool) throws -> Int32 {
    let entries = try StateFolders.entries(in: state)
    var failure: (any Error)?
    for entry in entries {
      do {
        let info = try Trail.info(folder: entry.folder)
        Terminal.page(asJSON ? json(info) : text(info))
      } catch { failure = failure ?? error }
    }
    if let failure { throw failure }
    if entries.isEmpty, !asJSON { Terminal.note("no trails in \(state ?? StateFolders.base())") }
    return 0
  }

  private static func json(_ info: TrailInfo) -> String {
    JSONObject([
      ("trail", .text(info.name.description)), ("id", .text(info.id.description)), ("folder", .text(info.folder)),
      ("segments", .integer(Int64(info.segments.count))), ("bytes", .integer(Int64(clamping: info.bytes))),
      ("first", .text(info.firstPosition.description)), ("end", .text(info.end.position.description)),
      ("chain", .text(info.end.chain.description)),
      ("first_transaction", number(first(info))), ("last_transaction", number(info.lastTransaction)),
      ("transactions", number(count(info))),
      ("begun", info.segments.first.map { .text(UTCTime($0.created).description) } ?? .null),
      ("last_segment_begun", info.segments.last.map { .text(UTCTime($0.created).description) } ?? .null),
    ]).line
  }

  private static func number(_ n: UInt64) -> JSONObject.Value { .integer(Int64(clamping: n)) }

  private static func first(_ info: TrailInfo) -> UInt64 { info.segments.first?.firstTransaction ?? 1 }

  /// Of the transactions that the trail still holds.
  private static func count(_ info: TrailInfo) -> UInt64 {
    info.lastTransaction >= first(info) ? info.lastTransaction - first(info) + 1 : 0
  }

  private static func text(_ info: TrailInfo) -> String {
    let count = count(info)
    let transactions = count == 0 ? "none" : "\(count), from \(first(info)) to \(info.lastTransaction)"
    let begun = info.segments.first.map { ", since \(UTCTime($0.created))" } ?? ""
    return """
      \(info.name)
        id            \(info.id)
        folder        \(info.folder)
        segments      \(info.segments.count), \(TrailCommand.byteCount(info.bytes))\(begun)
        positions     \(info.firstPosition) to \(info.end.position)
        transactions  \(transactions)
      """
  }
}
