import Changes
import Configuring
import Steering
import Trails

/// The segments of trails that may be deleted, and the next steps if that does not free enough disk space.
///
/// The first step is to let the reader with the largest lag expire: its tables will be copied again. The next one is
/// to pause captures. The plan is computed without I/O.
package struct RetentionPlan: Equatable, Sendable {
  package struct Trail: Equatable, Sendable {
    package var name: String
    /// The segments in order; the last one is being written.
    package var segments: [TrailInfo.Segment]
    package init(name: String, segments: [TrailInfo.Segment]) { (self.name, self.segments) = (name, segments) }
  }

  /// A reader and its trail: an apply, a pump that pushes the trail, a peer that pulls it, or a two-way capture.
  package struct ReaderID: Hashable, Sendable {
    package var name: WorkerName
    package var trail: String
    package init(_ name: WorkerName, _ trail: String) { (self.name, self.trail) = (name, trail) }
  }

  package struct Reader: Equatable, Sendable {
    package var name: WorkerName
    package var trail: String
    package var id: ReaderID { ReaderID(name, trail) }
    /// The segment with the oldest bytes that the reader still needs. Nil: this segment is not known, so all segments
    /// are kept.
    package var segment: UInt64?
    /// Whether the reader has everything up to the end of the trail.
    package var isAtEnd: Bool
    /// Whether an earlier plan let the reader expire, and the reader has not received the copies of its tables since.
    package var isExpired: Bool
    package init(name: WorkerName, trail: String, segment: UInt64?, isAtEnd: Bool = false, isExpired: Bool) {
      (self.name, self.trail, self.segment) = (name, trail, segment)
      (self.isAtEnd, self.isExpired) = (isAtEnd, isExpired)
    }
  }

  /// The fraction of the disk budget below which paused captures continue.
  static let resumeShare = 0.9

  /// The number of the first segment to keep, by trail. All segments before it may be deleted.
  package private(set) var purgeBelow: [String: UInt64] = [:]
  /// The readers that this plan lets expire: no segments are kept for them any longer. Readers that an earlier plan let
  /// expire are not included.
  package private(set) var expired: [ReaderID] = []
  /// The readers in ``expired`` that expired for lack of disk space. The other readers in ``expired`` lag longer than
  /// the conf allows.
  package private(set) var expiredForRoom: Set<ReaderID> = []
  package private(set) var pausesCaptures = false
  /// The bytes that the trails will hold after the plan's segments have been deleted.
  package private(set) var bytes: UInt64 = 0
  /// The total size, in bytes, of the open segments of all fully applied trails. It is part of ``bytes``. An open
  /// segment is the last of its trail, and cannot be deleted before the next one is begun.
  package private(set) var live: UInt64 = 0
  /// The size of one trail after the plan's segments have been deleted. `bytes` is its whole size. `live` is the size
  /// of its open segment if the trail is fully applied, at most ``liveBytesMax``; otherwise 0.
  package struct Part: Equatable, Sendable {
    package var bytes: UInt64 = 0
    package var live: UInt64 = 0
  }
  /// The size of each trail after the plan's segments have been deleted, by the trail's name.
  package private(set) var parts: [String: Part] = [:]
  /// The maximum number of bytes that one trail adds to ``live``.
  static let liveBytesMax: UInt64 = 32 << 20
  /// The bytes that the trails would hold if no reader expired for lack of disk space.
  package private(set) var bytesBefore: UInt64 = 0
  /// The readers for which segments are still kept, by trail; empty for a trail without readers.
  package private(set) var holders: [String: [WorkerName]] = [:]

  /// Computes the plan.
  ///
  /// - Parameter isPaused: Whether captures are paused already.
  /// - Parameter now: µs since 1970 UTC.
  package init(
    _ limits: Configuration.Limits, trails: [Trail], readers: [Reader], isPaused: Bool, now: Int64
  ) {
    var given = Set(readers.filter(\.isExpired).map(\.id))
    if let retain = limits.retain {
      let oldest = now - retain.milliseconds * 1000
      for reader in readers where !given.contains(reader.id) {
        guard let trail = trails.first(where: { $0.name == reader.trail }),
          Self.isOlder(reader.segment ?? 0, than: oldest, trail)
        else { continue }
        given.insert(reader.id)
      }
    }
    weigh(limits, trails, readers, given, now)
    bytesBefore = bytes
    if let most = limits.diskBytes {
      while bytes > UInt64(max(0, most)), let slowest = Self.slowest(readers, besides: given, trails) {
        given.insert(slowest)
        expiredForRoom.insert(slowest)
        weigh(limits, trails, readers, given, now)
      }
      // If everything is applied, only open segments are left: they can be deleted when captures continue.
      let isAwaited =
        readers.contains { !given.contains($0.id) && !$0.isAtEnd }
        || trails.contains { trail in !readers.contains { $0.trail == trail.name } }
      pausesCaptures = isAwaited && Double(bytes) > Double(most) * (isPaused ? Self.resumeShare : 1)
    }
    for trail in trails {
      let all = readers.filter { $0.trail == trail.name }
      if !all.isEmpty, all.allSatisfy({ given.contains($0.id) || $0.isAtEnd }) {
        let open = min(trail.segments.last?.bytes ?? 0, Self.liveBytesMax)
        live += open
        parts[trail.name, default: Part()].live = open
      }
      let held = all.filter { !given.contains($0.id) && !$0.isAtEnd }.map(\.name).sorted()
      if all.isEmpty || !held.isEmpty { holders[trail.name] = held }
    }
    expired = readers.filter { !$0.isExpired && given.contains($0.id) }.map(\.id)
  }

  /// Computes which segments may be deleted, and the sizes of the trails after that. The readers in `given` have
  /// expired, so no segments are kept for them.
  private mutating func weigh(
    _ limits: Configuration.Limits, _ trails: [Trail], _ readers: [Reader], _ given: Set<ReaderID>, _ now: Int64
  ) {
    bytes = 0
    for trail in trails {
      let live = trail.segments.last?.number ?? 0
      let all = readers.filter { $0.trail == trail.name }
      var below = all.filter { !given.contains($0.id) }.map { $0.segment ?? 0 }.min() ?? live
      if all.isEmpty { below = Self.unread(limits, trail, now) }
      purgeBelow[trail.name] = min(below, live)
      let kept = trail.segments.filter { $0.number >= min(below, live) }.reduce(0) { $0 + $1.onDisk }
      parts[trail.name, default: Part()].bytes = kept
      bytes += kept
    }
  }

  /// Returns the first segment to keep of a trail without readers. Segments older than `retain` may be deleted; without
  /// `retain`, all are kept.
  private static func unread(_ limits: Configuration.Limits, _ trail: Trail, _ now: Int64) -> UInt64 {
    guard let retain = limits.retain else { return 0 }
    let oldest = now - retain.milliseconds * 1000
    return trail.segments.last { $0.created <= oldest }?.number ?? 0
  }

  /// Returns whether all bytes of a segment were written before `moment`. This is so if the next segment was begun
  /// before `moment`.
  private static func isOlder(_ segment: UInt64, than moment: Int64, _ trail: Trail) -> Bool {
    trail.segments.first { $0.number > max(segment, (trail.segments.first?.number ?? 1)) }.map { $0.created < moment }
      ?? false
  }

  /// Returns the reader that needs the oldest segment; readers in `given` are not considered. Nil if all other readers
  /// need only the last segments of their trails, which are still written.
  private static func slowest(_ readers: [Reader], besides given: Set<ReaderID>, _ trails: [Trail]) -> ReaderID? {
    var slowest: (id: ReaderID, created: Int64)?
    for reader in readers where !given.contains(reader.id) {
      guard let trail = trails.first(where: { $0.name == reader.trail }), let live = trail.segments.last,
        reader.segment ?? 0 < live.number,
        let kept = trail.segments.first(where: { $0.number >= reader.segment ?? 0 })
      else { continue }
      if slowest.map({ kept.created < $0.created }) ?? true { slowest = (reader.id, kept.created) }
    }
    return slowest?.id
  }
}
