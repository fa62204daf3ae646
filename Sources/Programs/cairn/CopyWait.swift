import Changes
import ControlAPI
import SystemKit

/// Waits until requested refreshes of tables have arrived at the target of an apply, and shows their progress.
struct CopyWait {
  private static let lookMilliseconds = 500
  /// The time without a running refresh, in ms, after which the requested refreshes count as complete.
  private static let quietMilliseconds: Int64 = 2_000
  /// The time without a running refresh, in ms, after which a table that is still suspended is reported.
  private static let heldMilliseconds: Int64 = 10_000
  private static let heldFromAfarMilliseconds: Int64 = 60_000

  private let daemon: DaemonAddress
  private let name: WorkerName
  private let isJSON: Bool
  private let copiedBefore: Int

  init(_ arguments: Arguments, _ apply: String) throws {
    daemon = DaemonPeer.address(arguments)
    name = WorkerName(apply) ?? WorkerName(.apply, apply)
    isJSON = arguments.has("--json")
    copiedBefore = try Self.look(daemon, name)?.apply.tablesCopied ?? 0
  }

  /// Returns the status of the apply, of the capture of its trail, and the time of the daemon's answer. Nil if the
  /// apply does not exist; `capture` is nil for a capture at another node.
  private static func look(
    _ daemon: DaemonAddress, _ name: WorkerName
  ) throws -> (apply: NodeStatus.Worker, capture: NodeStatus.Worker?, made: String)? {
    let answer = try daemon.ask(ControlRequest(.status), seconds: 10)
    let workers = answer.objects("workers").compactMap { NodeStatus.Worker($0) }
    return workers.first { $0.name == name }.map { apply in
      (apply, workers.first { $0.name.kind == .capture && $0.trail == apply.trail }, answer.text("now") ?? "")
    }
  }

  /// Waits until the refreshes of tables have arrived at the target.
  /// - Parameter count: The number of tables, as far as known.
  /// - Returns: The exit status: 0 if the refreshes have arrived; 1 if they cannot arrive, or if the operator must act
  ///   for a table first.
  func run(_ tables: TablePatterns, count: Int) throws -> Int32 {
    var quietSince: Int64?
    var heldSince: Int64?
    var (stale, isFresh) = (String?.none, false)
    while true {
      Clock.sleep(milliseconds: Self.lookMilliseconds)
      guard let (worker, capture, made) = try Self.look(daemon, name) else { return 1 }
      // The first status may be older than the execution of the request.
      if !isFresh {
        isFresh = stale.map { $0 != made } ?? false
        stale = made
        guard isFresh else { continue }
      }
      let now = Clock.monotonicMilliseconds
      let isAtRest = worker.copying == nil && isThere(worker, count)
      let held = worker.waits.filter { tables.includes($0.table) }
      // A suspended table may be among those that the status does not list.
      let isUnknown = worker.moreWaits > 0
      heldSince = worker.copying == nil && (isUnknown || !held.isEmpty) ? heldSince ?? now : nil
      let patience = capture == nil ? Self.heldFromAfarMilliseconds : Self.heldMilliseconds
      let isHeld = held.contains { !$0.goesOnWithCopy } || heldSince.map { now - $0 >= patience } ?? false
      let isQuiet = isAtRest && held.isEmpty && !isUnknown && worker.tablesCopied > copiedBefore
      quietSince = isQuiet ? quietSince ?? now : nil
      show(worker)
      if let since = quietSince, now - since >= Self.quietMilliseconds { return end(worker) }
      if let resting = [worker, capture].compactMap(\.self).first(where: { [.failed, .stopped].contains($0.state) }) {
        tell(resting)
        return 1
      }
      guard isHeld else { continue }
      clear()
      for wait in held { tell("table \(wait.table) is suspended at \(name): \(wait.reason)", hint: wait.hint) }
      if held.isEmpty {
        tell(
          "\(worker.moreWaits) suspended tables of \(name) are not listed, perhaps also one of these",
          hint: "mend the tables that 'cairn status' lists, and copy again")
      }
      return 1
    }
  }

  private func isThere(_ worker: NodeStatus.Worker, _ count: Int) -> Bool {
    worker.isCaughtUp || !worker.waits.isEmpty && worker.tablesCopied - copiedBefore >= count
  }

  private func tell(_ resting: NodeStatus.Worker) {
    clear()
    let problem = resting.problem.map { ": [\($0.code)] \($0.message)" } ?? ""
    let what = "\(resting.name) \(resting.state == .failed ? "has failed" : "is stopped")"
    let start = "run 'cairn start \(resting.name)'"
    let consequence = resting.name == name ? "" : ", so no copy arrives"
    tell(
      what + consequence + (resting.state == .failed ? problem : ""),
      hint: resting.state == .failed ? resting.problem?.hint ?? start : start)
  }

  private func tell(_ text: String, hint: String) {
    Terminal.note("cairn: \(text)")
    if !hint.isEmpty { Terminal.note("hint: \(hint)") }
  }

  private func show(_ worker: NodeStatus.Worker) {
    guard Terminal.isErrorInteractive, let copying = worker.copying else { return }
    let bar = Display.bar(copying.rows, of: copying.estimated)
    Terminal.write(
      "\r\u{1b}[K\(bar) of \(copying.table.oneLine), \((worker.tablesCopied - copiedBefore).counted("table")) done, \(Int(worker.rowsPerSecond)) rows/s",
      to: 2)
  }

  private func clear() { if Terminal.isErrorInteractive { Terminal.write("\r\u{1b}[K", to: 2) } }

  private func end(_ worker: NodeStatus.Worker) -> Int32 {
    clear()
    let count = worker.tablesCopied - copiedBefore
    if isJSON {
      Terminal.print(
        JSONObject([
          ("event", .text("copied")), ("apply", .text(name.name)), ("tables", .integer(Int64(count))),
        ]).line)
    } else {
      Terminal.print("copied \(count.counted("table"))")
    }
    return 0
  }
}
