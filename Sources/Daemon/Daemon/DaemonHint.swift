import Changes
import ControlAPI
import SystemKit

extension CairnError {
  /// Returns the error with a hint for users of the daemon, if its own hint is only for users of `cairn replicate`.
  /// Otherwise the hint stays.
  ///
  /// - Parameter isReceived: Whether the trail comes from another node.
  /// - Parameter copyBack: The command that copies in the opposite direction; nil if there is none (``TrailHint``).
  func hinted(for worker: WorkerName, trail folder: String, isReceived: Bool = false, copyBack: String?) -> CairnError {
    let next: String? =
      switch code {
      case .sourceWentBack: TrailHint.wentBack(folder, copyBack: copyBack)
      case .sourceCaptured: TrailHint.captured(worker.name, folder, copyBack: copyBack)
      case .trailDamaged where isReceived, .checkpointForeign where isReceived && worker.kind != .apply:
        "stop this daemon, remove \(folder), and start it again: the pump fetches the trail again, and applies continue where they stopped"
      case .trailForked where worker.kind == .pump:
        "find out which one to keep ('cairn trail list' at both nodes); to keep the origin's, remove the copy's folder with its daemon stopped, run 'cairn start \(worker)' here, and 'cairn copy APPLY' for its applies when the trail has arrived"
      case .checkpointForeign where worker.kind != .apply: TrailHint.newTrail(folder, copyBack: copyBack)
      case .trailDamaged: "if it was restored or replaced for good: \(TrailHint.newTrail(folder, copyBack: copyBack))"
      case .trailMissing where worker.kind == .capture:
        PurgeWorker.newTrail(
          worker.name, trail: TrailName(Folder.lastName(of: folder)) ?? TrailName(origin: "NODE", name: worker.name))
      case .checkpointForeign: TrailHint.foreign(worker.name, copyBack: copyBack)
      default: nil
      }
    let apply = worker.kind == .apply ? worker.name : nil
    return CairnError(
      code, message, hint: next ?? CopyHint.ofDaemon(hint, apply: apply), remedy: remedy, context: context)
  }

  /// Returns the error of an apply that could not read another trail than its own, to resolve a row that both wrote.
  /// Nil for any other error.
  ///
  /// The apply tries again, since only the other trail has to be mended.
  ///
  /// - Parameter folder: Returns the folder of a trail.
  func ofOtherTrail(than trail: TrailName, at node: String, folder: (TrailName) -> String) -> CairnError? {
    guard let other = context["trail"].flatMap({ TrailName($0) }), other != trail else { return nil }
    let hint: String
    switch code {
    case .checkpointForeign:
      hint = "nothing to do: the applies to this database start again, and leave out what trail \(other) does not have"
    case .trailDamaged:
      let next =
        other.origin == node
        ? TrailHint.newTrail(folder(other), copyBack: nil)
        : "stop this daemon, remove \(folder(other)), and start it again: the pump fetches the trail again"
      hint = "this apply goes on by itself when trail \(other) can be read again: \(next)"
    default: return nil
    }
    return CairnError(code, message, hint: hint, remedy: .retry, context: context)
  }
}
