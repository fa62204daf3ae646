import Changes
import ControlAPI
import Glibc
import SystemKit

/// `cairn status`: the state of every worker of a daemon.
struct StatusCommand: Command {
  static let name = "status"
  static let summary = "show the workers of the daemon: state, position, lag, rate, last error"
  static let operands = ""
  static let options =
    [
      Option("--watch", nil, "again every second, until Ctrl-C"),
      Option("--all", nil, "also the helper workers (heartbeat, purge) that are well"),
      Option("--lag", "SECONDS", "seconds of lag that count as healthy (default 60)"),
    ] + DaemonPeer.options
  static let details = """
    The lag is shown by stage: from the commit at the source to the trail, and from there to the commit at the target.
    SQLite does not record commit times; there it counts from the moment at which capture read the change. LAST CHANGE is
    the time since the last transaction was committed at the source.

    A trail that goes to another node, or comes from there, has two positions. The other side has the trail durably up
    to the first, and has applied it up to the second. Its lag is shown in time and bytes.

    Exits 0 when every worker runs and none lags. Exits 1 when a worker is stopped, waits, fails or lags, or when a
    transaction is in quarantine. It exits 1 also when a table is unhooked, the conf loaded last is refused, or a removed
    capture left a slot. The same holds while the port of [metrics] is in use. Exits 69 when no daemon answers, and 78 when the conf is broken or unreadable too.

    The command finds a daemon by the conf that it was started with, also after that conf was changed or broken. An error
    that has passed is shown for a day. It does not change the exit status, nor does a row that waits for a unique value.

    example: cairn status
    example: cairn status --json --lag 300 --config /etc/cairn
    """

  static func run(_ arguments: Arguments) throws -> Int32 {
    _ = try arguments.operands(0...0)
    let seconds = try lag(arguments)
    let daemon = DaemonPeer.address(arguments)
    while true {
      let answer = try daemon.ask(ControlRequest(.status), seconds: 10)
      let workers = answer.objects("workers").compactMap { NodeStatus.Worker($0) }
      if arguments.has("--json") {
        Terminal.print(answer.line)
      } else {
        let table = StatusTable(answer, workers, isWhole: arguments.has("--all")).lines.map(\.oneLine).joined(
          separator: "\n")
        if arguments.has("--watch"), Terminal.isInteractive { Terminal.write("\u{1b}[H\u{1b}[2J", to: 1) }
        Terminal.page(table)
      }
      guard arguments.has("--watch") else {
        return isWell(answer, workers, lagMilliseconds: seconds * 1000) ? 0 : 1
      }
      Clock.sleep(milliseconds: 1000)
    }
  }

  private static func isWell(_ answer: JSONObject, _ workers: [NodeStatus.Worker], lagMilliseconds lag: Double) -> Bool
  {
    answer.object("conf_refused") == nil && answer.object("metrics_error") == nil && answer.list("left_slots").isEmpty
      && answer.objects("sources").allSatisfy { $0.list("unhooked").isEmpty }
      && answer.objects("paths").compactMap { NodeStatus.Path($0) }.allSatisfy { $0.isWell(lagMilliseconds: lag) }
      && workers.allSatisfy { $0.isWell(lagMilliseconds: lag) }
  }

  private static func lag(_ arguments: Arguments) throws -> Double {
    guard let text = arguments.value("--lag") else { return 60 }
    guard let seconds = Double(text), seconds >= 0, seconds.isFinite else {
      throw arguments.usage("--lag is '\(text)'", "a number of seconds is allowed;")
    }
    return seconds
  }
}

/// Formats a daemon's status as a table.
struct StatusTable {
  private let answer: JSONObject
  private let workers: [NodeStatus.Worker]
  private let isWhole: Bool
  private let now: Int64

  /// Creates the table.
  ///
  /// - Parameter isWhole: Whether helper workers that are well are shown, too.
  init(_ answer: JSONObject, _ workers: [NodeStatus.Worker], isWhole: Bool) {
    (self.answer, self.workers, self.isWhole) = (answer, workers, isWhole)
    now = answer.text("now").flatMap { TimeText.parse($0, now: 0, zone: LocalTime()) } ?? 0
  }

  var lines: [String] {
    var lines = [
      "node \(answer.text("node") ?? "?"), cairnd \(answer.text("version") ?? "?"), process \(answer.integer("pid") ?? 0), since \(answer.text("started_at")?.prefix(19) ?? "?")Z",
      "",
    ]
    lines += Self.columns(
      [["WORKER", "STATE", "POSITION", "TO TRAIL", "TO TARGET", "LAST CHANGE", "ROWS/S", "ROWS", ""]]
        + workers.filter { isWhole || !$0.name.isHelper || $0.state != .running }.map(row))
    for worker in workers { lines += copying(worker) + statements(worker) + troubles(worker) }
    lines += rowsWaiting
    lines += StatusPaths(answer).lines
    let rest = facts
    return lines + (rest.isEmpty ? [] : [""] + rest)
  }

  private func row(_ worker: NodeStatus.Worker) -> [String] {
    var (toTrail, toTarget) = ("", "")
    func text(_ lag: Double?) -> String { lag.map { Lag.text(milliseconds: $0) } ?? "" }
    if worker.name.kind == .capture { toTrail = text(worker.lagMilliseconds) }
    if worker.name.kind == .apply {
      toTarget = text(worker.lagMilliseconds)
      toTrail = text(workers.first { $0.name.kind == .capture && $0.trail == worker.trail }?.lagMilliseconds)
    }
    let isOfRows = worker.name.kind == .capture || worker.name.kind == .apply
    return [
      worker.name.description, worker.state.rawValue, worker.position, toTrail, toTarget, age(worker),
      isOfRows ? String(Int(worker.rowsPerSecond)) : "", isOfRows ? String(worker.rows) : "",
      worker.detail.isEmpty ? worker.place : worker.detail.firstLine,
    ]
  }

  private func age(_ worker: NodeStatus.Worker) -> String {
    worker.lastChangeAt.map { Lag.text(milliseconds: Double(max(0, now - $0)) / 1000) + " ago" } ?? ""
  }

  private var rowsWaiting: [String] {
    var places: Set<String> = []
    return workers.filter { !$0.rowsWaiting.isEmpty && places.insert($0.place).inserted }.flatMap { worker in
      let counts = worker.rowsWaiting.sorted { $0.key < $1.key }.map { "\($0.key) (\($0.value))" }
      let list = counts.joined(separator: ", ") + Self.more(worker.moreRowsWaiting)
      return [
        "", "\(worker.place): rows wait for a unique value that another row has: \(list)",
        "  hint: run 'cairn conflicts list --waiting'",
      ]
    }
  }

  private static func more(_ count: Int) -> String { count > 0 ? " and \(count) more" : "" }

  private func copying(_ worker: NodeStatus.Worker) -> [String] {
    guard let copying = worker.copying else { return [] }
    let done = copying.tablesDone.counted("table") + " done"
    let rows = "\(copying.rows) of \(copying.estimated.counted("row")), \(done), \(Int(worker.rowsPerSecond)) rows/s"
    return ["\(worker.name) copies \(copying.table): \(Display.bar(copying.rows, of: copying.estimated)), \(rows)"]
  }

  private func statements(_ worker: NodeStatus.Worker) -> [String] {
    let statements = worker.statements
    guard statements.total > 0 else { return [] }
    let reasons = statements.reasons.map { "\($0.text) (\($0.count))" }.joined(separator: ", ")
    let rest = reasons.isEmpty ? "" : "; as rows: \(reasons)"
    return ["\(worker.name): \(statements.replayed) of \(statements.total) statements executed as such\(rest)"]
  }

  private func troubles(_ worker: NodeStatus.Worker) -> [String] {
    var lines: [String] = []
    if let problem = worker.problem {
      let times = problem.times > 1 ? ", \(problem.times.counted("time"))" : ""
      let ago = problem.agoMilliseconds.map { ", \(Lag.text(milliseconds: Double($0))) ago" } ?? ""
      let next = worker.retryInMilliseconds.map { "; tried again in \(Lag.text(milliseconds: Double($0)))" } ?? ""
      let rest = problem.isPassed ? ", passed" : worker.state == .running ? ", runs again" : next
      lines += ["", "\(worker.name): [\(problem.code)] \(problem.message)\(times)\(ago)\(rest)"]
      if !problem.isPassed, worker.state != .running { lines.append("  hint: \(problem.hint)") }
    }
    if !worker.waits.isEmpty {
      let list = worker.waits.map(\.table).joined(separator: ", ") + Self.more(worker.moreWaits)
      lines += ["", "\(worker.name): suspended tables: \(list)"]
    }
    if !worker.leftOut.isEmpty {
      let shown = worker.leftOut.prefix(20)
      let list = shown.joined(separator: ", ") + Self.more(worker.leftOut.count - shown.count + worker.moreLeftOut)
      lines += ["", "\(worker.name): tables that it leaves out: \(list)"]
    }
    for wait in worker.waits {
      let text = "[\(wait.code)] table \(wait.table) is suspended: \(wait.message)"
      lines += (text.split(separator: "\n") + ("hint: " + wait.hint).split(separator: "\n")).map { "  " + $0 }
    }
    return lines
  }

  private var facts: [String] {
    var lines: [String] = []
    if let refused = answer.object("conf_refused") {
      lines.append(
        "the conf loaded last is refused, and the former one is in force: \(refused.text("message") ?? "")")
      lines.append("  hint: \(refused.text("hint") ?? "")")
    }
    if let problem = answer.object("metrics_error") {
      lines.append("no metrics, and no status page: \(problem.text("message") ?? "")")
      lines.append("  hint: \(problem.text("hint") ?? "")")
    }
    for trail in answer.objects("trails") {
      lines.append(
        "trail \(trail.text("name") ?? ""): \(Size.text(bytes: trail.integer("bytes") ?? 0)) in \((trail.integer("segments") ?? 0).counted("segment")), since \(trail.text("oldest")?.prefix(19) ?? "")Z\(history(trail))"
      )
    }
    for source in answer.objects("sources") { lines += [self.source(source)] + unhooked(source) }
    for slot in answer.objects("left_slots") {
      lines += [slot.text("message") ?? "", "  hint: \(slot.text("hint") ?? "")"]
    }
    if let disk = answer.object("disk") {
      let limit = disk.integer("limit_bytes").map { " of \(Size.text(bytes: $0))" } ?? ""
      lines.append(
        "disk: trails \(Size.text(bytes: disk.integer("bytes") ?? 0))\(limit), free \(Size.text(bytes: disk.integer("free_bytes") ?? 0))"
          + full(disk))
    }
    return lines
  }

  private func history(_ trail: JSONObject) -> String {
    guard let history = trail.object("history") else { return "" }
    let short = history.bool("shortened") == true ? ", shortened by a disk limit" : ""
    return
      "; keeps \(history.text("keep") ?? ""): \(Size.text(bytes: history.integer("bytes") ?? 0)) of history\(short)"
  }

  private func source(_ source: JSONObject) -> String {
    let name = source.text("capture") ?? ""
    if let rows = source.integer("journal_rows") {
      return "source of capture.\(name): journal \(rows) of \(source.integer("journal_cap_rows") ?? 0) rows"
        + (source.bool("journal_full") == true
          ? ", has dropped rows beyond its limit: all tables are copied again when the capture continues"
          : full(source))
    }
    guard let slot = source.text("slot_status") else { return "source of capture.\(name): not checked yet" }
    let kept = source.integer("slot_bytes").map { ", keeps \(Size.text(bytes: $0))" } ?? ""
    let safe = source.integer("slot_safe_bytes").map { ", lost after \(Size.text(bytes: $0)) more" } ?? ""
    return "source of capture.\(name): slot \(slot)\(kept)\(safe)"
      + full(source)
  }

  private func unhooked(_ source: JSONObject) -> [String] {
    let names = source.list("unhooked").compactMap { if case .text(let text) = $0 { text } else { nil } }
    guard !names.isEmpty, let capture = source.text("capture") else { return [] }
    let list = names.joined(separator: ", ") + Self.more(Int(source.integer("unhooked_more") ?? 0))
    return [
      "source of capture.\(capture): capture is off, and writes are not captured in \(list)",
      "  hint: run 'cairn rehook \(source.text("database") ?? "DATABASE")' after the schema change",
    ]
  }

  private func full(_ object: JSONObject) -> String {
    object.integer("seconds_until_full").map { ", full in \(Lag.text(milliseconds: Double($0) * 1000))" } ?? ""
  }

  static func columns(_ rows: [[String]]) -> [String] {
    let count = rows.map(\.count).max() ?? 0
    let widths = (0..<count).map { column in rows.map { column < $0.count ? $0[column].count : 0 }.max() ?? 0 }
    return rows.map { row in
      var line = row.enumerated().map { index, cell in
        index == row.count - 1 ? cell : cell + String(repeating: " ", count: widths[index] - cell.count)
      }.joined(separator: "  ")
      while line.hasSuffix(" ") { line.removeLast() }
      return line
    }
  }
}
