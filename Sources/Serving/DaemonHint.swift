import Changes
import Steering
import SystemKit

extension CairnError {
  /// With the next step as it is for a worker of a daemon, where that is another than for `cairn replicate`.
  func hinted(for worker: WorkerName, trail folder: String) -> CairnError {
    let next: String? =
      switch code {
      case .slotLost:
        "run 'cairn copy APPLY' with an apply of this trail: slot and publication are made anew, and every table is copied again"
      case .sourceWentBack: TrailHint.wentBack(folder)
      case .sourceCaptured: TrailHint.captured(worker.name, folder)
      case .trailDamaged: "if it was restored or replaced for good: \(TrailHint.anew(folder))"
      case .trailMissing where worker.kind == .capture:
        PurgeWorker.anew(
          worker.name, trail: TrailName(Folder.lastName(of: folder)) ?? TrailName(origin: "NODE", name: worker.name))
      case .rowMissing, .rowDiffers, .rowExists, .checkpointForeign:
        worker.kind == .apply
          ? "find out what else writes to the target; 'cairn copy \(worker.name)' copies everything again and goes on"
          : nil
      default: nil
      }
    guard let next else { return self }
    return CairnError(code, message, hint: next, remedy: remedy, context: context)
  }
}
