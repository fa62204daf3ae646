import Changes
import ServiceKit
import Steering
import Synchronization
import SystemKit
import Trails

/// Deletes the segments that no reader needs any longer, as the ``RetentionPlan`` of all trails decides.
final class PurgeWorker: Worker {
  let name: WorkerName
  /// The trail's name for the status; empty for several trails.
  private let trail: String
  private let pause: Duration
  private let context: ServiceContext
  private let trails: @Sendable () -> [TrailName]
  private let plan: @Sendable () -> RetentionPlan
  private let purged = Atomic<UInt64>(0)
  /// The age in µs at which a received trail without any whole transaction is deleted: one hour.
  private static let emptyMicroseconds: Int64 = 3_600_000_000

  /// Creates the worker.
  ///
  /// - Parameter trails: Returns the trails to purge; called in each round.
  /// - Parameter plan: Returns the segments that may be deleted; called in each round.
  init(
    _ name: WorkerName, _ trail: String, every pause: Duration, _ context: ServiceContext,
    trails: @escaping @Sendable () -> [TrailName], plan: @escaping @Sendable () -> RetentionPlan
  ) {
    (self.name, self.trail, self.pause, self.context) = (name, trail, pause, context)
    (self.trails, self.plan) = (trails, plan)
  }

  func run(stop: StopSignal) throws {
    var next: Duration = .zero
    while !rest(next, stop) {
      next = pause > .seconds(1) ? pause : .seconds(1)
      for trail in trails() { try checkStillThere(trail) }
      let there = trails().filter { Trail.exists(folder: context.folder(of: $0)) }
      if there.isEmpty { next = .milliseconds(500) }
      for trail in there {
        let info = try Trail.info(folder: context.folder(of: trail))
        if try !dropEmpty(info) { context.note(info) }
      }
      let below = plan().purgeBelow
      for trail in there where !stop.isSet {
        Pulse.beat()
        guard let below = below[trail.description], below > 1 else { continue }
        try purge(trail, below: below)
      }
    }
  }

  /// Waits for `pause`, or less if segments must be deleted because the trails are over their limit. Returns true if
  /// `stop` was set meanwhile.
  private func rest(_ pause: Duration, _ stop: StopSignal) -> Bool {
    let limit = Clock.monotonicMilliseconds + pause.milliseconds
    while true {
      let left = limit - Clock.monotonicMilliseconds
      if stop.rest(.milliseconds(max(0, min(left, 500)))) { return true }
      if left <= 500 || (trail.isEmpty && context.intake.takePurgeDue()) { return false }
    }
  }

  /// Checks that the folder of a trail was not removed or moved. If it was, restarts the capture of this node that
  /// writes the trail. A capture with nothing to write would otherwise notice it late.
  ///
  /// - Throws: `trail-missing` if the folder is gone, and a capture of this node writes the trail.
  private func checkStillThere(_ trail: TrailName) throws {
    guard context.trailInfos[trail.description] != nil, !Trail.exists(folder: context.folder(of: trail)) else { return }
    context.forget(trail: trail.description)
    guard let capture = context.capture(of: trail) else { return }
    context.restart(.init(.capture, capture.name))
    throw CairnError(
      .trailMissing, "trail \(trail) was removed or moved from \(context.statePath)",
      hint: Self.newTrail(capture.name, trail: trail), remedy: .retry, context: ["trail": trail.description])
  }

  /// Returns the hint for an error about a trail whose folder was removed or moved.
  static func newTrail(_ capture: String, trail: TrailName) -> String {
    "capture.\(capture) begins a new trail by itself; run 'cairn copy APPLY' for each apply of trail \(trail), and drop the slot of the old trail if 'cairn check' reports one"
  }

  /// Deletes this node's copy of another node's trail if it has no whole transaction, no apply reads it, and nothing
  /// arrived for an hour. Returns true if the copy was deleted. A node that still sends the trail starts the copy
  /// again.
  private func dropEmpty(_ info: TrailInfo) throws -> Bool {
    func isForgotten(_ info: TrailInfo) -> Bool {
      info.isEmpty && Clock.system.microseconds() - info.writtenAt > Self.emptyMicroseconds
    }
    let trail = info.name
    guard self.trail.isEmpty, isForgotten(info),
      !context.configuration.applies.contains(where: { $0.trail == trail.description }),
      try context.copies.remove(trail, if: { _ in isForgotten(try Trail.info(folder: context.folder(of: trail))) })
    else { return false }
    context.forget(trail: trail.description)
    context.log.write(
      LogEntry(
        .notice, "deleted the copy of trail \(trail): it has no transaction, and nothing arrived for an hour",
        worker: name.description))
    return true
  }

  private func purge(_ trail: TrailName, below: UInt64) throws {
    let folder = context.folder(of: trail)
    let gone = try Trail.purge(folder: folder, below: Position(segment: below, offset: 0))
    guard !gone.isEmpty else { return }
    purged.add(UInt64(gone.count), ordering: .relaxed)
    context.note(try Trail.info(folder: folder))
    context.log.write(
      LogEntry(.debug, "deleted \(gone.count.counted("segment")) of trail \(trail)", worker: name.description))
  }

  func describe(_ status: inout NodeStatus.Worker) {
    status.trail = trail
    let count = purged.load(ordering: .relaxed)
    status.rows = count
    status.isCaughtUp = true
    if count > 0 { status.detail = "\(count.counted("segment")) deleted" }
  }
}
