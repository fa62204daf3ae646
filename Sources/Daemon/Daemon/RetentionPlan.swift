import Changes
import Configuring
import ControlAPI
import Trails

/// The segments of trails that may be deleted. If the trails then still exceed their disk limit, readers expire or
/// captures pause.
package struct RetentionPlan: Equatable, Sendable {
  package struct Trail: Equatable, Sendable {
    package var name: String
    /// The segments in order. The last one is still being written.
    package var segments: [TrailInfo.Segment]
    package init(name: String, segments: [TrailInfo.Segment]) { (self.name, self.segments) = (name, segments) }
  }

  /// A reader of a trail: an apply, a pump that pushes it, a peer that pulls it, or a two-way capture.
  package struct ReaderID: Hashable, Sendable {
    package var name: WorkerName
    package var trail: String
    package init(_ name: WorkerName, _ trail: String) { (self.name, self.trail) = (name, trail) }
  }

  package struct Reader: Equatable, Sendable {
    package var name: WorkerName
    package var trail: String
    package var id: ReaderID { ReaderID(name, trail) }
    /// The oldest segment that the reader still needs. Nil if unknown: then all segments are kept.
    package var segment: UInt64?
    /// Whether the reader has the whole trail.
    package var isAtEnd: Bool
    /// Whether the reader lost segments that it needed, and waits for a refresh of its tables.
    package var isExpired: Bool
    package init(name: WorkerName, trail: String, segment: UInt64?, isAtEnd: Bool = false, isExpired: Bool) {
      (self.name, self.trail, self.segment) = (name, trail, segment)
      (self.isAtEnd, self.isExpired) = (isAtEnd, isExpired)
    }
  }

  /// The fraction of the disk limit below which paused captures continue.
  static let resumeShare = 0.9

  /// The first segment to keep, by trail. All segments before it may be deleted.
  package private(set) var purgeBelow: [String: UInt64] = [:]
  /// The readers that expire by this plan: segments that they need may be deleted, and then their tables need a
  /// refresh.
  package private(set) var expired: [ReaderID] = []
  /// The readers in ``expired`` that expire for lack of disk space. The other readers lag longer than the conf allows.
  package private(set) var expiredForRoom: Set<ReaderID> = []
  package private(set) var pausesCaptures = false
  /// The size of all trails, in bytes, after the planned segments are deleted.
  package private(set) var bytes: UInt64 = 0
  /// The size, in bytes, of the last segments of trails whose readers have all expired or reached the end. Last
  /// segments cannot be deleted.
  package private(set) var live: UInt64 = 0
  /// The size of one trail, in bytes, after the planned segments are deleted. `live` is the part in the last segment.
  package struct Part: Equatable, Sendable {
    package var bytes: UInt64 = 0
    package var live: UInt64 = 0
  }
  /// The size of each trail after the planned segments are deleted, by the trail's name.
  package private(set) var parts: [String: Part] = [:]
  static let liveBytesMax: UInt64 = 32 << 20
  /// The size that all trails would have, in bytes, if no reader expired for lack of disk space.
  package private(set) var bytesBefore: UInt64 = 0
  /// The readers that have neither expired nor reached the end of their trail, by trail. A trail without any reader has
  /// an empty list.
  package private(set) var holders: [String: [WorkerName]] = [:]

  /// Decides which trails to purge, and whether captures pause, from the sizes of the trails and the limits.
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

  // No segments are kept for the readers in `given`, which have expired.
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

  // Without `retain`, all segments of a trail without readers are kept.
  private static func unread(_ limits: Configuration.Limits, _ trail: Trail, _ now: Int64) -> UInt64 {
    guard let retain = limits.retain else { return 0 }
    let oldest = now - retain.milliseconds * 1000
    return trail.segments.last { $0.created <= oldest }?.number ?? 0
  }

  // True if the next segment was begun before `moment`.
  private static func isOlder(_ segment: UInt64, than moment: Int64, _ trail: Trail) -> Bool {
    trail.segments.first { $0.number > max(segment, (trail.segments.first?.number ?? 1)) }.map { $0.created < moment }
      ?? false
  }

  // The reader, outside of `given`, that needs the oldest segment; nil if all need only the last segments.
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
