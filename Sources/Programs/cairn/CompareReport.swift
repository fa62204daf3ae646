import Changes
import Comparing
import Endpoints
import Glibc
import SystemKit
import TrailText

/// The output of a comparison: as text with a progress bar, or as JSON with one object on each line.
final class CompareReport {
  /// The maximum size of a value in the JSON output, in bytes.
  private static let jsonBytes = 65_536

  private let watch: CompareWatch
  private let isJSON: Bool
  private let listed: Int
  /// The SQL dialect of the repair statements to print; nil to print none. Such statements go to standard output, and
  /// the report to standard error.
  private let dialect: Engine?
  private var sql = CompareSQL()
  private var report: Int32 { dialect == nil ? 1 : 2 }
  private var told: [NameKey: Int] = [:]
  private let begun = Clock.monotonicMilliseconds

  init(_ watch: CompareWatch, isJSON: Bool, listed: Int, sql dialect: Engine?) {
    (self.watch, self.isJSON, self.listed, self.dialect) = (watch, isJSON, listed, dialect)
    if let dialect { for line in CompareSQL.prologue(dialect) { Terminal.script(line) } }
  }

  /// Runs the comparison in `body`, shows its progress, and returns its summary. A signal stops the comparison before
  /// the next range of rows.
  func follow(_ body: ((Comparison.Event) throws -> Void) throws -> Comparison.Summary) throws -> Comparison.Summary {
    let (watch, isInteractive) = (watch, Terminal.isErrorInteractive && !isJSON)
    var signals = sigset_t()
    sigemptyset(&signals)
    for number in [SIGINT, SIGTERM, SIGHUP] { sigaddset(&signals, number) }
    pthread_sigmask(SIG_BLOCK, &signals, nil)
    let awaited = signals
    let ended = StopSignal()
    let begun = begun
    let ticker = try WorkerThread {
      var awaited = awaited
      while !ended.isSet {
        var wait = timespec(tv_sec: 0, tv_nsec: 100_000_000)
        if sigtimedwait(&awaited, nil, &wait) > 0 {
          // A second signal ends the program at once.
          pthread_sigmask(SIG_UNBLOCK, &awaited, nil)
          watch.stop.set()
        }
        if isInteractive { Self.showBar(watch.snapshot, since: begun) }
      }
    }
    defer {
      ended.set()
      _ = ticker.join()
      if isInteractive { Terminal.write("\r\u{1b}[K", to: 2) }
    }
    return try body { event in try self.tell(event) }
  }

  private static func showBar(_ now: CompareWatch.Snapshot, since begun: Int64) {
    let seconds = Double(max(1, Clock.monotonicMilliseconds - begun)) / 1000
    let rate = Int(Double(now.rows) / seconds)
    let suspects = now.suspects > 0 ? ", \(now.suspects.counted("row")) checked again" : ""
    Terminal.write(
      "\r\(now.table.oneLine): \(now.sourceRows.counted("row")), table \(now.tablesDone + 1) of \(now.tables), \(rate) rows/s\(suspects)\u{1b}[K",
      to: 2)
  }

  // MARK: Results

  private func tell(_ event: Comparison.Event) throws {
    switch event {
    case .notice(let text):
      if isJSON { emit("notice", [("text", .text(text))]) } else { line("cairn: \(text)", to: 2) }
    case .unproven(let difference): tell(difference, isProven: false)
    case .difference(let difference, let table):
      tell(difference)
      try tellSQL(difference, table)
    case .table(let result): tell(result)
    }
  }

  private func tellSQL(_ difference: Difference, _ table: ComparedTable?) throws {
    guard dialect != nil else { return }
    for _ in 0..<difference.times where !watch.stop.isSet {
      for line in try sql.statements(difference, table) { Terminal.script(line) }
    }
  }

  private func tell(_ difference: Difference, isProven: Bool = true) {
    let count = (isProven ? difference.table : "?" + difference.table).nameKey
    let known = told[count, default: 0]
    told[count] = known + difference.times
    // Rows that are equal are listed each.
    let listings = difference.kind.isOfRow ? min(difference.times, max(0, listed - known)) : 1
    for _ in 0..<listings where !watch.stop.isSet { list(difference, isProven) }
  }

  private func list(_ difference: Difference, _ isProven: Bool) {
    if isJSON {
      var members: [(String, JSONObject.Value)] = [
        ("table", .text(difference.table)), ("kind", .text(difference.kind.rawValue)),
      ]
      if !difference.column.isEmpty { members.append(("column", .text(difference.column))) }
      if !difference.key.isEmpty {
        members.append(
          (
            "key",
            .object(
              JSONObject(
                difference.key.map { ($0.name, .text($0.value.shown(max: Self.jsonBytes, forTerminal: false))) }))
          ))
      }
      if !difference.columns.isEmpty {
        let columns = difference.columns.map { column in
          var members: [(String, JSONObject.Value)] = [("name", .text(column.name))]
          for (end, value) in [("source", column.source), ("target", column.target)] {
            members.append((end, .text(value.shown(max: Self.jsonBytes, forTerminal: false))))
            if let storageClass = value.storageClass { members.append((end + "_class", .text(storageClass))) }
          }
          return JSONObject.Value.object(JSONObject(members))
        }
        members.append(("columns", .list(columns)))
      }
      return emit(isProven ? "difference" : "unproven", members)
    }
    let key = difference.key.map { "\($0.name)=\($0.value.shown)" }.joined(separator: ", ")
    let columns = difference.columns.map(\.shown)
    let what =
      switch difference.kind {
      case .missing, .extra, .different:
        "\(difference.kind.rawValue) \(key)" + (columns.isEmpty ? "" : ": " + columns.joined(separator: "; "))
      case .tableMissing: "the target has no such table"
      case .tableExtra: "the source has no such table"
      case .columnMissing: "the target has no column \(difference.column)"
      case .columnExtra: "the source has no column \(difference.column)"
      }
    line("\(difference.table): \(isProven ? "" : "not proven: ")\(what)", to: report)
  }

  private func tell(_ result: Comparison.TableResult) {
    if isJSON {
      return emit(
        "table",
        [
          ("table", .text(result.name)), ("rows", .integer(Int64(result.rows))),
          ("missing", .integer(Int64(result.missing))), ("extra", .integer(Int64(result.extra))),
          ("different", .integer(Int64(result.different))), ("mended", .integer(Int64(result.mended))),
          ("in_flight", .integer(Int64(result.inFlight))), ("finished", .bool(result.isFinished)),
          ("milliseconds", .integer(result.milliseconds)),
        ])
    }
    var text = "\(result.name): \(result.rows.counted("row"))"
    if !result.isFinished { text += ", not finished" }
    if result.differences == 0, result.inFlight == 0, result.isFinished { text += ", equal" }
    if result.differences > 0 {
      text += ", \(result.missing) missing, \(result.extra) extra, \(result.different) different"
      if result.differences > listed { text += " (\(listed) listed)" }
    }
    if result.mended > 0 { text += ", \(result.mended) repaired" }
    if result.inFlight > 0 { text += ", \(result.inFlight) still on the way" }
    line(text, to: report)
  }

  func finish(_ summary: Comparison.Summary) {
    if dialect != nil { Terminal.print("COMMIT;") }
    if isJSON {
      return emit(
        "summary",
        [
          ("equal", .bool(summary.differences == 0 && summary.inFlight == 0 && !summary.isStopped)),
          ("tables", .integer(Int64(summary.tables))), ("rows", .integer(Int64(summary.rows))),
          ("differences", .integer(Int64(summary.differences))), ("mended", .integer(Int64(summary.mended))),
          ("in_flight", .integer(Int64(summary.inFlight))),
          ("stopped", .bool(summary.isStopped)), ("tables_left", .integer(Int64(summary.tablesLeft))),
          ("milliseconds", .integer(summary.milliseconds)),
        ])
    }
    let rate = summary.rows * 1000 / max(1, Int(summary.milliseconds))
    let took =
      "\(summary.tables.counted("table")), \(summary.rows.counted("row")) in \(summary.milliseconds / 1000).\(summary.milliseconds % 1000 / 100) s, \(rate) rows/s"
    if summary.isStopped {
      return line("stopped, \(summary.tablesLeft.counted("table")) not finished: \(took)", to: report)
    }
    if summary.differences == 0, summary.inFlight == 0 { return line("equal: \(took)", to: report) }
    let flight = summary.inFlight > 0 ? ", \(summary.inFlight.counted("row")) still on the way" : ""
    let mended = summary.mended > 0 ? ", \(summary.mended) repaired" : ""
    line("\(summary.differences.counted("difference"))\(mended)\(flight): \(took)", to: report)
  }

  private func line(_ text: String, to descriptor: Int32) {
    if Terminal.isErrorInteractive { Terminal.write("\r\u{1b}[K", to: 2) }
    Terminal.write(text.oneLine + "\n", to: descriptor)
  }

  private func emit(_ event: String, _ members: [(String, JSONObject.Value)]) {
    Terminal.write(JSONObject([("event", .text(event))] + members).line + "\n", to: report)
  }
}

extension Value {
  /// The storage class of the value in SQLite, such as `integer`. Nil for a PostgreSQL value in its exact text form.
  fileprivate var storageClass: String? {
    switch self {
    case .null: "null"
    case .integer: "integer"
    case .real: "real"
    case .text: "text"
    case .blob: "blob"
    case .exact: nil
    }
  }
}

extension Difference.Column {
  /// The values of source and target as text. If both texts are equal, the text also shows the difference in bytes.
  fileprivate var shown: String {
    if let expected, expected.shown != source.shown, source.shown == target.shown {
      return "\(name) is \(source.shown) at the source, so \(expected.shown) is expected, \(target.shown) at the target"
    }
    if let (one, other) = bytes, source.shown == target.shown {
      let place = zip(one, other).enumerated().first { $1.0 != $1.1 }?.offset ?? min(one.count, other.count)
      let start = max(0, place - 8)
      return
        "\(name) differs from byte \(place + 1) on: \(source.shown(max: 40, from: start)) (\(one.count.counted("byte"))) at the source, \(target.shown(max: 40, from: start)) (\(other.count.counted("byte"))) at the target"
    }
    return "\(name) is \(source.shown) at the source, \(target.shown) at the target"
  }

  private var bytes: ([UInt8], [UInt8])? {
    switch (expected ?? source, target) {
    case (.text(let one), .text(let other)), (.blob(let one), .blob(let other)), (.exact(let one), .exact(let other)):
      (one, other)
    default: nil
    }
  }
}
