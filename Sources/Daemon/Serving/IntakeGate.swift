import Changes
import Configuring
import Synchronization
import SystemKit
import Trails

/// Decides whether peers may send more bytes, by the size of the trails at the last check and the bytes received since.
struct IntakeRoom: Equatable, Sendable {
  /// The bytes that `[limits] disk` allows; nil: no limit.
  var allowed: UInt64?
  /// The bytes that the trails hold on the disk.
  var held: UInt64 = 0
  /// The bytes that the trails will hold when all deletable segments have been deleted.
  var left: UInt64 = 0
  /// The part of ``held`` in segments that are fully applied: they can be deleted only when more bytes have arrived.
  var live: UInt64 = 0
  /// Whether the retention plan pauses captures, because the trails exceed their budget even after every possible
  /// deletion.
  var isPaused = false
  /// The share of each node: the part of the trails that it sends.
  var peers: [String: Share] = [:]

  /// A part of the trails with its own limit: the bytes that `[peer.NAME] disk` allows; other fields as for all trails.
  struct Share: Equatable, Sendable {
    var allowed: UInt64
    var held: UInt64
    var left: UInt64 = 0
    var live: UInt64 = 0

    func isFull(_ more: UInt64) -> Bool {
      // Nothing can be deleted before more has come.
      if held > allowed, held <= left { return held + more > allowed + live }
      return held + more > allowed
    }
  }

  /// Returns whether the trails are full, if `more` bytes have arrived since the measurement.
  func isFull(_ more: UInt64) -> Bool {
    guard let allowed else { return false }
    return isPaused || Share(allowed: allowed, held: held, left: left, live: live).isFull(more)
  }

  /// Returns whether a node's own limit is reached, if it has sent `more` bytes since the measurement.
  func isFull(for peer: String, _ more: UInt64) -> Bool { peers[peer].map { $0.isFull(more) } ?? false }

  /// Whether the trails exceed their budget and some of their segments can be deleted.
  var isPurgeDue: Bool {
    (allowed.map { held > $0 && held > left } ?? false)
      || peers.values.contains { $0.held > $0.allowed && $0.held > $0.left }
  }
}

extension IntakeRoom {
  /// Measures the trails of other nodes now, and takes the sizes of this node's trails from their last purge.
  init(_ context: ServiceContext, plan: () -> RetentionPlan) {
    let configuration = context.configuration
    let limited = configuration.shares.compactMap { share in share.diskBytes.map { (share, $0) } }
    guard configuration.limits.diskBytes != nil || !limited.isEmpty else {
      self.init()
      return
    }
    for trail in (try? Trail.names(state: context.statePath)) ?? [] where trail.origin != context.node {
      if let info = try? Trail.info(folder: context.folder(of: trail)) { context.note(info) }
    }
    let infos = context.trailInfos.values
    self.init(held: infos.reduce(0) { $0 + $1.onDisk })
    let plan = plan()
    if let allowed = configuration.limits.diskBytes {
      self.allowed = UInt64(max(0, allowed))
      (left, live, isPaused) = (plan.bytes, plan.live, plan.pausesCaptures)
    }
    for (share, allowed) in limited {
      var part = Share(allowed: UInt64(clamping: allowed), held: 0)
      for info in infos where info.name.origin != context.node && share.includes(info.name) {
        let trail = plan.parts[info.name.description]
        part.held += info.onDisk
        part.left += trail?.bytes ?? info.onDisk
        part.live += trail?.live ?? 0
      }
      peers[share.node] = part
    }
  }
}

extension ServiceContext {
  /// Returns whether there is space for bytes of other nodes' trails now.
  func hasRoom(_ plan: () -> RetentionPlan) -> Bool {
    !isFull && !intake.isFull(now: Clock.monotonicMilliseconds) { IntakeRoom(self, plan: plan) }
  }

  /// Returns the reason why a node may send nothing now; nil if it may.
  func obstacle(for peer: String, _ plan: () -> RetentionPlan) -> CairnError? {
    if !hasRoom(plan) { return IntakeGate.full(node) }
    guard intake.isFull(for: peer) else { return nil }
    return CairnError(
      .diskBudget, "the trails that node '\(peer)' brings hold more than [peer.\(peer)] disk allows",
      hint: "see in 'cairn status' at \(node) which apply or peer lags, or \(raising("disk", of: peer)) there",
      remedy: .retry,
      context: ["peer": peer])
  }

  /// Returns why a node may not begin another trail; nil: it may.
  func obstacle(for peer: String, beginning trail: TrailName) -> CairnError? {
    guard let share = share(of: peer), !copies.exists(trail) else { return nil }
    let there = ((try? Trail.names(state: statePath)) ?? []).count { $0.origin != node && share.includes($0) }
    guard there >= share.trails else { return nil }
    return CairnError(
      .diskBudget,
      "node '\(peer)' may not begin trail \(trail): it has \(there.counted("trail")) here already, which is its limit",
      hint: "delete trails that are no longer needed at \(node), or \(raising("trails", of: peer)) there",
      remedy: .retry,
      context: ["peer": peer, "trail": trail.description])
  }

  /// Returns the budget of a node in the conf; nil if the node may send nothing.
  func share(of peer: String) -> Configuration.Share? { configuration.shares.first { $0.node == peer } }

  private func raising(_ option: String, of peer: String) -> String {
    share(of: peer)?.isPeer == true
      ? "raise [peer.\(peer)] \(option)" : "add [peer.\(peer)] with may and \(option)"
  }
}

/// A gate that checks for room before each body and with each piece of it. It measures the trails at most once a
/// second.
final class IntakeGate: Sendable {
  private static let lookMilliseconds: Int64 = 1_000

  private struct Looked: Sendable {
    var room: IntakeRoom
    var at: Int64
    /// The number of bytes that had been received at the time of the measurement.
    var come: UInt64
  }

  private let looked = Mutex<Looked?>(nil)
  private let come = Atomic<UInt64>(0)
  private let purgeDue = Atomic<Bool>(false)
  /// The bytes received since the last check, by peer.
  private let comeOfPeers = Mutex<[String: UInt64]>([:])
  /// The number of bodies in progress, by peer.
  private let bodies = Mutex<[String: Int]>([:])

  /// Counts bytes that have arrived.
  func note(_ bytes: Int) { come.add(UInt64(bytes), ordering: .relaxed) }

  func note(_ bytes: Int, of peer: String) {
    note(bytes)
    comeOfPeers.withLock { $0[peer, default: 0] += UInt64(bytes) }
  }

  /// Returns whether there is no space. It calls `look` if the last measurement is a second old; other callers wait
  /// meanwhile.
  ///
  /// - Parameter now: Milliseconds of a monotonic clock.
  func isFull(now: Int64, look: () -> IntakeRoom) -> Bool {
    looked.withLock { looked in
      var last = looked ?? Looked(room: IntakeRoom(), at: now - Self.lookMilliseconds, come: 0)
      if now - last.at >= Self.lookMilliseconds {
        let before = come.load(ordering: .relaxed)
        comeOfPeers.withLock { $0 = [:] }
        last = Looked(room: look(), at: now, come: before)
        looked = last
        purgeDue.store(last.room.isPurgeDue, ordering: .relaxed)
      }
      return last.room.isFull(come.load(ordering: .relaxed) - last.come)
    }
  }

  /// Returns whether the peer's own limit is reached, by the last measurement.
  func isFull(for peer: String) -> Bool {
    let more = comeOfPeers.withLock { $0[peer] ?? 0 }
    return looked.withLock { $0?.room.isFull(for: peer, more) ?? false }
  }

  /// Counts a body that a peer begins. Returns false, and counts nothing, if the peer has `most` under way.
  func begin(_ peer: String, most: Int) -> Bool {
    bodies.withLock { bodies in
      guard bodies[peer] ?? 0 < most else { return false }
      bodies[peer, default: 0] += 1
      return true
    }
  }

  func end(_ peer: String) {
    bodies.withLock { bodies in
      let left = (bodies[peer] ?? 1) - 1
      bodies[peer] = left > 0 ? left : nil
    }
  }

  static func full(_ node: String) -> CairnError {
    CairnError(
      .diskBudget, "the trails of node \(node) hold more than its [limits] disk allows",
      hint: "see in 'cairn status' at \(node) which apply or peer lags, or raise [limits] disk there", remedy: .retry)
  }

  /// Returns whether bytes wait for segments to be deleted; true once for each measurement.
  func takePurgeDue() -> Bool { purgeDue.exchange(false, ordering: .relaxed) }
}
