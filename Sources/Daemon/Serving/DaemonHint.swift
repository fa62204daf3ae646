import Changes
import Steering
import SystemKit

extension CairnError {
  /// Returns the error with a hint for users of the daemon, if its own hint is only for users of `cairn replicate`.
  ///
  /// - Parameter isReceived: Whether the trail comes from another node.
  func hinted(for worker: WorkerName, trail folder: String, isReceived: Bool = false) -> CairnError {
    let next: String? =
      switch code {
      case .slotLost:
        "run 'cairn copy APPLY' with an apply of this trail: it creates slot and publication again, and copies every table"
      case .sourceWentBack: TrailHint.wentBack(folder)
      case .sourceCaptured: TrailHint.captured(worker.name, folder)
      case .trailDamaged where isReceived:
        "stop this daemon, remove \(folder), and start it again: the pump fetches the trail again, and applies continue where they stopped"
      case .trailForked where worker.kind == .pump:
        "find out which one to keep ('cairn trail list' at both nodes); to keep the origin's, remove the copy's folder with its daemon stopped, run 'cairn start \(worker)' here, and 'cairn copy APPLY' for its applies when the trail has arrived"
      case .trailDamaged: "if it was restored or replaced for good: \(TrailHint.newTrail(folder))"
      case .trailMissing where worker.kind == .capture:
        PurgeWorker.newTrail(
          worker.name, trail: TrailName(Folder.lastName(of: folder)) ?? TrailName(origin: "NODE", name: worker.name))
      case .checkpointForeign where worker.kind == .apply:
        "put back the state folder that was used last, or run 'cairn copy \(worker.name)', which copies everything again; if both ends take writes, run 'cairn compare \(worker.name)' first: the copy removes rows that only the target has"
      case .rowMissing, .rowDiffers, .rowExists:
        worker.kind == .apply
          ? "find out which program writes to the target; 'cairn copy \(worker.name)' copies everything again and continues"
          : nil
      default: nil
      }
    guard let next else { return self }
    return CairnError(code, message, hint: next, remedy: remedy, context: context)
  }
}
