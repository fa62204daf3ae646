import Applying
import Changes

/// The output of `cairn undo`.
struct UndoText {
  private static let valueBytes = 60
  private static let refusalsMax = 50

  let found: UndoTransaction
  let outcome: UndoRun.Outcome
  let place: String
  let isDry: Bool

  private static func name(_ found: UndoTransaction) -> String {
    "transaction \(found.header.number) of trail \(found.trail)"
  }

  // MARK: Text

  /// Returns the first line, which names the transaction and the database before anything is written.
  static func head(of found: UndoTransaction, at place: String) -> String {
    "undo of \(name(found)) at \(found.position), \(UTCTime(found.header.commitTime)), in \(place)".oneLine
  }

  /// The lines after the first one.
  var lines: [String] {
    var lines: [String] = []
    if found.header.flags.contains(.group) {
      lines.append("  note: the source did not say where transactions end; this one may be several")
    }
    lines += found.copied.map { "  note: table \($0) was copied since; the trail may lack writes before that".oneLine }
    lines += outcome.changes.map { "  \(Self.text(of: $0))".oneLine }
    lines += outcome.left.map { "  left out: \($0.text)" }
    if outcome.refusals.isEmpty {
      let count = outcome.changes.count.counted("change")
      lines.append(isDry ? "would write \(count) to \(place); nothing is written" : "wrote \(count) to \(place)")
    } else {
      lines += outcome.refusals.prefix(Self.refusalsMax).map { "  refused: \($0.text)" }
      let more = outcome.refusals.count - Self.refusalsMax
      if more > 0 { lines.append("  and \(more) more") }
    }
    return lines
  }

  private static func text(of change: UndoRun.Outcome.Change) -> String {
    let row = "\(change.table) \(change.key)"
    func value(_ value: Value) -> String { value.shown(max: valueBytes) }
    let columns = change.schema.columns
    switch change.step {
    case .delete: return "delete  \(row)"
    case .insert(let values):
      return "insert  \(row): " + zip(columns, values).map { "\($0.name) = \(value($1))" }.joined(separator: ", ")
    case .update(let set):
      let parts = set.sorted { $0.key < $1.key }.map { column, new in
        "\(columns[column].name) \(change.now.map { value($0[column]) } ?? "") -> \(value(new))"
      }
      return "update  \(row): " + parts.joined(separator: ", ")
    }
  }

  // MARK: JSON

  var json: [String] {
    let changes = outcome.changes.map { change -> String in
      var fields: [(String, JSONObject.Value)] = [
        ("event", .text("change")), ("table", .text(change.table)), ("key", .text(change.key)),
        ("kind", .text(Self.kind(of: change.step))),
      ]
      let values = Self.values(of: change.step).map { column, value in
        (change.schema.columns[column].name, TrailRecordsJSON.json(value))
      }
      fields.append(("values", .object(JSONObject(values))))
      return JSONObject(fields).line
    }
    let left = outcome.left.map { Self.json(of: $0, "left") }
    let refused = outcome.refusals.map { Self.json(of: $0, "refusal") }
    let end = JSONObject([
      ("event", .text(outcome.refusals.isEmpty ? (isDry ? "would-undo" : "undone") : "refused")),
      ("trail", .text(found.trail.description)), ("transaction", .integer(Int64(clamping: found.header.number))),
      ("position", .text(found.position.description)), ("database", .text(place)),
      ("changes", .integer(Int64(outcome.changes.count))), ("refusals", .integer(Int64(outcome.refusals.count))),
    ])
    return changes + left + refused + [end.line]
  }

  private static func kind(of step: UndoPlan.Step.Kind) -> String {
    switch step {
    case .insert: "insert"
    case .delete: "delete"
    case .update: "update"
    }
  }

  private static func values(of step: UndoPlan.Step.Kind) -> [(Int, Value)] {
    switch step {
    case .insert(let values): values.enumerated().map { ($0, $1) }
    case .delete: []
    case .update(let set): set.sorted { $0.key < $1.key }.map { ($0.key, $0.value) }
    }
  }

  private static func json(of refusal: UndoRefusal, _ event: String) -> String {
    var fields: [(String, JSONObject.Value)] = [
      ("event", .text(event)), ("kind", .text(refusal.kind)), ("table", .text(refusal.table)),
    ]
    if let key = refusal.key { fields.append(("key", .text(key))) }
    if let column = refusal.column { fields.append(("column", .text(column))) }
    if let writer = refusal.writer {
      fields.append(("transaction", .integer(Int64(clamping: writer.number))))
      fields.append(("node", .text(writer.node)))
    }
    fields.append(("text", .text(refusal.text)))
    return JSONObject(fields).line
  }

  // MARK: The refusal

  /// The error with which the command ends; nil if nothing was refused.
  var refusal: CairnError? {
    guard let first = outcome.refusals.first else { return nil }
    let more = outcome.refusals.count - 1
    let others = more > 0 ? ", and \((more).counted("other reason"))" : ""
    return CairnError(
      .undoRefused, "\(Self.name(found)) is not undone: \(first.text)\(others)", hint: hint, remedy: .badInput)
  }

  private var hint: String {
    if outcome.refusals.allSatisfy(\.isForceable) {
      return "look at the later transactions with 'cairn trail show'; --force overwrites what they wrote"
    }
    let kinds = Set(outcome.refusals.filter { !$0.isForceable }.map(\.kind))
    if kinds.contains("unknown") {
      return "write the rows by hand; ALTER TABLE … REPLICA IDENTITY FULL lets later transactions be undone"
    }
    if kinds == ["differs"] { return "wait until capture has the last writes ('cairn status'), and run it again" }
    return "write the rows by hand; 'cairn trail show --sql sqlite|postgres --reverse' prints what can be undone"
  }
}
