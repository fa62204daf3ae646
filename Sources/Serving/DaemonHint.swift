import Changes
import Steering
import SystemKit

extension CairnError {
  /// Returns the error with the hint for a worker of a daemon, if that differs from the hint for `cairn replicate`.
  ///
  /// - Parameter isReceived: Whether the trail comes from another node.
  func hinted(for worker: WorkerName, trail folder: String, isReceived: Bool = false) -> CairnError {
    let next: String? =
      switch code {
      case .slotLost:
        "run 'cairn copy APPLY' with an apply of this trail: slot and publication are made anew, and every table is copied again"
      case .sourceWentBack: TrailHint.wentBack(folder)
      case .sourceCaptured: TrailHint.captured(worker.name, folder)
      case .trailDamaged where isReceived:
        "stop this daemon, remove \(folder), and start it again: the trail is fetched once more from the node that sends it, and applies go on where they were"
      case .trailForked where worker.kind == .pump:
        "find out which one is true ('cairn trail list' at both nodes); to take the origin's, remove the copy's folder with its daemon stopped, 'cairn start \(worker)' here, and 'cairn copy' the applies when the trail has come"
      case .trailDamaged: "if it was restored or replaced for good: \(TrailHint.anew(folder))"
      case .trailMissing where worker.kind == .capture:
        PurgeWorker.anew(
          worker.name, trail: TrailName(Folder.lastName(of: folder)) ?? TrailName(origin: "NODE", name: worker.name))
      case .checkpointForeign where worker.kind == .apply:
        "put the state folder back that was used last, or run 'cairn copy \(worker.name)', which copies everything again; if both ends are written, run 'cairn compare \(worker.name)' first: the copy removes rows that only the target has"
      case .rowMissing, .rowDiffers, .rowExists:
        worker.kind == .apply
          ? "find out what else writes to the target; 'cairn copy \(worker.name)' copies everything again and goes on"
          : nil
      default: nil
      }
    guard let next else { return self }
    return CairnError(code, message, hint: next, remedy: remedy, context: context)
  }
}
