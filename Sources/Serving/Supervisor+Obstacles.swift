import Changes
import Steering

// Workers that do not do what the operator, or another worker, waits for.
extension Supervisor {
  /// Returns why workers do not carry out an order, a sentence for each with its next step. Workers that are started
  /// again by themselves are left out.
  package func obstacles(_ names: [WorkerName]) -> [String] {
    workers().filter { names.contains($0.name) }.compactMap { worker in
      switch worker.state {
      case .stopped: "\(worker.name) is stopped: run 'cairn start \(worker.name)'"
      case .failed:
        "\(worker.name) has failed\(worker.problem.map { ": [\($0.code)] \($0.message)" } ?? ""); see the hint in 'cairn status', then run 'cairn start \(worker.name)'"
      case .paused: "\(worker.name) is paused: \(worker.detail)"
      case .running, .waiting, .ending, .retrying: nil
      }
    }
  }

  /// Returns a sentence for each table of an apply that waits for something other than a copy: a requested copy follows
  /// that.
  package func waitingTables(of apply: WorkerName, _ patterns: TablePatterns) -> [String] {
    let waits = workers().first { $0.name == apply }?.waits ?? []
    return waits.filter { !$0.goesOnWithCopy && patterns.includes($0.table) }.map { wait in
      "table \(wait.table) is suspended at \(apply), so its copy waits until the table continues: \(wait.reason); see the hint in 'cairn status'"
    }
  }

  /// Starts workers that were refused for the sake of another one, which has gone or changed since.
  static func startRefused(_ state: inout State, now: Int64) {
    for (name, entry) in state.entries where entry.supervision.rest == .failed {
      guard let code = entry.supervision.failure?.code, [.confReference, .sameDatabase].contains(code) else { continue }
      state.entries[name]?.supervision.tryAgain(at: now)
    }
  }
}
