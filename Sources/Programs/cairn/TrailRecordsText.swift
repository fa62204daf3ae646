import Changes
import Trails

/// `cairn trail show`: prints one line for each record.
struct TrailRecordsText {
  private static let textMax = 200
  private static let blobMax = 32

  func run(_ extract: TrailExtract) throws -> Int32 {
    try TrailOutput.printing { output in
      try extract.read { record, reader in
        output.line(try Self.line(record, reader.position, 0, reader.schema))
      }
    }
    return 0
  }

  static func line(
    _ record: Record, _ position: Position, _ transaction: UInt64, _ schema: (UInt64) -> TableSchema?
  ) throws -> String {
    // Names of tables and columns come from the trail, so they may contain line breaks.
    "\(position)  \(try line(record, schema).oneLine)"
  }

  private static func line(_ record: Record, _ schema: (UInt64) -> TableSchema?) throws -> String {
    switch record {
    case .begin(let header): return begin(header)
    case .commit(let number, let changes):
      return "commit \(number): \(changes.counted("change"))"
    case .schema(let id, let schema): return "  schema \(id) of \(schema.name): \(columns(schema))"
    case .change(let change): return "  " + (try self.change(change, schema(change.schemaID)))
    case .refresh(let refresh): return "  " + self.refresh(refresh, schema(refresh.schemaID))
    case .refreshRow(let id, let image):
      let schema = schema(id)
      return "    row \(name(schema, id)): \(values(try image.values(), schema))"
    case .waitingRow(let row):
      let schema = schema(row.schemaID)
      let origin = row.origin.isEmpty ? "" : ", of \(row.origin) \(row.number)"
      return "    waiting row \(name(schema, row.schemaID)): \(values(try row.image.values(), schema))\(origin)"
    case .ddl(let ddl): return "  " + self.ddl(ddl, schema)
    case .progress(let source, let time):
      return "  progress at \(UTCTime(time)), source position of \(source.count.counted("byte"))"
    case .marker(_, let text): return "  marker: \(shown(text))"
    case .sequence(let sequence):
      return "  sequence \(shown(sequence.namespace)).\(shown(sequence.name)): \(sequence.last)"
    case .statement(let statement): return "  " + (try self.statement(statement.executed()))
    case .statementEnd(let end):
      return
        "  statement ends: \(end.digest.written.counted("row")) written, \(end.digest.gone) deleted, digest \(end.digest.hex)"
    case .reserved(let kind, let bytes): return "  record of kind \(kind), \(bytes.count.counted("byte"))"
    }
  }

  private static func begin(_ header: TransactionHeader) -> String {
    var line = "transaction \(header.number) at \(UTCTime(header.commitTime))"
    if header.flags.contains(.group) { line += ", a group of whole transactions" }
    if header.flags.contains(.late) { line += ", time of capture" }
    for dependency in header.dependencies { line += ", after \(dependency.origin) \(dependency.number)" }
    return line
  }

  private static func columns(_ schema: TableSchema) -> String {
    let columns = schema.columns.map { column in
      let type = column.declaredType.isEmpty ? "" : " " + column.declaredType
      return "\(column.name)\(type)\(column.keyOrdinal > 0 ? " (key)" : "")"
    }
    return columns.joined(separator: ", ") + (schema.flags.contains(.wholeRow) ? "; no key" : "")
  }

  private static func name(_ schema: TableSchema?, _ id: UInt64) -> String { schema?.name ?? "(schema \(id))" }

  // MARK: Changes

  private static func change(_ change: ChangeView, _ schema: TableSchema?) throws -> String {
    let before = try change.before?.values() ?? []
    let after = try change.after?.values() ?? []
    let name = name(schema, change.schemaID)
    switch change.operation {
    case .insert: return "insert \(name): \(values(after, schema))"
    case .delete:
      let implied = change.flags.contains(.implied) ? " (made by a REPLACE)" : ""
      return "delete \(name)\(implied): \(values(before, schema))"
    case .truncate: return "truncate \(name)"
    case .update:
      let changes = after.enumerated().compactMap { index, value in
        value.map { new in
          let old = index < before.count ? before[index].map { shown($0) } : nil
          return "\(label(index, schema)) = \(old ?? "?") -> \(shown(new))"
        }
      }
      return "update \(name): \(identity(before, schema)); \(changes.joined(separator: ", "))"
    }
  }

  private static func label(_ index: Int, _ schema: TableSchema?) -> String {
    guard let schema, index < schema.columns.count else { return "#\(index + 1)" }
    return schema.columns[index].name
  }

  private static func values(_ row: [Value?], _ schema: TableSchema?) -> String {
    row.enumerated().compactMap { index, value in value.map { "\(label(index, schema)) = \(shown($0))" } }
      .joined(separator: ", ")
  }

  /// Returns the key of a row; the whole row if it has no key, or if the key contains NULL.
  private static func identity(_ row: [Value?], _ schema: TableSchema?) -> String {
    guard let schema, !schema.key.isEmpty, !schema.key.contains(where: { $0 >= row.count || row[$0] == .null }) else {
      return values(row, schema)
    }
    return values(row.enumerated().map { schema.key.contains($0) ? $1 : nil }, schema)
  }

  // MARK: Refresh and schema

  private static func refresh(_ refresh: Refresh, _ schema: TableSchema?) -> String {
    let name = name(schema, refresh.schemaID)
    switch refresh.event {
    case .start(let reason, let method, let rows):
      let why =
        switch reason {
        case .firstCopy: "first copy"
        case .lostChanges: "changes were lost"
        case .schemaChange: "schema change"
        case .asked: "asked for"
        case .repair: "repair"
        }
      let how =
        switch method {
        case .byKey: "by key"
        case .whole: "whole"
        case .rows: "single rows"
        }
      return "refresh \(name) begins: \(why), \(how), about \(rows.counted("row"))"
    case .chunk(.nullKeys): return "refresh \(name): the rows with NULL in the key"
    case .chunk(.row(let key)): return "refresh \(name): the row \(values(key, schema))"
    case .chunk(.some): return "refresh \(name): some rows"
    case .chunk(.unkeyed): return "refresh \(name): rows without key"
    case .chunk(.keys(let after, let through)):
      let lower = after.map { "after \(values($0, schema))" } ?? "from the start"
      let upper = through.map { "through \(values($0, schema))" } ?? "to the end"
      return "refresh \(name): the rows \(lower) \(upper)"
    case .end(let rows): return "refresh \(name) ends: \(rows.counted("row"))"
    }
  }

  static func ddl(_ ddl: DDL, _ schema: (UInt64) -> TableSchema?) -> String {
    let before = ddl.before == 0 ? "" : name(schema(ddl.before), ddl.before)
    let after = ddl.after == 0 ? "" : name(schema(ddl.after), ddl.after)
    var text = ddl.text.isEmpty ? "" : ": \(shown(ddl.text))"
    if let old = schema(ddl.before), let new = schema(ddl.after) {
      let phrases = TableDifference(old, new, origins: ddl.origins).phrases
      if !phrases.isEmpty { text = ": " + phrases.joined(separator: ", ") + text }
    }
    if !ddl.applied.isEmpty { text += ", by an apply of \(ddl.applied)" }
    switch ddl.action {
    case .create: return "create \(after)\(text)"
    case .drop: return "drop \(before)\(text)"
    case .rename: return "rename \(before) to \(after)\(text)"
    case .reshape: return "reshape \(before == after ? after : "\(before) to \(after)")\(text)"
    }
  }

  private static func statement(_ statement: ExecutedStatement) -> String {
    var line = "statement \(shown(statement.text))"
    if !statement.parameters.isEmpty {
      line += " with \(statement.parameters.map { shown($0) }.joined(separator: ", "))"
    }
    line += ": \(statement.rowsAffected.counted("row")) affected"
    if let now = statement.now { line += ", at \(UTCTime(now))" }
    if statement.flags.contains(.nowUnknown) { line += ", its time is not known" }
    if statement.flags.contains(.isPartial) { line += ", touches tables that are not captured" }
    return line
  }

  // MARK: Values

  private static func shown(_ value: Value) -> String {
    switch value {
    case .null: return "NULL"
    case .integer(let n): return String(n)
    case .real(let r): return r.description
    case .text(let bytes): return shown(bytes, "")
    case .exact(let bytes): return shown(bytes, "exact ")
    case .blob(let bytes):
      let rest = bytes.count > blobMax ? "… (\(bytes.count) bytes)" : ""
      return "x'\(bytes.prefix(blobMax).hex)'\(rest)"
    }
  }

  private static func shown(_ bytes: [UInt8], _ prefix: String) -> String {
    guard let text = String(validating: bytes, as: UTF8.self) else {
      return prefix + "text x'\(bytes.prefix(blobMax).hex)'\(bytes.count > blobMax ? "… (\(bytes.count) bytes)" : "")"
    }
    return prefix + shown(text)
  }

  private static func shown(_ text: String) -> String {
    var out = "'"
    for scalar in text.unicodeScalars.prefix(textMax) {
      switch scalar {
      case "'": out += "''"
      case "\\": out += "\\\\"
      case "\n": out += "\\n"
      case "\r": out += "\\r"
      case "\t": out += "\\t"
      case _ where scalar.isObeyed: out += scalar.code
      default: out.unicodeScalars.append(scalar)
      }
    }
    return out + (text.unicodeScalars.count > textMax ? "…' (\(text.utf8.count) bytes)" : "'")
  }
}
