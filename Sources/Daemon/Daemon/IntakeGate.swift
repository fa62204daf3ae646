import Changes
import Configuring
import Synchronization
import SystemKit
import Trails

/// The disk space for bytes that peers send: the sizes of the trails when last measured, and their limits.
struct IntakeRoom: Equatable, Sendable {
  /// The disk limit of all trails together, in bytes; nil for no limit.
  var allowed: UInt64?
  /// The bytes that the trails occupy on the disk.
  var held: UInt64 = 0
  /// The bytes that the trails will occupy after all segments that no reader needs are deleted.
  var left: UInt64 = 0
  /// The bytes in the last segments of trails whose readers have all expired or reached the end. The last segment of a
  /// trail can be deleted only after more bytes arrive.
  var live: UInt64 = 0
  /// Whether captures are paused because the trails exceed their disk limit.
  var isPaused = false
  /// The sizes and limits of the trails that each other node sends to this node, by the other node's name.
  var peers: [String: Share] = [:]
  /// The number of segments of each node whose trails here have too many small ones, by the node's name.
  var crowds: [String: Int] = [:]
  /// How many segments of a node may be small.
  static let segmentsMax = 10_000

  /// Returns the average size in bytes that so many segments of one node have at least, or no more are taken: 64 KiB
  /// above 10,000 segments, 1 MiB above 20,000, 8 MiB above 30,000. Segments of Cairn have 16 MiB.
  static func segmentBytesMin(segments: Int) -> UInt64 {
    switch (segments - 1) / segmentsMax {
    case ..<1: 0
    case 1: 64 << 10
    case 2: 1 << 20
    default: 8 << 20
    }
  }

  /// Returns whether these segments of one node are too many and too small. Each one costs time in every measurement
  /// and purge, however small it is.
  static func isCrowd(segments: Int, bytes: UInt64) -> Bool {
    segments > 0 && bytes / UInt64(segments) < segmentBytesMin(segments: segments)
  }

  /// The sizes of the trails that one node sends, in bytes, and the limit for them.
  struct Share: Equatable, Sendable {
    var allowed: UInt64
    var held: UInt64
    var left: UInt64 = 0
    var live: UInt64 = 0

    func isFull(_ more: UInt64) -> Bool {
      // Nothing can be deleted before more bytes have arrived.
      if held > allowed, held <= left { return held + more > allowed + live }
      return held + more > allowed
    }
  }

  /// Returns whether all trails together exceed their disk limit with `more` bytes, which have arrived since the
  /// measurement. Also true while captures are paused.
  func isFull(_ more: UInt64) -> Bool {
    guard let allowed else { return false }
    return isPaused || Share(allowed: allowed, held: held, left: left, live: live).isFull(more)
  }

  /// Returns whether a node's trails exceed its disk limit with `more` bytes, which have arrived since the measurement.
  func isFull(for peer: String, _ more: UInt64) -> Bool { peers[peer].map { $0.isFull(more) } ?? false }

  /// Whether all trails together, or those of one node, exceed their disk limit and have segments that can be deleted.
  var isPurgeDue: Bool {
    (allowed.map { held > $0 && held > left } ?? false)
      || peers.values.contains { $0.held > $0.allowed && $0.held > $0.left }
  }
}

extension IntakeRoom {
  /// Measures the trails, if the conf limits their size on the disk. Without a limit, all sizes are 0.
  init(_ context: ServiceContext, plan: () -> RetentionPlan) {
    let configuration = context.configuration
    let limited = configuration.shares.compactMap { share in share.diskBytes.map { (share, $0) } }
    let crowds = Self.crowds(configuration.shares, context)
    guard configuration.limits.diskBytes != nil || !limited.isEmpty else {
      self.init(crowds: crowds)
      return
    }
    for trail in (try? Trail.names(state: context.statePath)) ?? [] where trail.origin != context.node {
      if let info = try? context.measure(trail) { context.note(info) }
    }
    let infos = context.trailInfos.values
    self.init(held: infos.reduce(0) { $0 + $1.onDisk }, crowds: crowds)
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

  private static func crowds(_ shares: [Configuration.Share], _ context: ServiceContext) -> [String: Int] {
    var crowds: [String: Int] = [:]
    let infos = context.trailInfos.values.filter { $0.name.origin != context.node }
    for share in shares {
      let own = infos.filter { share.includes($0.name) }
      let (count, bytes) = (own.reduce(0) { $0 + $1.segments.count }, own.reduce(0) { $0 + $1.bytes })
      if isCrowd(segments: count, bytes: bytes) { crowds[share.node] = count }
    }
    return crowds
  }
}

extension ServiceContext {
  /// Returns the facts about a trail now. Only segments that the last facts do not have are read.
  func measure(_ trail: TrailName) throws -> TrailInfo {
    try Trail.info(folder: folder(of: trail), since: trailInfos[trail.description])
  }

  /// Returns whether the disk limit of all trails together allows other nodes to send bytes now.
  func hasRoom(_ plan: () -> RetentionPlan) -> Bool {
    !isFull && !intake.isFull(now: Clock.monotonicMilliseconds) { IntakeRoom(self, plan: plan) }
  }

  /// Returns the error if a disk limit forbids a node to send bytes now; nil if the node may send them.
  func obstacle(for peer: String, _ plan: () -> RetentionPlan) -> CairnError? {
    if !hasRoom(plan) { return IntakeGate.full(node) }
    if let count = intake.crowd(of: peer) { return IntakeGate.crowded(peer, count, node) }
    guard intake.isFull(for: peer) else { return nil }
    return CairnError(
      .diskBudget, "the trails that node '\(peer)' brings hold more than [peer.\(peer)] disk allows",
      hint: "see in 'cairn status' at \(node) which apply or peer lags, or \(raising("disk", of: peer)) there",
      remedy: .retry,
      context: ["peer": peer])
  }

  /// Returns an error if `trail` is new and the node already has its maximum number of trails here; otherwise nil.
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

  /// Returns the limits for the trails that a node sends; nil if it may send none.
  func share(of peer: String) -> Configuration.Share? { configuration.shares.first { $0.node == peer } }

  private func raising(_ option: String, of peer: String) -> String {
    share(of: peer)?.isPeer == true
      ? "raise [peer.\(peer)] \(option)" : "add [peer.\(peer)] with may and \(option)"
  }
}

/// Decides whether a peer may send bytes, before and during each request body. The trails are measured at most once a
/// second, by one thread. Other threads use the last measurement meanwhile.
final class IntakeGate: Sendable {
  private static let lookMilliseconds: Int64 = 1_000
  // A measurement is followed by a pause of this many times its duration, so that slow ones take a fifth of the time.
  private static let pauseFactor: Int64 = 4

  private struct Looked: Sendable {
    var room: IntakeRoom
    var nextAt: Int64
    // The bytes that all peers, and each peer, had sent when this measurement began.
    var come: UInt64
    var comeOfPeers: [NameKey: UInt64]
  }

  private let looked = Mutex<Looked?>(nil)
  // Held while a thread measures the trails.
  private let looking = Mutex<Void>(())
  private let come = Atomic<UInt64>(0)
  private let purgeDue = Atomic<Bool>(false)
  // The bytes received since the start, by peer.
  private let comeOfPeers = Mutex<[NameKey: UInt64]>([:])
  // The number of request bodies that are being received, by peer.
  private let bodies = Mutex<[String: Int]>([:])

  /// Counts bytes that a peer has sent, which are added to the measured size of the trails.
  func note(_ bytes: Int) { come.add(UInt64(bytes), ordering: .relaxed) }

  func note(_ bytes: Int, of peer: String) {
    note(bytes)
    comeOfPeers.withLock { $0[peer.nameKey, default: 0] += UInt64(bytes) }
  }

  /// Returns whether all trails together exceed their disk limit, with the bytes that arrived after the last
  /// measurement. Calls `look` for a new measurement if the last one ended 1 s ago and no other thread measures. The
  /// first measurement is awaited by all threads.
  ///
  /// - Parameter now: Milliseconds of a monotonic clock. Read again after `look`.
  func isFull(now: @autoclosure () -> Int64, look: () -> IntakeRoom) -> Bool {
    let begun = now()
    if !hasLooked {
      looking.withLock { _ in
        if !hasLooked { measure(begun, now, look) }
      }
    } else if isDue(begun) {
      _ = looking.withLockIfAvailable { _ in
        if isDue(begun) { measure(begun, now, look) }
      }
    }
    let sent = come.load(ordering: .relaxed)
    return looked.withLock { $0.map { $0.room.isFull(sent - min(sent, $0.come)) } ?? false }
  }

  private var hasLooked: Bool { looked.withLock { $0 != nil } }

  private func isDue(_ now: Int64) -> Bool { looked.withLock { $0.map { now >= $0.nextAt } ?? true } }

  private func measure(_ begun: Int64, _ now: () -> Int64, _ look: () -> IntakeRoom) {
    let (before, ofPeers) = (come.load(ordering: .relaxed), comeOfPeers.withLock { $0 })
    let room = look()
    let ended = now()
    let nextAt = ended + max(Self.lookMilliseconds, Self.pauseFactor * (ended - begun))
    looked.withLock { $0 = Looked(room: room, nextAt: nextAt, come: before, comeOfPeers: ofPeers) }
    purgeDue.store(room.isPurgeDue, ordering: .relaxed)
  }

  /// Returns whether the trails of a peer exceed its disk limit, by the last measurement and the bytes received after
  /// it.
  func isFull(for peer: String) -> Bool {
    let sent = comeOfPeers.withLock { $0[peer.nameKey] ?? 0 }
    return looked.withLock { looked in
      looked.map { $0.room.isFull(for: peer, sent - min(sent, $0.comeOfPeers[peer.nameKey] ?? 0)) } ?? false
    }
  }

  /// Returns the number of a peer's segments here if they are too many and too small, by the last measurement.
  func crowd(of peer: String) -> Int? { looked.withLock { $0?.room.crowds[peer] } }

  /// Counts the start of a request body of a peer. Returns false, and counts nothing, if `most` bodies of this peer are
  /// being received already.
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

  static func crowded(_ peer: String, _ count: Int, _ node: String) -> CairnError {
    CairnError(
      .diskBudget,
      "the trails that node '\(peer)' brings have \(count) segments of less than \(IntakeRoom.segmentBytesMin(segments: count) >> 10) KiB on average: too many small segments are not taken",
      hint: "see in 'cairn status' at \(node) which apply or peer lags, or delete trails of '\(peer)' there",
      remedy: .retry, context: ["peer": peer])
  }

  /// Returns whether the last measurement found trails over a disk limit, with segments to delete. Later calls return
  /// false until the next measurement.
  func takePurgeDue() -> Bool { purgeDue.exchange(false, ordering: .relaxed) }
}
