import Changes
import SystemKit

// The form in which a status goes over the control socket, and in which programs read it
// (docs/reference/control-protocol.md).
extension NodeStatus {
  package var json: JSONObject {
    var object = JSONObject([
      ("node", .text(node)), ("version", .text(version)), ("pid", .integer(Int64(process))),
      ("now", .text(UTCTime(now).description)), ("started_at", .text(UTCTime(startedAt).description)),
      ("conf_loaded_at", .text(UTCTime(loadedAt).description)), ("ending", .bool(isEnding)),
      ("summary", .text(summary)), ("workers", .list(workers.map { .object($0.json(of: workers.count)) })),
      ("sources", .list(sources.map { .object($0.json) })),
    ])
    let shownTrails = StatusList(trails, countMax: .max, bytesMax: Bytes.trails) { .object($0.json) }
    (object["trails"], object["trails_more"]) = (.list(shownTrails.values), .integer(shownTrails.more))
    let shownPaths = StatusList(paths, countMax: .max, bytesMax: Bytes.paths, order: pathsByTurn) { .object($0.json) }
    (object["paths"], object["paths_more"]) = (.list(shownPaths.values), .integer(shownPaths.more))
    object["left_slots"] = .list(leftSlots.map { .object($0.json) })
    if let disk { object["disk"] = .object(disk.json) }
    object["conf_refused"] = refusal.map { .object($0.json) } ?? .null
    object["metrics_error"] = metricsProblem.map { .object($0.json) } ?? .null
    return object
  }
}

extension NodeStatus.Worker {
  /// Returns the JSON form.
  ///
  /// - Parameter count: The number of all workers, which share the room of the lists of tables.
  func json(of count: Int = 1) -> JSONObject {
    let room = min(StatusList.bytesMax, NodeStatus.Bytes.tables / max(1, count))
    let textRoom = min(NodeStatus.Bytes.text, max(256, NodeStatus.Bytes.texts / max(1, count)))
    let problem = problem?.cut(to: textRoom)
    let shownWaits = StatusList(waits, bytesMax: room) { .object($0.cut(to: textRoom).json) }
    let shownLeftOut = StatusList(leftOut, bytesMax: room) { .text($0) }
    let tables = rowsWaiting.sorted { $0.key < $1.key }
    let shownTables = StatusList(tables, bytesMax: room) { .text($0.key.text) }
    return JSONObject([
      ("name", .text(name.description)), ("kind", .text(name.kind.rawValue)), ("state", .text(state.rawValue)),
      ("trail", .text(trail)), ("database", .text(place)), ("detail", .text(detail.cut(to: textRoom))),
      ("position", .text(position)),
      ("rows", .integer(Int64(clamping: rows))), ("transactions", .integer(Int64(clamping: transactions))),
      ("rows_per_second", .real((rowsPerSecond * 10).rounded() / 10)),
      ("lag_ms", lagMilliseconds.map { .real(($0 * 10).rounded() / 10) } ?? .null), ("caught_up", .bool(isCaughtUp)),
      ("last_change_at", lastChangeAt.map { .text(UTCTime($0).description) } ?? .null),
      ("conflicts", .integer(Int64(conflicts))),
      ("tables_waiting", .list(waits.prefix(shownWaits.values.count).map { .text($0.table) })),
      ("waits", .list(shownWaits.values)), ("waits_more", .integer(shownWaits.more)),
      ("tables_left_out", .list(shownLeftOut.values)), ("tables_left_out_more", .integer(shownLeftOut.more)),
      (
        "rows_waiting",
        .object(
          JSONObject(tables.prefix(shownTables.values.count).map { ($0.key.text, .integer(Int64($0.value))) }))
      ),
      ("rows_waiting_more", .integer(shownTables.more)),
      ("quarantined", .integer(Int64(quarantined))), ("tables_drifted", .integer(Int64(driftedTables))),
      ("versions_kept", .integer(Int64(versionsKept))),
      ("statements", .object(statements.json)),
      ("copying", copying.map { .object($0.json) } ?? .null), ("tables_copied", .integer(Int64(tablesCopied))),
      ("snapshot", snapshot.map { .object($0.json) } ?? .null),
      ("restarts", .integer(Int64(restarts))),
      ("retry_in_ms", retryInMilliseconds.map { .integer($0) } ?? .null),
      ("paused_until", pausedUntil.map { .text(UTCTime($0).description) } ?? .null),
      ("silent_ms", .integer(silentMilliseconds)),
      ("error", problem.flatMap { $0.isPassed ? nil : .object($0.json) } ?? .null),
      ("last_error", problem.map { .object($0.json) } ?? .null),
    ])
  }

  package init?(_ object: JSONObject) {
    guard let name = object.text("name").flatMap(WorkerName.init),
      let state = object.text("state").flatMap(NodeStatus.WorkerState.init)
    else { return nil }
    self.init(name, state)
    (trail, place) = (object.text("trail") ?? "", object.text("database") ?? "")
    (detail, position) = (object.text("detail") ?? "", object.text("position") ?? "")
    rows = UInt64(clamping: object.integer("rows") ?? 0)
    transactions = UInt64(clamping: object.integer("transactions") ?? 0)
    rowsPerSecond = object.real("rows_per_second") ?? 0
    lagMilliseconds = object.real("lag_ms")
    isCaughtUp = object.bool("caught_up") ?? false
    lastChangeAt = object.text("last_change_at").flatMap { TimeText.parse($0, now: 0, zone: LocalTime()) }
    conflicts = Int(object.integer("conflicts") ?? 0)
    waits = object.objects("waits").map(NodeStatus.Wait.init)
    moreWaits = Int(object.integer("waits_more") ?? 0)
    moreLeftOut = Int(object.integer("tables_left_out_more") ?? 0)
    moreRowsWaiting = Int(object.integer("rows_waiting_more") ?? 0)
    quarantined = Int(object.integer("quarantined") ?? 0)
    driftedTables = Int(object.integer("tables_drifted") ?? 0)
    for (table, count) in object.object("rows_waiting")?.members ?? [] {
      if case .integer(let count) = count { rowsWaiting[table] = Int(clamping: count) }
    }
    leftOut = object.list("tables_left_out").compactMap { if case .text(let text) = $0 { text } else { nil } }
    versionsKept = Int(object.integer("versions_kept") ?? 0)
    statements = object.object("statements").map(NodeStatus.Statements.init) ?? .init()
    copying = object.object("copying").map(NodeStatus.Copying.init)
    tablesCopied = Int(object.integer("tables_copied") ?? 0)
    snapshot = object.object("snapshot").map(NodeStatus.Snapshot.init)
    restarts = Int(object.integer("restarts") ?? 0)
    retryInMilliseconds = object.integer("retry_in_ms")
    pausedUntil = object.text("paused_until").flatMap { TimeText.parse($0, now: 0, zone: LocalTime()) }
    silentMilliseconds = object.integer("silent_ms") ?? 0
    problem = (object.object("last_error") ?? object.object("error")).map(NodeStatus.Problem.init)
  }
}

extension NodeStatus.Statements {
  var json: JSONObject {
    JSONObject([
      ("replayed", .integer(Int64(clamping: replayed))), ("as_rows", .integer(Int64(clamping: asRows))),
      (
        "reasons",
        .list(
          reasons.map {
            .object(JSONObject([("reason", .text($0.text)), ("count", .integer(Int64(clamping: $0.count)))]))
          })
      ),
    ])
  }

  init(_ object: JSONObject) {
    self.init()
    replayed = UInt64(clamping: object.integer("replayed") ?? 0)
    asRows = UInt64(clamping: object.integer("as_rows") ?? 0)
    reasons = object.objects("reasons").map {
      Reason(text: $0.text("reason") ?? "", count: UInt64(clamping: $0.integer("count") ?? 0))
    }
  }
}

extension NodeStatus.Problem {
  /// Returns the problem with texts of at most `bytes` bytes each.
  func cut(to bytes: Int) -> Self {
    var problem = self
    (problem.message, problem.hint) = (message.cut(to: bytes), hint.cut(to: bytes))
    return problem
  }

  package var json: JSONObject {
    var object = JSONObject([
      ("code", .text(code)), ("message", .text(message)), ("hint", .text(hint)), ("times", .integer(Int64(times))),
    ])
    if let agoMilliseconds {
      object["ago_ms"] = .integer(agoMilliseconds)
      object["passed"] = .bool(isPassed)
    }
    if let row { object["row"] = .object(row.json) }
    return object
  }

  package init(_ object: JSONObject) {
    self.init(
      code: object.text("code") ?? "", message: object.text("message") ?? "", hint: object.text("hint") ?? "",
      times: Int(object.integer("times") ?? 1), agoMilliseconds: object.integer("ago_ms"),
      isPassed: object.bool("passed") ?? false, row: object.object("row").flatMap(StoppedRow.init))
  }
}

extension StoppedRow {
  package var json: JSONObject {
    JSONObject([
      ("table", .text(table.cut(to: 400))), ("key", .text(key.cut(to: 400))), ("position", .text(position.description)),
      ("transaction", .integer(Int64(clamping: transaction))), ("copied", .bool(isCopied)),
    ])
  }

  package init?(_ object: JSONObject) {
    guard let position = object.text("position").flatMap({ Position($0) }),
      let transaction = object.integer("transaction").flatMap({ UInt64(exactly: $0) })
    else { return nil }
    self.init(
      table: object.text("table") ?? "", key: object.text("key") ?? "", position: position, transaction: transaction,
      isCopied: object.bool("copied") ?? false)
  }
}

extension NodeStatus.Copying {
  var json: JSONObject {
    JSONObject([
      ("table", .text(table)), ("rows", .integer(Int64(clamping: rows))),
      ("rows_estimated", .integer(Int64(clamping: estimated))), ("tables_done", .integer(Int64(tablesDone))),
    ])
  }

  init(_ object: JSONObject) {
    self.init(
      table: object.text("table") ?? "", rows: UInt64(clamping: object.integer("rows") ?? 0),
      estimated: UInt64(clamping: object.integer("rows_estimated") ?? 0),
      tablesDone: Int(object.integer("tables_done") ?? 0))
  }
}

extension NodeStatus.Wait {
  /// Returns the entry with texts of at most `bytes` bytes each.
  func cut(to bytes: Int) -> Self {
    Self(table: table, code: code, message: message.cut(to: bytes), hint: hint.cut(to: bytes))
  }

  var json: JSONObject {
    JSONObject([
      ("table", .text(table)), ("code", .text(code)), ("message", .text(message)), ("hint", .text(hint)),
    ])
  }

  init(_ object: JSONObject) {
    self.init(
      table: object.text("table") ?? "", code: object.text("code") ?? "", message: object.text("message") ?? "",
      hint: object.text("hint") ?? "")
  }
}

extension NodeStatus.Trail {
  var json: JSONObject {
    JSONObject([
      ("name", .text(name)), ("bytes", .integer(Int64(clamping: bytes))), ("segments", .integer(Int64(segments))),
      ("end", .text(end)), ("oldest", .text(UTCTime(oldest).description)),
      ("history", keep.map { .object($0.json) } ?? .null),
    ])
  }
}

extension NodeStatus.History {
  var json: JSONObject {
    JSONObject([
      ("keep", .text(text)), ("keep_seconds", milliseconds.map { .integer($0 / 1000) } ?? .null),
      ("keep_bytes", maxBytes.map { .integer($0) } ?? .null), ("bytes", .integer(Int64(clamping: bytes))),
      ("shortened", .bool(isShortened)),
    ])
  }
}

extension NodeStatus.Source {
  var json: JSONObject {
    func number(_ n: Int64?) -> JSONObject.Value { n.map { .integer($0) } ?? .null }
    let shownUnhooked = StatusList(unhooked) { .text($0) }
    return JSONObject([
      ("capture", .text(capture)), ("database", .text(database)), ("slot_bytes", number(slotBytes)),
      ("slot_safe_bytes", number(slotSafeBytes)),
      ("slot_status", slotStatus.map { .text($0) } ?? .null), ("journal_rows", number(journalRows)),
      ("journal_cap_rows", number(journalCapRows)), ("journal_full", .bool(isJournalFull)),
      ("unhooked", .list(shownUnhooked.values)), ("unhooked_more", .integer(shownUnhooked.more)),
      ("seconds_until_full", secondsUntilFull.map { .integer(Int64($0)) } ?? .null),
    ])
  }
}

extension NodeStatus.Disk {
  var json: JSONObject {
    JSONObject([
      ("bytes", .integer(Int64(clamping: bytes))), ("limit_bytes", limitBytes.map { .integer($0) } ?? .null),
      ("free_bytes", .integer(Int64(clamping: freeBytes))),
      ("seconds_until_full", secondsUntilFull.map { .integer(Int64($0)) } ?? .null),
    ])
  }
}
