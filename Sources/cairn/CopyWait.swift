import Changes
import Operating
import Steering
import SystemKit

/// Waits until the copies that were asked for have come to an apply, and shows how far they are.
struct CopyWait {
  private static let lookMilliseconds = 500
  /// Nothing is copied for as long, after something was: then it was all.
  private static let quietMilliseconds: Int64 = 2_000

  private let daemon: DaemonAddress
  private let name: WorkerName
  private let isJSON: Bool
  /// Before it was asked for.
  private let copiedBefore: Int

  init(_ arguments: Arguments, _ apply: String) throws {
    daemon = DaemonPeer.address(arguments)
    name = WorkerName(apply) ?? WorkerName(.apply, apply)
    isJSON = arguments.has("--json")
    copiedBefore = try Self.look(daemon, name)?.tablesCopied ?? 0
  }

  private static func look(_ daemon: DaemonAddress, _ name: WorkerName) throws -> NodeStatus.Worker? {
    let answer = try daemon.ask(ControlRequest(.status), seconds: 10)
    return answer.objects("workers").compactMap { NodeStatus.Worker($0) }.first { $0.name == name }
  }

  /// The exit status: 0 when copies have come, 1 when the apply rests with an error.
  func run() throws -> Int32 {
    var quietSince: Int64?
    while true {
      Clock.sleep(milliseconds: Self.lookMilliseconds)
      guard let worker = try Self.look(daemon, name) else { return 1 }
      let now = Clock.monotonicMilliseconds
      let isQuiet = worker.copying == nil && worker.tablesCopied > copiedBefore && worker.isCaughtUp
      quietSince = isQuiet ? quietSince ?? now : nil
      show(worker)
      if let since = quietSince, now - since >= Self.quietMilliseconds { return end(worker) }
      guard worker.state == .failed || worker.state == .stopped else { continue }
      clear()
      let problem = worker.problem.map { ": [\($0.code)] \($0.message)" } ?? ""
      Terminal.note("cairn: \(name) is \(worker.state.rawValue)\(problem)")
      return 1
    }
  }

  private func show(_ worker: NodeStatus.Worker) {
    guard Terminal.isErrorInteractive, let copying = worker.copying else { return }
    let bar = Display.bar(copying.rows, of: copying.estimated)
    Terminal.write(
      "\r\u{1b}[K\(bar) of \(copying.table), \(worker.tablesCopied - copiedBefore) tables done, \(Int(worker.rowsPerSecond)) rows/s",
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
      Terminal.print("copied \(count) \(count == 1 ? "table" : "tables")")
    }
    return 0
  }
}
