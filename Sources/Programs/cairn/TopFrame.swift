import Changes
import ControlAPI
import SystemKit

/// One picture of `cairn top`: a daemon's status, cut to the size of a terminal.
///
/// All names and texts are escaped: they come from databases and peers.
///
/// ```swift
/// TopFrame(answer, width: 80, height: 24).lines.count   // 24 at most
/// ```
struct TopFrame {
  enum Style: Equatable, Sendable {
    case plain
    case head
    case good
    case warning
    case bad
  }

  struct Line: Sendable {
    var text: String
    var style = Style.plain
  }

  let lines: [Line]

  /// Formats a status.
  ///
  /// - Parameter height: The most lines; at least 6 are used.
  /// - Parameter keys: Whether the last line names the keys that a terminal understands.
  init(_ answer: JSONObject, width: Int, height: Int, keys: Bool = true) {
    let height = max(6, height)
    let workers = answer.objects("workers").compactMap { NodeStatus.Worker($0) }
    let paths = answer.objects("paths").compactMap { NodeStatus.Path($0) }
    let now = answer.text("now").flatMap { TimeText.parse($0, now: 0, zone: LocalTime()) } ?? 0
    var lines = [Self.title(answer), Self.news(answer, workers, paths)]
    // The rest of the height, without the last line.
    var left = height - lines.count - 1
    func add(_ part: [Line], atMost count: Int, _ more: String) {
      let room = min(left, count)
      guard room > 0, !part.isEmpty else { return }
      let shown =
        part.count > room ? part.prefix(room - 1) + [Line(text: "  \(part.count - room + 1) \(more)")] : part[...]
      lines += shown
      left -= shown.count
    }
    let causes = Self.causes(answer, workers, paths)
    let pathLines = Self.table(paths)
    // Causes get a third of the room, paths a third of the rest, unless the others need less.
    let causeRoom = causes.isEmpty ? 0 : min(causes.count + 1, max(3, left / 3))
    let pathRoom = pathLines.isEmpty ? 0 : min(pathLines.count + 1, max(3, (left - causeRoom) / 3))
    let workerLines = Self.table(workers, now: now)
    add([Line(text: "")], atMost: 1, "")
    add(workerLines, atMost: max(2, left - causeRoom - pathRoom), "more workers")
    if !pathLines.isEmpty {
      add([Line(text: "")], atMost: 1, "")
      add(pathLines, atMost: max(2, left - causeRoom), "more paths")
    }
    if !causes.isEmpty {
      add([Line(text: "")], atMost: 1, "")
      add(causes, atMost: left, "more lines: see 'cairn status'")
    }
    lines.append(Self.disk(answer, keys: keys))
    self.lines = lines.map { Line(text: $0.text.oneLine.cut(columns: width), style: $0.style) }
  }

  /// Returns the lines as text, with escape sequences for colours if `isColoured`.
  func text(isColoured: Bool) -> [String] {
    lines.map { line in
      let (first, last) = line.style.codes(isColoured: isColoured)
      return first + line.text + last
    }
  }

  // MARK: Parts

  private static func title(_ answer: JSONObject) -> Line {
    let time = answer.text("now").map { "\($0.prefix(19))Z" } ?? ""
    return Line(
      text: "node \(answer.text("node") ?? "?")  cairnd \(answer.text("version") ?? "?")  \(time)", style: .head)
  }

  private static func grade(_ worker: NodeStatus.Worker) -> Style {
    switch worker.state {
    case .failed, .stopped: .bad
    case .running, .waiting, .ending, .retrying, .paused: worker.isWell(lagMilliseconds: 60_000) ? .good : .warning
    }
  }

  private static func grade(_ path: NodeStatus.Path) -> Style {
    switch path.state {
    case .failed, .givenUp: .bad
    case .connected, .waiting: path.isWell(lagMilliseconds: 60_000) ? .good : .warning
    }
  }

  private static func news(
    _ answer: JSONObject, _ workers: [NodeStatus.Worker], _ paths: [NodeStatus.Path]
  ) -> Line {
    let grades = workers.map(grade) + paths.map(grade)
    let problems = grades.filter { $0 != .good }.count
    if answer.object("conf_refused") != nil { return Line(text: "the conf loaded last is refused", style: .bad) }
    guard problems > 0 else {
      return Line(text: "all is well: \(workers.count.counted("worker")) running", style: .good)
    }
    let isBad = grades.contains(.bad)
    let quarantined = workers.reduce(0) { $0 + $1.quarantined }
    let aside = quarantined > 0 ? ", \(quarantined) in quarantine" : ""
    return Line(text: problems.counted("problem") + aside, style: isBad ? .bad : .warning)
  }

  // The first line has the heads. Workers with problems come first, helpers only with a problem.
  private static func table(_ workers: [NodeStatus.Worker], now: Int64) -> [Line] {
    let shown = workers.filter { !$0.name.isHelper || grade($0) != .good }
    let sorted = [Style.bad, .warning, .good].flatMap { style in shown.filter { grade($0) == style } }
    let rows = sorted.map { worker -> [String] in
      let isOfRows = worker.name.kind == .capture || worker.name.kind == .apply
      return [
        worker.name.description.oneLine.cut(columns: 24), worker.state.rawValue,
        worker.lagMilliseconds.map { Lag.text(milliseconds: $0) } ?? "",
        worker.lastChangeAt.map { Lag.text(milliseconds: Double(max(0, now - $0)) / 1000) + " ago" } ?? "",
        isOfRows ? String(Int(worker.rowsPerSecond)) : "", worker.detail.oneLine,
      ]
    }
    let texts = StatusTable.columns([["WORKER", "STATE", "LAG", "LAST CHANGE", "ROWS/S", ""]] + rows)
    return zip(texts, [.head] + sorted.map(grade)).map { Line(text: $0, style: $1) }
  }

  private static func table(_ paths: [NodeStatus.Path]) -> [Line] {
    guard !paths.isEmpty else { return [] }
    let sorted = [Style.bad, .warning, .good].flatMap { style in paths.filter { grade($0) == style } }
    let rows = sorted.map { path in
      [
        path.trail.oneLine.cut(columns: 24), "\(StatusPaths.word(path.way)) \(path.peer)".oneLine.cut(columns: 26),
        path.state == .givenUp ? "given up" : path.state.rawValue,
        path.durableLagMilliseconds.map { Lag.text(milliseconds: $0) } ?? "",
        path.behindBytes.map { Size.text(bytes: Int64(clamping: $0)) } ?? "",
      ]
    }
    let texts = StatusTable.columns([["TRAIL", "WAY", "STATE", "LAG", "MISSING"]] + rows)
    return zip(texts, [.head] + sorted.map(grade)).map { Line(text: $0, style: $1) }
  }

  private static func causes(
    _ answer: JSONObject, _ workers: [NodeStatus.Worker], _ paths: [NodeStatus.Path]
  ) -> [Line] {
    func lines(_ subject: String, _ code: String, _ message: String, _ hint: String) -> [Line] {
      [Line(text: "\(subject): [\(code)] \(message)", style: .bad), Line(text: "  hint: \(hint)")]
    }
    var causes: [Line] = []
    for key in ["conf_refused", "metrics_error"] {
      guard let problem = answer.object(key).map(NodeStatus.Problem.init) else { continue }
      causes += lines(key == "conf_refused" ? "conf" : "metrics", problem.code, problem.message, problem.hint)
    }
    for worker in workers {
      if let problem = worker.problem, !problem.isPassed, worker.state != .running {
        causes += lines(worker.name.description, problem.code, problem.message, problem.hint)
      }
      for wait in worker.waits {
        causes += lines("\(worker.name) table \(wait.table)", wait.code, wait.message, wait.hint)
      }
    }
    for path in paths {
      guard let problem = path.problem else { continue }
      causes += lines("trail \(path.trail)", problem.code, problem.message, problem.hint)
    }
    return causes
  }

  private static func disk(_ answer: JSONObject, keys: Bool) -> Line {
    let end = keys ? "q ends" : ""
    guard let disk = answer.object("disk") else { return Line(text: end) }
    let limit = disk.integer("limit_bytes").map { " of \(Size.text(bytes: $0))" } ?? ""
    let full = disk.integer("seconds_until_full").map { ", full in \(Lag.text(milliseconds: Double($0) * 1000))" } ?? ""
    let bytes = Size.text(bytes: disk.integer("bytes") ?? 0)
    let text = "trails \(bytes)\(limit), free \(Size.text(bytes: disk.integer("free_bytes") ?? 0))\(full)"
    return Line(
      text: [text, end].filter { !$0.isEmpty }.joined(separator: "  "), style: full.isEmpty ? .plain : .warning)
  }
}

extension TopFrame.Style {
  /// Returns the escape sequences before and after a text of the style; empty ones without colours.
  func codes(isColoured: Bool) -> (String, String) {
    guard isColoured, let code else { return ("", "") }
    return ("\u{1b}[\(code)m", "\u{1b}[0m")
  }

  /// The parameters of the escape sequence SGR (ECMA-48, 8.3.117); nil for plain text.
  private var code: String? {
    switch self {
    case .plain: nil
    case .head: "1"
    case .good: "32"
    case .warning: "33"
    case .bad: "31"
    }
  }
}

extension String {
  /// Returns the text, cut to at most `columns` columns of a terminal. Characters of East Asian scripts and emoji count
  /// as two columns.
  ///
  ///     "store-042".cut(columns: 6)   // "store…"
  func cut(columns: Int) -> String {
    func width(_ scalar: Unicode.Scalar) -> Int {
      scalar.value >= 0x1100 && !(0x2000..<0x2e80).contains(scalar.value) ? 2 : 1
    }
    guard unicodeScalars.reduce(0, { $0 + width($1) }) > columns else { return self }
    var kept = String.UnicodeScalarView()
    var left = columns - 1
    for scalar in unicodeScalars {
      left -= width(scalar)
      guard left >= 0 else { break }
      kept.append(scalar)
    }
    return columns > 0 ? String(kept) + "…" : ""
  }
}
