import Changes
import Configuring
import Steering

/// What only the daemon knows, where the one of this conf runs.
extension ConfCheck {
  /// Its workers; empty where it does not answer.
  func askWorkers() -> [NodeStatus.Worker] {
    for path in ControlClient.places(given: configuration.control.socket, state: configuration.node.state) {
      guard let answer = try? ControlClient(path).ask(ControlRequest(.status), seconds: 5),
        answer.text("node") == configuration.node.name
      else { continue }
      return answer.objects("workers").compactMap(NodeStatus.Worker.init)
    }
    return []
  }

  /// A worker of the daemon that has failed, and needs a person.
  func tellFailure(_ kind: WorkerName.Kind, _ name: String) {
    guard let worker = running.first(where: { $0.name == WorkerName(kind, name) }), worker.state == .failed,
      let problem = worker.problem, let code = ErrorCode(rawValue: problem.code)
    else { return }
    fail(CairnError(code, "the daemon has stopped it: \(problem.message)", hint: problem.hint))
  }

  /// A peer that has been silent for so long that much is kept for it.
  func tellSilence(_ apply: Configuration.Apply) {
    if let silence = running.first(where: { $0.name == WorkerName(.apply, apply.name) })?.silence {
      note("the daemon \(silence)")
    }
  }
}
