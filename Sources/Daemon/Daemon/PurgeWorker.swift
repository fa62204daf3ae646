import Changes
import ControlAPI
import ServiceKit
import Synchronization
import SystemKit
import Trails

/// The worker that deletes the segments that no reader needs, by the ``RetentionPlan`` of all trails.
final class PurgeWorker: Worker {
  let name: WorkerName
  private let trail: String
  private let pause: Duration
  private let context: ServiceContext
  private let trails: @Sendable () -> [TrailName]
  private let plan: @Sendable () -> RetentionPlan
  private let purged = Atomic<UInt64>(0)
  // One hour in µs: the age at which a received trail without a whole transaction is deleted.
  private static let emptyMicroseconds: Int64 = 3_600_000_000

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
        let info = try context.measure(trail)
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

  // Returns earlier if the trails are over their limit, and true if `stop` was set.
  private func rest(_ pause: Duration, _ stop: StopSignal) -> Bool {
    let limit = Clock.monotonicMilliseconds + pause.milliseconds
    while true {
      let left = limit - Clock.monotonicMilliseconds
      if stop.rest(.milliseconds(max(0, min(left, 500)))) { return true }
      if left <= 500 || (trail.isEmpty && context.intake.takePurgeDue()) { return false }
    }
  }

  // A capture with nothing to write would notice late that the trail's folder was removed or moved.
  private func checkStillThere(_ trail: TrailName) throws {
    guard context.trailInfos[trail.description] != nil, !Trail.exists(folder: context.folder(of: trail)) else { return }
    context.forget(trail: trail.description)
    guard let capture = context.capture(of: trail) else { return }
    context.restart(.init(.capture, capture.name))
    throw CairnError(
      .trailMissing, "trail \(trail) was removed or moved from \(context.statePath)",
      hint: Self.newTrail(capture.name, trail: trail), remedy: .retry, context: ["trail": trail.description])
  }

  static func newTrail(_ capture: String, trail: TrailName) -> String {
    "capture.\(capture) begins a new trail by itself; run 'cairn copy APPLY' for each apply of trail \(trail), and drop the slot of the old trail if 'cairn check' reports one"
  }

  // Deletes this node's copy of another node's trail if it has no whole transaction and nothing arrived for an hour. A
  // node that still sends the trail starts the copy again.
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
    context.note(try context.measure(trail))
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
