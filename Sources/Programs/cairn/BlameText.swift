import Changes
import Trails

/// The output of `cairn blame`.
struct BlameText {
  private static let valueBytes = 60

  let schema: TableSchema
  let key: String
  let blames: [Blame]
  let infos: [TrailInfo]

  /// The time before which a trail has no changes, because older ones are purged, µs since 1970 UTC; nil if there is no
  /// such time.
  private var since: Int64? { infos.compactMap { $0.segments.first }.filter { $0.number > 1 }.map(\.created).max() }

  /// How far back the trails reach, as the end of a sentence; empty if they have everything.
  var reach: String { since.map { ", which reaches back to \(UTCTime($0)); what is older is purged" } ?? "" }

  /// Returns the write that counts: the latest one. A copy gives way to a write of the same value in another trail.
  private func write(of column: TableSchema.Column) -> Blame.Write? {
    let writes = blames.compactMap { $0[column: column.name] }.sorted { $0.clock > $1.clock }
    guard let last = writes.first, last.kind == .copy else { return writes.first }
    let origin = writes.first { write in
      guard write.kind != .copy, let value = write.value, let copied = last.value else { return false }
      return value.shown(max: .max) == copied.shown(max: .max)
    }
    guard var origin else { return last }
    origin.copied = last.time
    return origin
  }

  // MARK: Text

  var lines: [String] {
    let trails = infos.map(\.name.description).joined(separator: ", ")
    var lines = ["\(schema.fullName) \(key), in \(trails)\(reach)".oneLine]
    let writes = schema.columns.map(write)
    let rows = zip(schema.columns, writes).map { column, write -> [String] in
      guard let write else { return ["  " + column.name.oneLine, "unknown", "", "", unknown] }
      return [
        "  " + column.name.oneLine, write.kind.rawValue, write.value?.shown(max: Self.valueBytes) ?? "",
        "by \(write.node)".oneLine, facts(of: write).oneLine,
      ]
    }
    lines += StatusTable.columns(rows)
    var shown: Set<NameKey> = []
    for write in writes.compactMap(\.self) {
      guard let statement = write.statement, shown.insert("\(write.origin) \(write.transaction) \(statement)").inserted
      else { continue }
      lines.append("  statement of transaction \(write.transaction) of \(write.origin): \(statement)".oneLine)
    }
    return lines
  }

  private var unknown: String {
    if let horizon = blames.compactMap(\.horizon).max() {
      return "not written since the schema change of \(UTCTime(horizon))"
    }
    return since.map { "not written since \(UTCTime($0))" } ?? "not written in the trail"
  }

  private func facts(of write: Blame.Write) -> String {
    var text = "\(UTCTime(write.time))"
    if write.isLate { text += " (time of capture)" }
    text += ", transaction \(write.transaction) of \(write.origin)"
    text += write.origin == write.trail ? " at \(write.position)" : ", in \(write.trail) at \(write.position)"
    if write.mayBeOlder { text += ", or earlier" }
    if let copied = write.copied { text += "; copied \(UTCTime(copied))" }
    return text
  }

  // MARK: JSON

  var json: [String] {
    schema.columns.map { column in
      let write = write(of: column)
      return JSONObject([
        ("table", .text(schema.fullName)), ("key", .text(key)), ("column", .text(column.name)),
        ("kind", write.map { .text($0.kind.rawValue) } ?? .null),
        ("value", write?.value.map { TrailRecordsJSON.json($0) } ?? .null),
        ("node", write.map { .text($0.node) } ?? .null),
        ("time", write.map { .text(UTCTime($0.time).description) } ?? .null),
        ("late", write.map { .bool($0.isLate) } ?? .null),
        ("origin", write.map { .text($0.origin) } ?? .null),
        ("transaction", write.map { .integer(Int64(clamping: $0.transaction)) } ?? .null),
        ("trail", write.map { .text($0.trail) } ?? .null),
        ("position", write.map { .text($0.position.description) } ?? .null),
        ("statement", write?.statement.map { .text($0) } ?? .null),
        ("may_be_older", write.map { .bool($0.mayBeOlder) } ?? .null),
        ("copied", write?.copied.map { .text(UTCTime($0).description) } ?? .null),
        ("trails_since", since.map { .text(UTCTime($0).description) } ?? .null),
      ]).line
    }
  }
}
