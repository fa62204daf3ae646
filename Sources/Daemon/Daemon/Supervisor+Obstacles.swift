import Changes
import ControlAPI

// Workers and tables that cannot do what a command asks.
extension Supervisor {
  /// Returns, for each worker that cannot carry out an operator's command now, a sentence with the next step.
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

  /// Returns a sentence for each suspended table whose refresh cannot begin before an operator removes the cause.
  package func waitingTables(of apply: WorkerName, _ patterns: TablePatterns) -> [String] {
    Self.notes(on: workers().first { $0.name == apply }?.waits ?? [], of: apply, patterns)
  }

  /// The number of suspended tables that an answer names.
  private static let notesMax = 20

  static func notes(on waits: [NodeStatus.Wait], of apply: WorkerName, _ patterns: TablePatterns) -> [String] {
    let held = waits.filter { !$0.goesOnWithCopy && patterns.includes($0.table) }
    let notes = held.prefix(notesMax).map { wait in
      "table \(wait.table) is suspended at \(apply), so its copy waits until the table continues: \(wait.reason); see the hint in 'cairn status'"
    }
    guard held.count > notesMax else { return notes }
    return notes + ["\(held.count - notesMax) more tables are suspended at \(apply)"]
  }

  /// Schedules the start of workers that failed because another worker had the same task, or because source and target
  /// were one database.
  static func startRefused(_ state: inout State, now: Int64) {
    for (name, entry) in state.entries where entry.supervision.rest == .failed {
      guard let code = entry.supervision.failure?.code, [.confReference, .sameDatabase].contains(code) else { continue }
      state.entries[name]?.supervision.tryAgain(at: now)
    }
  }
}
