import Changes
import ControlAPI
import Replicating

/// Formats the transfers of trails in a daemon's status.
struct StatusPaths {
  private let paths: [(path: NodeStatus.Path, seen: String)]
  private let leftOut: Int64

  init(_ answer: JSONObject) {
    leftOut = answer.integer("paths_more") ?? 0
    paths = answer.objects("paths").compactMap { object in
      NodeStatus.Path(object).map { ($0, object.text("seen_at") ?? "") }
    }
  }

  var lines: [String] {
    guard !paths.isEmpty else { return [] }
    let header = ["TRAIL", "WAY", "PEER", "STATE", "BEHIND", "DURABLE THERE", "APPLIED THERE", "BYTES/S", "LAST SEEN"]
    var lines = [""] + StatusTable.columns([header] + paths.map { row($0.path, $0.seen) })
    for (path, _) in paths {
      guard let problem = path.problem else { continue }
      lines += ["", "\(path.trail) \(Self.way(path)): [\(problem.code)] \(problem.message)", "  hint: \(problem.hint)"]
    }
    let rest = Int(clamping: leftOut).counted("more path")
    if leftOut > 0 { lines += ["", "\(rest) left out, as the list is too long"] }
    return lines
  }

  private func row(_ path: NodeStatus.Path, _ seen: String) -> [String] {
    let isForked = path.problem?.code == ErrorCode.trailForked.rawValue
    func lag(_ milliseconds: Double?, _ isKnown: Bool) -> String {
      milliseconds.map { Lag.text(milliseconds: $0) } ?? (isKnown && !isForked ? "far behind" : "")
    }
    let state = path.state == .givenUp ? "given up" : path.state.rawValue
    return [
      path.trail, Self.word(path.way), path.peer, state,
      path.behindBytes.map { Size.text(bytes: Int64(clamping: $0)) } ?? "",
      lag(path.durableLagMilliseconds, path.way.isOutward && !path.durable.isEmpty),
      lag(path.appliedLagMilliseconds, !path.applied.isEmpty), Size.text(bytes: Int64(path.bytesPerSecond)),
      seen.isEmpty ? (path.way.isOutward ? "never" : "") : "\(seen.prefix(19))Z",
    ]
  }

  static func word(_ way: NodeStatus.Path.Direction) -> String {
    switch way {
    case .push: "pushed to"
    case .pull: "pulled from"
    case .served: "pulled by"
    case .received: "pushed by"
    }
  }

  private static func way(_ path: NodeStatus.Path) -> String { "\(word(path.way)) \(path.peer)" }
}
