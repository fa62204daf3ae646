import Changes
import Steering

// Who does not do what a person, or another worker, waits for.
extension Supervisor {
  /// Why workers do not go about what was just asked for, a sentence for each with its next step; what is tried again by
  /// itself is none.
  package func obstacles(_ names: [WorkerName]) -> [String] {
    workers().filter { names.contains($0.name) }.compactMap { worker in
      switch worker.state {
      case .stopped: "\(worker.name) is stopped: run 'cairn start \(worker.name)'"
      case .failed:
        "\(worker.name) has failed\(worker.problem.map { ": [\($0.code)] \($0.message)" } ?? ""); see 'cairn status' for what mends it, then run 'cairn start \(worker.name)'"
      case .paused: "\(worker.name) rests: \(worker.detail)"
      case .running, .waiting, .ending, .retrying: nil
      }
    }
  }

  /// Tables of an apply that wait for something else than a copy, so that one that was asked for comes after that.
  package func waitingTables(of apply: WorkerName, _ patterns: TablePatterns) -> [String] {
    let waits = workers().first { $0.name == apply }?.waits ?? []
    return waits.filter { !$0.goesOnWithCopy && patterns.includes($0.table) }.map { wait in
      "table \(wait.table) waits at \(apply), so its copy comes when it goes on: \(wait.reason); see 'cairn status' for what it waits for"
    }
  }

  /// A worker was refused for what another one does, and that one is gone or does something else now.
  static func startRefused(_ state: inout State, now: Int64) {
    for (name, entry) in state.entries where entry.supervision.rest == .failed {
      guard let code = entry.supervision.failure?.code, [.confReference, .sameDatabase].contains(code) else { continue }
      state.entries[name]?.supervision.tryAgain(at: now)
    }
  }
}
