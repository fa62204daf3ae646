import Applying
import Capturing
import Changes
import Glibc
import Mapping
import Operating
import SystemKit

struct ReplicateCommand: Command {
  static let name = "replicate"
  static let summary = "copy a database to another and follow its changes, live"
  static let operands = "--from URL --to URL"
  static let options = [
    Option("--from", "URL", "the source: sqlite:relative.db, sqlite:///absolute.db or postgresql://user@host/db"),
    Option("--to", "URL", "the target; a missing SQLite file is created"),
    Option("--once", nil, "apply everything committed up to now, then exit 0"),
    Option("--tables", "PATTERN,...", "tables to take, such as 'order*,!tmp_*' (default: all)"),
    Option("--existing", "keep|overwrite|merge", "what becomes of other rows that the target holds already"),
    Option("--misfit", "stop|null|widen", "values that do not fit the target's column; also TABLE.COLUMN=POLICY,..."),
    Option("--names", "fold|keep", "SQLite to PostgreSQL: names in lower case (default), or as they are"),
    Option.state,
    Option("--journal-rows", "N", "rows an SQLite source keeps for us before it drops them (default 5000000)"),
    Option.json,
  ]
  static let details = """
    Creates the tables that are missing at the target, copies the rows that are there, then follows changes until
    Ctrl-C. Run again, it goes on where it stopped. An SQLite source gets triggers and tables named cairn_…, a
    PostgreSQL source a publication and a replication slot of that name; 'cairn detach' takes them away. Programs that
    use the source go on as before.

    --existing keep: rows of the target stay, missing ones are added. merge: the source's rows win, others stay.
    overwrite: the target becomes equal to the source; given again later, everything is copied once more.

    example: cairn replicate --from sqlite:shop.db --to sqlite:///backup/shop.db
    example: cairn replicate --from sqlite:shop.db --to sqlite:copy.db --tables 'item,order*' --once
    example: cairn replicate --from postgresql://cairn@db.example/erp --to sqlite:erp.db
    """

  static func run(_ arguments: Arguments) throws -> Int32 {
    _ = try arguments.operands(0...0)
    var options = Replication.Options()
    options.once = arguments.has("--once")
    options.state = arguments.value("--state")
    if let text = arguments.value("--tables") {
      options.tables = TablePatterns(text.split(separator: ",").map(String.init))
    }
    if let text = arguments.value("--existing") {
      guard let existing = ExistingRows(rawValue: text) else {
        throw arguments.usage("--existing is '\(text)'", "allowed are keep, overwrite and merge;")
      }
      options.existing = existing
    }
    if let text = arguments.value("--misfit") { options.misfits = try MisfitPolicies(parsing: text) }
    if let text = arguments.value("--names") {
      guard let names = NamePolicy(rawValue: text) else {
        throw arguments.usage("--names is '\(text)'", "allowed are fold and keep;")
      }
      options.names = names
    }
    if let text = arguments.value("--journal-rows") {
      guard let rows = Int64(text), rows >= 1000 else {
        throw arguments.usage("--journal-rows is '\(text)'", "a number from 1000 is allowed;")
      }
      options.journalRows = rows
    }
    let isJSON = arguments.has("--json")
    let from = try DatabaseURL(arguments.required("--from"))
    let to = try DatabaseURL(arguments.required("--to"))
    let replication = try Replication(from: from, to: to, options: options) { notice in
      Terminal.note("cairn: \(notice.text)")
    }
    // From here on a signal waits until it can be answered.
    let signals = blockSignals()
    let state = try replication.prepare()
    return try withExtendedLifetime(state) { try follow(replication, signals, isJSON: isJSON, once: options.once) }
  }

  private static func blockSignals() -> sigset_t {
    var signals = sigset_t()
    sigemptyset(&signals)
    for number in [SIGINT, SIGTERM, SIGHUP, SIGUSR1] { sigaddset(&signals, number) }
    pthread_sigmask(SIG_BLOCK, &signals, nil)
    return signals
  }

  /// Runs both workers; signals become events on this thread.
  private static func follow(
    _ replication: Replication, _ blocked: sigset_t, isJSON: Bool, once: Bool
  ) throws -> Int32 {
    var signals = blocked
    var display = Display(replication, isJSON: isJSON, once: once)
    display.begin()
    let process = getpid()
    let workers = replication.start { kill(process, SIGUSR1) }
    let interval = Terminal.isInteractive && !isJSON ? 200 : 1000
    while replication.isRunning {
      var wait = timespec(tv_sec: interval / 1000, tv_nsec: interval % 1000 * 1_000_000)
      let number = sigtimedwait(&signals, nil, &wait)
      if number == SIGINT || number == SIGTERM || number == SIGHUP {
        display.stopping()
        replication.stop()
        // A second signal ends us at once: nothing is lost by that either.
        sigdelset(&signals, SIGUSR1)
        pthread_sigmask(SIG_UNBLOCK, &signals, nil)
        break
      }
      display.tick()
    }
    for worker in workers { _ = worker.join() }
    display.end(replication.error)
    if let error = replication.error { throw error }
    return 0
  }
}

/// What a replication looks like while it runs: a bar, then one live line, on a terminal; a few lines in a log; an
/// object a line as JSON.
struct Display {
  private let replication: Replication
  private let isJSON: Bool
  private let once: Bool
  private let begun = Clock.monotonicMilliseconds
  private var lastTick = Clock.monotonicMilliseconds
  private var lastRows: UInt64 = 0
  private var isFollowing = false
  private var noticesTold = 0
  private var lineIsOpen = false

  init(_ replication: Replication, isJSON: Bool, once: Bool) {
    (self.replication, self.isJSON, self.once) = (replication, isJSON, once)
  }

  func begin() {
    if isJSON {
      emit(
        "started",
        [
          ("from", .text(replication.source.place)), ("to", .text(replication.target.place)),
          ("state", .text(replication.statePath)), ("trail", .text(replication.trail.description)),
        ])
    } else {
      Terminal.print("\(replication.source.place) -> \(replication.target.place)")
      Terminal.print("state in \(replication.statePath), trail \(replication.trail)")
    }
  }

  /// What apply has to say once.
  private mutating func tellNotices(_ apply: ApplyProgress.Snapshot) {
    for notice in apply.notices.dropFirst(noticesTold) {
      closeLine()
      Terminal.note("cairn: \(notice)")
    }
    noticesTold = apply.notices.count
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
            ? "copied \(apply.tablesCopied) tables, \(apply.rows) rows" : "caught up, \(apply.rows) rows")
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
      ("lag_ms", .real(lagMilliseconds(apply))), ("conflicts", .integer(0)),
      ("position", .text(apply.position.description)), ("caught_up", .bool(apply.isCaughtUp)),
      ("waiting_for_lock", .bool(apply.isWaitingForLock)),
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
      return "copying, \(capture.tablesToCopy) tables to go, \(apply.rows) rows, \(Int(rate)) rows/s"
    }
    let share = min(1, Double(copying.rows) / Double(copying.estimated))
    let full = Int(share * 24)
    let drawn = String(repeating: "#", count: full) + String(repeating: ".", count: 24 - full)
    return
      "[\(drawn)] \(Int(share * 100)) % of \(copying.table), \(capture.tablesToCopy) tables to go, \(Int(rate)) rows/s"
  }

  private func line(_ apply: ApplyProgress.Snapshot, _ rate: Double) -> String {
    let lock =
      apply.isReconnecting
      ? ", waiting for the target's server" : apply.isWaitingForLock ? ", waiting for a lock on the target" : ""
    return "\(Int(rate)) rows/s, lag \(lagMilliseconds(apply)) ms, conflicts 0, \(apply.rows) rows in all\(lock)"
  }

  private mutating func show(_ text: String) {
    Terminal.write("\r\u{1b}[K" + text, to: 1)
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
          ("misfits_nulled", .integer(Int64(apply.misfitsNulled))), ("milliseconds", .integer(milliseconds)),
        ])
    } else if error == nil {
      Terminal.print(
        "\(apply.rows) rows applied in \(milliseconds / 1000).\(milliseconds % 1000 / 100) s, up to \(apply.position)"
          + (apply.misfitsNulled > 0 ? "; \(apply.misfitsNulled) values did not fit and became NULL" : ""))
    }
  }

  private func emit(_ event: String, _ members: [(String, JSONObject.Value)]) {
    Terminal.print(JSONObject([("event", .text(event))] + members).line)
  }
}
