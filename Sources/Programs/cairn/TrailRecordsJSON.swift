import Changes
import Trails

/// `cairn trail show --json`: prints one JSON object for each record, each on its own line.
///
/// Integers, finite reals and valid text are JSON numbers and strings. Other values are objects: `{"blob":"00ff"}`,
/// `{"text":"80"}` (hexadecimal, not valid UTF-8), `{"real":"inf"}`, `{"exact":"1.50"}`.
struct TrailRecordsJSON {
  private typealias Members = [(String, JSONObject.Value)]

  func run(_ extract: TrailExtract) throws -> Int32 {
    var transaction: UInt64 = 0
    try TrailOutput.printing { output in
      try extract.read { record, reader in
        if case .begin(let header) = record { transaction = header.number }
        output.line(try Self.line(record, reader.position, transaction, reader.schema))
      }
    }
    return 0
  }

  static func line(
    _ record: Record, _ position: Position, _ transaction: UInt64, _ schema: (UInt64) -> TableSchema?
  ) throws -> String {
    let members: Members = [("position", .text(position.description)), ("transaction", number(transaction))]
    return JSONObject(members + (try self.members(record, schema))).line
  }

  private static func number(_ n: UInt64) -> JSONObject.Value { .integer(Int64(clamping: n)) }

  private static func members(_ record: Record, _ schema: (UInt64) -> TableSchema?) throws -> Members {
    switch record {
    case .begin(let header): return begin(header)
    case .commit(_, let changes): return [("record", .text("commit")), ("changes", number(changes))]
    case .schema(let id, let schema): return self.schema(id, schema)
    case .change(let change): return try self.change(change, schema(change.schemaID))
    case .refresh(let refresh): return self.refresh(refresh, schema(refresh.schemaID))
    case .refreshRow(let id, let image):
      let schema = schema(id)
      return [("record", .text("refresh-row")), table(schema), ("row", row(try image.values(), schema))]
    case .waitingRow(let waiting):
      let schema = schema(waiting.schemaID)
      return [
        ("record", .text("waiting-row")), table(schema), ("row", row(try waiting.image.values(), schema)),
        ("clock", number(waiting.clock)), ("origin", .text(waiting.origin)), ("number", number(waiting.number)),
      ]
    case .ddl(let ddl):
      let action =
        switch ddl.action {
        case .create: "create"
        case .drop: "drop"
        case .rename: "rename"
        case .reshape: "reshape"
        }
      return [
        ("record", .text("ddl")), ("action", .text(action)),
        ("before", schema(ddl.before).map { .text($0.name) } ?? .null),
        ("after", schema(ddl.after).map { .text($0.name) } ?? .null), ("text", .text(ddl.text)),
      ]
    case .progress(let source, let time):
      return [
        ("record", .text("progress")), ("time", .text(UTCTime(time).description)),
        ("source_position", .text(source.hex)),
      ]
    case .marker(let kind, let text):
      return [("record", .text("marker")), ("kind", .integer(Int64(kind))), ("text", .text(text))]
    case .sequence(let sequence):
      return [
        ("record", .text("sequence")), ("namespace", .text(sequence.namespace)), ("name", .text(sequence.name)),
        ("last", .integer(sequence.last)), ("increment", .integer(sequence.increment)),
      ]
    case .statement(let statement): return self.statement(try statement.executed())
    case .statementEnd(let end):
      return [
        ("record", .text("statement-end")), ("changes", number(end.changes)), ("written", number(end.digest.written)),
        ("gone", number(end.digest.gone)), ("digest", .text(end.digest.hex)),
      ]
    case .reserved(let kind, let bytes):
      return [("record", .text("reserved")), ("kind", .integer(Int64(kind))), ("payload", .text(bytes.hex))]
    }
  }

  private static func begin(_ header: TransactionHeader) -> Members {
    [
      ("record", .text("begin")), ("time", .text(UTCTime(header.commitTime).description)),
      ("clock", number(header.clock)), ("group", .bool(header.flags.contains(.group))),
      ("late", .bool(header.flags.contains(.late))), ("source_position", .text(header.sourcePosition.hex)),
      (
        "dependencies",
        .list(
          header.dependencies.map {
            .object(
              JSONObject(
                [("origin", .text($0.origin)), ("transaction", number($0.number))]
                  + ($0.id.map { [("trail_id", .text($0.description))] } ?? [])))
          })
      ),
    ]
  }

  private static func schema(_ id: UInt64, _ schema: TableSchema) -> Members {
    let columns = schema.columns.map { column in
      JSONObject.Value.object(
        JSONObject([
          ("name", .text(column.name)), ("type", .text(column.declaredType)), ("not_null", .bool(column.isNotNull)),
          ("key", .integer(Int64(column.keyOrdinal))),
        ]))
    }
    return [
      ("record", .text("schema")), ("schema", number(id)), ("table", .text(schema.name)),
      ("epoch", number(schema.epoch)), ("columns", .list(columns)), ("create", .text(schema.createText)),
    ]
  }

  private static func table(_ schema: TableSchema?) -> (String, JSONObject.Value) {
    ("table", schema.map { .text($0.name) } ?? .null)
  }

  private static func change(_ change: ChangeView, _ schema: TableSchema?) throws -> Members {
    let operation =
      switch change.operation {
      case .insert: "insert"
      case .update: "update"
      case .delete: "delete"
      case .truncate: "truncate"
      }
    var members: Members = [("record", .text("change")), ("operation", .text(operation)), table(schema)]
    if change.flags.contains(.implied) { members.append(("implied", .bool(true))) }
    if let replaced = change.replaced {
      members.append(
        ("replaced", .object(JSONObject([("origin", .text(replaced.origin)), ("clock", number(replaced.clock))]))))
    }
    if let before = change.before { members.append(("before", row(try before.values(), schema))) }
    if let after = change.after { members.append(("after", row(try after.values(), schema))) }
    return members
  }

  private static func refresh(_ refresh: Refresh, _ schema: TableSchema?) -> Members {
    var members: Members = [("record", .text("refresh")), table(schema)]
    switch refresh.event {
    case .start(let reason, let method, let rows):
      let why =
        switch reason {
        case .firstCopy: "first-copy"
        case .lostChanges: "lost-changes"
        case .schemaChange: "schema-change"
        case .asked: "asked"
        case .repair: "repair"
        }
      let how =
        switch method {
        case .byKey: "key"
        case .whole: "whole"
        case .rows: "rows"
        }
      members += [
        ("phase", .text("start")), ("reason", .text(why)), ("method", .text(how)),
        ("estimated_rows", number(rows)),
      ]
    case .chunk(let range):
      members.append(("phase", .text("chunk")))
      switch range {
      case .nullKeys: members.append(("range", .text("null-keys")))
      case .unkeyed: members.append(("range", .text("unkeyed")))
      case .row(let key): members += [("range", .text("row")), ("key", row(key, schema))]
      case .some: members.append(("range", .text("some")))
      case .keys(let after, let through):
        members += [
          ("range", .text("keys")), ("after", after.map { row($0, schema) } ?? .null),
          ("through", through.map { row($0, schema) } ?? .null),
        ]
      }
    case .end(let rows): members += [("phase", .text("end")), ("rows", number(rows))]
    }
    return members
  }

  private static func statement(_ statement: ExecutedStatement) -> Members {
    [
      ("record", .text("statement")), ("dialect", .text(statement.dialect == .sqlite ? "sqlite" : "postgres")),
      ("text", .text(statement.text)), ("parameters", .list(statement.parameters.map(json))),
      ("rows_affected", number(statement.rowsAffected)),
      ("now", statement.now.map { .text(UTCTime($0).description) } ?? .null),
      ("now_unknown", .bool(statement.flags.contains(.nowUnknown))),
      ("partial", .bool(statement.flags.contains(.isPartial))),
    ]
  }

  // MARK: Values

  private static func row(_ values: [Value?], _ schema: TableSchema?) -> JSONObject.Value {
    let members = values.enumerated().compactMap { index, value in
      value.map { value -> (String, JSONObject.Value) in
        let name = schema.flatMap { index < $0.columns.count ? $0.columns[index].name : nil }
        return (name ?? "#\(index + 1)", json(value))
      }
    }
    return .object(JSONObject(members))
  }

  static func json(_ value: Value) -> JSONObject.Value {
    switch value {
    case .null: return .null
    case .integer(let n): return .integer(n)
    case .real(let r): return r.isFinite ? .real(r) : tagged("real", r.description)
    case .text(let bytes):
      return String(validating: bytes, as: UTF8.self).map { .text($0) } ?? tagged("text", bytes.hex)
    case .blob(let bytes): return tagged("blob", bytes.hex)
    case .exact(let bytes): return tagged("exact", String(decoding: bytes, as: UTF8.self))
    }
  }

  private static func tagged(_ kind: String, _ text: String) -> JSONObject.Value {
    .object(JSONObject([(kind, .text(text))]))
  }
}
