import Changes
import Endpoints
import SystemKit
import Trails

/// `cairn trail list`: prints the trails of one state folder, or of all state folders. Reads no records.
enum TrailListing {
  /// Prints the trails. Throws the error of an unreadable trail after all other trails are printed.
  static func run(state: String?, asJSON: Bool) throws -> Int32 {
    let entries = try StateFolders.entries(in: state)
    var failure: (any Error)?
    for entry in entries {
      do {
        let info = try Trail.info(folder: entry.folder)
        let readers = try readers(of: info)
        Terminal.page(asJSON ? json(info, readers) : text(info) + text(readers))
      } catch { failure = failure ?? error }
    }
    if let failure { throw failure }
    if entries.isEmpty, !asJSON { Terminal.note("no trails in \(state ?? StateFolders.base())") }
    return 0
  }

  /// Returns the `cairn replicate` processes that read a trail; empty for a trail of a daemon.
  private static func readers(of info: TrailInfo) throws -> [TrailReaders.Reader] {
    let place = Folder.parent(of: info.folder)
    guard let ends = try StateFolder.ends(of: place) else { return [] }
    return try TrailReaders(CaptureHome(place: place, trail: info.name), source: ends.from).all()
  }

  private static func text(_ readers: [TrailReaders.Reader]) -> String {
    readers.map { reader in
      let kept = reader.segment == 0 ? "from its beginning" : "from segment \(reader.segment.hex(8))"
      return "\n  reader        \(reader.target), needs it \(kept), last active \(UTCTime(reader.seenAt))"
    }.joined()
  }

  private static func json(_ readers: [TrailReaders.Reader]) -> JSONObject.Value {
    .list(
      readers.map { reader in
        .object(
          JSONObject([
            ("target", .text(reader.target)), ("state", .text(reader.state)),
            ("segment", number(reader.segment)), ("seen", .text(UTCTime(reader.seenAt).description)),
          ]))
      })
  }

  private static func json(_ info: TrailInfo, _ readers: [TrailReaders.Reader]) -> String {
    JSONObject([
      ("trail", .text(info.name.description)), ("id", .text(info.id.description)), ("folder", .text(info.folder)),
      ("segments", .integer(Int64(info.segments.count))), ("bytes", .integer(Int64(clamping: info.bytes))),
      ("first", .text(info.firstPosition.description)), ("end", .text(info.end.position.description)),
      ("chain", .text(info.end.chain.description)),
      ("first_transaction", number(first(info))), ("last_transaction", number(info.lastTransaction)),
      ("transactions", number(count(info))),
      ("begun", info.segments.first.map { .text(UTCTime($0.created).description) } ?? .null),
      ("last_segment_begun", info.segments.last.map { .text(UTCTime($0.created).description) } ?? .null),
      ("readers", json(readers)),
    ]).line
  }

  private static func number(_ n: UInt64) -> JSONObject.Value { .integer(Int64(clamping: n)) }

  private static func first(_ info: TrailInfo) -> UInt64 { info.segments.first?.firstTransaction ?? 1 }

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
