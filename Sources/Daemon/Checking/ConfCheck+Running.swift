import Changes
import Configuring
import ControlAPI

/// Checks that use the status of the running daemon of this configuration.
extension ConfCheck {
  /// Returns the workers from the daemon's status; empty if no daemon answers.
  func askWorkers() -> [NodeStatus.Worker] {
    for path in ControlClient.places(given: configuration.control.socket, state: configuration.node.state) {
      guard let answer = try? ControlClient(path).ask(ControlRequest(.status), seconds: 5),
        answer.text("node") == configuration.node.name
      else { continue }
      return answer.objects("workers").compactMap(NodeStatus.Worker.init)
    }
    return []
  }

  /// Prints the problem of a daemon's worker that has failed.
  func tellFailure(_ kind: WorkerName.Kind, _ name: String) {
    guard let worker = running.first(where: { $0.name == WorkerName(kind, name) }), worker.state == .failed,
      let problem = worker.problem, let code = ErrorCode(rawValue: problem.code)
    else { return }
    fail(CairnError(code, "the daemon stopped this worker: \(problem.message)", hint: problem.hint))
  }

  /// Prints a warning if an apply of the running daemon keeps many row versions because the trail's node has not
  /// confirmed them.
  func tellSilence(_ apply: Configuration.Apply) {
    if let silence = running.first(where: { $0.name == WorkerName(.apply, apply.name) })?.silence {
      note("the daemon \(silence)")
    }
  }
}
