import Changes
import ServiceKit
import Steering
import Synchronization
import SystemKit
import Trails

/// Deletes the segments of one trail that no reader needs any more, as the ``RetentionPlan`` of all trails says.
final class PurgeWorker: Worker {
  let name: WorkerName
  private let trail: String
  private let pause: Duration
  private let context: ServiceContext
  private let plan: @Sendable () -> RetentionPlan
  private let purged = Atomic<UInt64>(0)

  /// `plan` is asked each time.
  init(
    _ name: WorkerName, trail: String, every pause: Duration, _ context: ServiceContext,
    plan: @escaping @Sendable () -> RetentionPlan
  ) {
    (self.name, self.trail, self.pause, self.context, self.plan) = (name, trail, pause, context, plan)
  }

  func run(stop: StopSignal) throws {
    let folder = context.folder(of: try context.trailName(trail))
    var next: Duration = .zero
    while !stop.rest(next) {
      next = pause > .seconds(1) ? pause : .seconds(1)
      guard Folder.exists(folder + "/durable") else {
        next = .milliseconds(500)
        continue
      }
      context.note(try Trail.info(folder: folder))
      guard let below = plan().purgeBelow[trail], below > 1 else { continue }
      let gone = try Trail.purge(folder: folder, below: Position(segment: below, offset: 0))
      guard !gone.isEmpty else { continue }
      purged.add(UInt64(gone.count), ordering: .relaxed)
      context.note(try Trail.info(folder: folder))
      context.log.write(
        LogEntry(.debug, "deleted \(gone.count) segments of trail \(trail)", worker: name.description))
    }
  }

  func describe(_ status: inout NodeStatus.Worker) {
    status.trail = trail
    let count = purged.load(ordering: .relaxed)
    status.rows = count
    status.isCaughtUp = true
    if count > 0 { status.detail = "\(count) segments deleted" }
  }
}
