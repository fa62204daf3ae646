import ControlAPI

// Metrics of trails on their way between nodes.
extension Metrics {
  static let paths: [Metric] = [
    Metric(
      name: "cairn_path_state", kind: .gauge, labels: "trail, peer, way, state",
      help: "1 for the state of a trail's way to another node (push, served) or from there (pull, received)."
    ) { status in
      status.paths.flatMap { path in
        NodeStatus.Path.State.allCases.map { state in
          Sample(labels: labels(path) + [("state", state.rawValue)], value: path.state == state ? 1 : 0)
        }
      }
    },
    Metric(
      name: "cairn_path_lag_seconds", kind: .gauge, labels: "trail, peer, way, stage",
      help:
        "Time since the other node last had everything (stage durable), or last had applied everything "
        + "(stage applied)."
    ) { status in
      status.paths.flatMap { path in
        [("durable", path.durableLagMilliseconds), ("applied", path.appliedLagMilliseconds)].compactMap { stage, lag in
          lag.map { Sample(labels: labels(path) + [("stage", stage)], value: $0 / 1000) }
        }
      }
    },
    of("cairn_path_behind_bytes", .gauge, "Bytes of the trail that the other node does not have.") {
      $0.behindBytes.map { Double($0) }
    },
    of("cairn_path_bytes_total", .counter, "Bytes of the trail that went this way since the daemon was started.") {
      Double($0.bytes)
    },
    of("cairn_path_seen_time_seconds", .gauge, "Last contact with the other node, in seconds since 1970.") {
      $0.seenAt.map { Double($0) / 1e6 }
    },
  ]

  private static func labels(_ path: NodeStatus.Path) -> [(String, String)] {
    [("trail", path.trail), ("peer", path.peer), ("way", path.way.rawValue)]
  }

  private static func of(
    _ name: String, _ kind: Kind, _ help: String, _ value: @escaping @Sendable (NodeStatus.Path) -> Double?
  ) -> Metric {
    Metric(name: name, kind: kind, labels: "trail, peer, way", help: help) { status in
      status.paths.compactMap { path in value(path).map { Sample(labels: labels(path), value: $0) } }
    }
  }
}
