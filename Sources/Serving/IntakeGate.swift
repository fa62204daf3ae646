import Changes
import Synchronization
import SystemKit
import Trails

/// Whether there is room for what peers bring, by what the trails held when they were looked at and what has come since.
struct IntakeRoom: Equatable, Sendable {
  /// What `[limits] disk` allows; nil: as much as there is.
  var allowed: UInt64?
  /// What the trails hold.
  var held: UInt64 = 0
  /// What is left of it when all that may go has been deleted.
  var left: UInt64 = 0
  /// Not even that has room, and somebody needs it.
  var isPaused = false

  /// `more` bytes have come since.
  func isFull(_ more: UInt64) -> Bool {
    guard let allowed else { return false }
    if isPaused { return true }
    // Where all is applied, only the segments that are being written are left: they go when more comes.
    if held > allowed, held <= left { return false }
    return held + more > allowed
  }

  /// Something may be deleted that is in the way.
  var isPurgeDue: Bool { allowed.map { held > $0 && held > left } ?? false }
}

extension IntakeRoom {
  /// Looks at the trails that come from other nodes as they are now; those that begin here are as their purge saw them.
  init(_ context: ServiceContext, plan: () -> RetentionPlan) {
    guard let allowed = context.configuration.limits.diskBytes else {
      self.init()
      return
    }
    for trail in (try? Trail.names(state: context.statePath)) ?? [] where trail.origin != context.node {
      if let info = try? Trail.info(folder: context.folder(of: trail)) { context.note(info) }
    }
    let held = context.trailInfos.values.reduce(0) { $0 + $1.bytes }
    let plan = plan()
    self.init(allowed: UInt64(max(0, allowed)), held: held, left: plan.bytes, isPaused: plan.pausesCaptures)
  }
}

extension ServiceContext {
  /// Whether bytes of other nodes' trails may come now.
  func hasRoom(_ plan: () -> RetentionPlan) -> Bool {
    !isFull && !intake.isFull(now: Clock.monotonicMilliseconds) { IntakeRoom(self, plan: plan) }
  }
}

/// Asks whether there is room with each body that comes, and looks at the trails once a second for that.
final class IntakeGate: Sendable {
  private static let lookMilliseconds: Int64 = 1_000

  private struct Looked: Sendable {
    var room: IntakeRoom
    var at: Int64
    /// Bytes that had come then.
    var come: UInt64
  }

  private let looked = Mutex<Looked?>(nil)
  private let come = Atomic<UInt64>(0)
  private let purgeDue = Atomic<Bool>(false)

  /// Bytes have come.
  func note(_ bytes: Int) { come.add(UInt64(bytes), ordering: .relaxed) }

  /// `now` is monotonic, in milliseconds. Who asks meanwhile waits for the look.
  func isFull(now: Int64, look: () -> IntakeRoom) -> Bool {
    looked.withLock { looked in
      var last = looked ?? Looked(room: IntakeRoom(), at: now - Self.lookMilliseconds, come: 0)
      if now - last.at >= Self.lookMilliseconds {
        let before = come.load(ordering: .relaxed)
        last = Looked(room: look(), at: now, come: before)
        looked = last
        purgeDue.store(last.room.isPurgeDue, ordering: .relaxed)
      }
      return last.room.isFull(come.load(ordering: .relaxed) - last.come)
    }
  }

  static func full(_ node: String) -> CairnError {
    CairnError(
      .diskBudget, "the trails of node \(node) hold more than its [limits] disk allows",
      hint: "see 'cairn status' at \(node) for who is behind, or raise [limits] disk there", remedy: .retry)
  }

  /// Whether bytes wait for segments to be deleted; true once for each look.
  func takePurgeDue() -> Bool { purgeDue.exchange(false, ordering: .relaxed) }
}
