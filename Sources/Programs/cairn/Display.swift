import Applying
import Capturing
import Changes
import Endpoints
import Replicating
import SystemKit

/// The output of `cairn replicate`, for a terminal, for a log, or as JSON.
struct Display {
  private let replication: Replication
  private let isJSON: Bool
  private let once: Bool
  private let begun = Clock.monotonicMilliseconds
  private var lastTick = Clock.monotonicMilliseconds
  private var lastRows: UInt64 = 0
  private var isFollowing = false
  private var noticesTold = 0
  private var noticesToldBack = 0
  private var driftsTold: Set<NameKey> = []
  private var roundsTold = 0
  private var problemTold = ""
  private var waitingTold: [WaitingTable] = []
  private var lineIsOpen = false

  init(_ replication: Replication, isJSON: Bool, once: Bool) {
    (self.replication, self.isJSON, self.once) = (replication, isJSON, once)
  }

  /// The time between two updates of the output, in milliseconds.
  var interval: Int { Terminal.isInteractive && !isJSON ? 200 : 1000 }

  func begin() {
    if isJSON {
      emit(
        "started",
        [
          ("from", .text(replication.source.place)), ("to", .text(replication.target.place)),
          ("state", .text(replication.statePath)), ("trail", .text(replication.trail.description)),
        ] + (replication.back.map { [("trail_back", .text($0.trail.description))] } ?? []))
    } else {
      let arrow = replication.back == nil ? "->" : "<->"
      Terminal.print("\(replication.source.place) \(arrow) \(replication.target.place)")
      let trails = [replication.trail, replication.back?.trail].compactMap { $0?.description }
      Terminal.print(
        "state in \(replication.statePath), trail\(trails.count > 1 ? "s" : "") \(trails.joined(separator: " and "))")
    }
  }

  private mutating func tellNotices(_ apply: ApplyProgress.Snapshot) {
    let back = replication.back?.applyProgress.snapshot.notices ?? []
    for notice in back.dropFirst(noticesToldBack) {
      closeLine()
      Terminal.note("cairn: on the way back: \(notice)")
    }
    noticesToldBack = back.count
    for notice in apply.notices.dropFirst(noticesTold) {
      closeLine()
      Terminal.note("cairn: \(notice)")
    }
    noticesTold = apply.notices.count
    tellWaiting(apply.waiting)
    tellAudit()
  }

  private mutating func tellAudit() {
    guard let audit = replication.audit?.snapshot else { return }
    driftsTold.formIntersection(audit.drifts.map(\.table.nameKey))
    for drift in audit.drifts where driftsTold.insert(drift.table.nameKey).inserted {
      closeLine()
      let hint =
        "run 'cairn compare --from \(replication.source.shown) --to \(replication.target.shown) --state \(replication.statePath) --repair'"
      if isJSON {
        emit(
          "drift",
          [
            ("code", .text(ErrorCode.driftFound.rawValue)), ("table", .text(drift.table)),
            ("kind", .text(drift.kind.rawValue)), ("key", .text(drift.key)), ("hint", .text(hint)),
          ])
      }
      Terminal.note(
        "cairn: [\(ErrorCode.driftFound.rawValue)] table \(drift.table) differs from the source: \(drift.kind.rawValue) \(drift.key)"
      )
      Terminal.note("hint: \(hint)")
    }
    if let problem = audit.problem?.message, problem != problemTold {
      problemTold = problem
      closeLine()
      Terminal.note("cairn: the audit was interrupted, and tries again: \(problem)")
    }
    guard audit.rounds > roundsTold, let last = audit.last else { return }
    roundsTold = audit.rounds
    closeLine()
    if isJSON {
      emit(
        "audited",
        [
          ("rows", .integer(Int64(last.rows))), ("differences", .integer(Int64(last.differences))),
          ("milliseconds", .integer(last.milliseconds)),
        ])
    } else {
      let found = last.differences == 0 ? "no drift" : "\(last.differences) differences"
      Terminal.print("audited \(last.rows.counted("row")) in \(last.milliseconds / 1000) s, \(found)")
    }
  }

  private mutating func tellWaiting(_ waiting: [WaitingTable]) {
    for table in waiting where !waitingTold.contains(where: { $0.name == table.name && $0.message == table.message }) {
      closeLine()
      if isJSON {
        emit(
          "waiting",
          [
            ("table", .text(table.name)), ("code", .text(table.code.rawValue)), ("message", .text(table.message)),
            ("hint", .text(table.hint)), ("position", .text(table.checkpoint.position.description)),
          ])
      } else {
        Terminal.note("cairn: \(table.notice)")
      }
    }
    for table in waitingTold where !waiting.contains(where: { $0.name == table.name }) {
      closeLine()
      if isJSON {
        emit("resumed", [("table", .text(table.name))])
      } else {
        Terminal.note("cairn: \(table.resumedNotice)")
      }
    }
    waitingTold = waiting
  }

  mutating func tick() {
    let apply = replication.applyProgress.snapshot
    tellNotices(apply)
    let capture = replication.captureProgress.snapshot
    let now = Clock.monotonicMilliseconds
    let rate = Double(apply.rows - lastRows) / (Double(max(1, now - lastTick)) / 1000)
    let isCopying = capture.tablesToCopy > 0 || apply.copying != nil
    if !isFollowing, !isCopying, apply.isCaughtUp {
      isFollowing = true
      closeLine()
      if isJSON {
        emit("copied", [("tables", .integer(Int64(apply.tablesCopied))), ("rows", .integer(Int64(apply.rows)))])
      } else if !once {
        Terminal.print(
          (apply.tablesCopied > 0
            ? "copied \(apply.tablesCopied.counted("table")), \(apply.rows.counted("row"))"
            : "caught up, \(apply.rows.counted("row"))")
            + "; following (Ctrl-C ends)")
      }
    }
    if isJSON {
      if isFollowing || isCopying { status(apply, rate) }
    } else if Terminal.isInteractive {
      show(isCopying ? bar(apply, capture, rate) : line(apply, rate))
    }
    (lastTick, lastRows) = (now, apply.rows)
  }

  private func status(_ apply: ApplyProgress.Snapshot, _ rate: Double) {
    var members: [(String, JSONObject.Value)] = [
      ("rows", .integer(Int64(apply.rows))), ("rows_per_second", .integer(Int64(rate))),
      ("lag_ms", .real(lagMilliseconds(apply))), ("conflicts", .integer(Int64(conflicts))),
      ("position", .text(apply.position.description)), ("caught_up", .bool(apply.isCaughtUp)),
      ("waiting_for_lock", .bool(apply.isWaitingForLock)), ("tables_waiting", .integer(Int64(apply.waiting.count))),
    ]
    if let copying = apply.copying {
      members.append(("table", .text(copying.table)))
      members.append(("table_rows", .integer(Int64(copying.rows))))
      members.append(("table_rows_estimated", .integer(Int64(copying.estimated))))
    }
    emit("status", members)
  }

  private func lagMilliseconds(_ apply: ApplyProgress.Snapshot) -> Double {
    guard apply.lastCommitTime > 0 else { return 0 }
    let lag =
      apply.isCaughtUp ? apply.lagMicroseconds : Clock.system.microseconds() - apply.lastCommitTime
    return Double(lag / 10) / 100
  }

  private func bar(_ apply: ApplyProgress.Snapshot, _ capture: CaptureProgress.Snapshot, _ rate: Double) -> String {
    guard let copying = apply.copying, copying.estimated > 0 else {
      return
        "copying, \(capture.tablesToCopy.counted("table")) to go, \(apply.rows.counted("row")), \(Int(rate)) rows/s"
    }
    return
      "\(Self.bar(copying.rows, of: copying.estimated)) of \(copying.table), \(capture.tablesToCopy.counted("table")) to go, \(Int(rate)) rows/s"
  }

  /// Returns a progress bar, such as `[######......] 50 %`.
  static func bar(_ done: UInt64, of all: UInt64) -> String {
    let share = all > 0 ? min(1, Double(done) / Double(all)) : 0
    let full = Int(share * 24)
    let drawn = String(repeating: "#", count: full) + String(repeating: ".", count: 24 - full)
    return "[\(drawn)] \(Int(share * 100)) %"
  }

  private func line(_ apply: ApplyProgress.Snapshot, _ rate: Double) -> String {
    let lock =
      apply.isReconnecting
      ? ", waiting for the target's server" : apply.isWaitingForLock ? ", waiting for a lock on the target" : ""
    let drift = !driftsTold.isEmpty ? ", drift in \(driftsTold.count.counted("table"))" : ""
    let count = apply.waiting.count
    let waiting = count == 0 ? "" : ", \(count.counted("table")) suspended"
    return
      "\(Int(rate)) rows/s, lag \(lagMilliseconds(apply)) ms, conflicts \(conflicts), \(apply.rows.counted("row")) in all\(waysBack)\(waiting)\(lock)\(drift)"
  }

  private var conflicts: Int {
    replication.applyProgress.snapshot.conflicts + (replication.back?.applyProgress.snapshot.conflicts ?? 0)
  }

  private var waysBack: String {
    replication.back.map { ", \($0.applyProgress.snapshot.rows) back" } ?? ""
  }

  private mutating func show(_ text: String) {
    Terminal.write("\r\u{1b}[K" + text.oneLine, to: 1)
    lineIsOpen = true
  }

  private mutating func closeLine() {
    if lineIsOpen { Terminal.write("\r\u{1b}[K", to: 1) }
    lineIsOpen = false
  }

  mutating func stopping() {
    closeLine()
    if !isJSON { Terminal.print("stopping at the next transaction border") }
  }

  mutating func end(_ error: CairnError?) {
    closeLine()
    let apply = replication.applyProgress.snapshot
    tellNotices(apply)
    let milliseconds = Clock.monotonicMilliseconds - begun
    if isJSON {
      emit(
        "finished",
        [
          ("ok", .bool(error == nil)), ("rows", .integer(Int64(apply.rows))),
          ("transactions", .integer(Int64(apply.transactions))), ("position", .text(apply.position.description)),
          ("rows_back", .integer(Int64(replication.back?.applyProgress.snapshot.rows ?? 0))),
          ("conflicts", .integer(Int64(conflicts))), ("misfits_nulled", .integer(Int64(apply.misfitsNulled))),
          ("statements_replayed", .integer(Int64(clamping: apply.statements.replayed))),
          ("statements_as_rows", .integer(Int64(clamping: apply.statements.asRows))),
          ("tables_waiting", .integer(Int64(apply.waiting.count))), ("milliseconds", .integer(milliseconds)),
        ])
    } else if error == nil {
      Terminal.print(
        "\(apply.rows.counted("row")) applied\(waysBack)\(conflicts > 0 ? ", \(conflicts.counted("conflict")) resolved" : "") in \(milliseconds / 1000).\(milliseconds % 1000 / 100) s, up to \(apply.position)"
          + (apply.misfitsNulled > 0 ? "; \(apply.misfitsNulled.counted("value")) did not fit and became NULL" : ""))
      if let statements = apply.statements.summary { Terminal.print(statements) }
    }
  }

  private func emit(_ event: String, _ members: [(String, JSONObject.Value)]) {
    Terminal.print(JSONObject([("event", .text(event))] + members).line)
  }
}
