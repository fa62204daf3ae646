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

  /// A peer that has been silent for so long that much is kept for it.
  func tellSilence(_ apply: Configuration.Apply) {
    if let silence = running.first(where: { $0.name == WorkerName(.apply, apply.name) })?.silence {
      note("the daemon \(silence)")
    }
  }
}
