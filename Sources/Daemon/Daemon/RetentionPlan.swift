import Changes
import Configuring
import ControlAPI
import Trails

/// The segments of trails that may be deleted. If the trails then still exceed a disk limit, history gives way first.
/// After that, readers expire or captures pause.
package struct RetentionPlan: Equatable, Sendable {
  package struct Trail: Equatable, Sendable {
    package var name: String
    /// The segments in order. The last one is still being written.
    package var segments: [TrailInfo.Segment]
    /// The history to keep besides what readers need; nil for none.
    package var keep: Configuration.History?
    package init(name: String, segments: [TrailInfo.Segment], keep: Configuration.History? = nil) {
      (self.name, self.segments, self.keep) = (name, segments, keep)
    }
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

  /// The disk limit of the trails that one other node brings.
  package struct Share: Equatable, Sendable {
    package var trails: Set<NameKey>
    package var bytes: Int64
    package init(trails: Set<NameKey>, bytes: Int64) { (self.trails, self.bytes) = (trails, bytes) }
  }

  /// The fraction of a disk limit that the trails with their history may fill. Above it, the oldest history is deleted.
  static let historyShare = 0.95
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
    /// The part that no reader needs, in bytes.
    package var history: UInt64 = 0
  }
  /// The size of each trail after the planned segments are deleted, by the trail's name.
  package private(set) var parts: [String: Part] = [:]
  static let liveBytesMax: UInt64 = 32 << 20
  /// The size that all trails would have, in bytes, if no reader expired for lack of disk space.
  package private(set) var bytesBefore: UInt64 = 0
  /// The readers that have neither expired nor reached the end of their trail, by trail. A trail without any reader has
  /// an empty list.
  package private(set) var holders: [String: [WorkerName]] = [:]

  /// The trails whose history is shorter than their conf says, because of a disk limit. A trail stays in the set until
  /// its history is as long as the conf says.
  package private(set) var shortened: Set<NameKey> = []

  /// Decides which trails to purge, and whether captures pause, from the sizes of the trails and the limits.
  ///
  /// - Parameter shares: The disk limits of the trails of other nodes, by node.
  /// - Parameter shortened: The set ``shortened`` of the previous plan.
  /// - Parameter isPaused: Whether captures are paused already.
  /// - Parameter now: µs since 1970 UTC.
  package init(
    _ limits: Configuration.Limits, trails: [Trail], readers: [Reader], shares: [Share] = [],
    shortened: Set<NameKey> = [], isPaused: Bool, now: Int64
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
    let shares = shares + (limits.diskBytes.map { [Share(trails: Set(trails.map(\.name.nameKey)), bytes: $0)] } ?? [])
    self.shortened = shortened.filter { name in
      trails.contains { $0.name.nameKey == name && $0.keep?.isReached(by: $0.segments, now: now) == false }
    }
    var histories = trails.map { TrailHistory($0, limits, readers, given, now) }
    bytesBefore = histories.reduce(0) { $0 + $1.keptBytes }
    giveWay(&histories, shares)
    if let most = limits.diskBytes {
      while Self.bytes(histories) > UInt64(max(0, most)),
        let slowest = Self.slowest(readers, besides: given, trails)
      {
        given.insert(slowest)
        expiredForRoom.insert(slowest)
        for (index, trail) in trails.enumerated() where trail.name == slowest.trail {
          histories[index] = TrailHistory(trail, limits, readers, given, now)
        }
        giveWay(&histories, shares)
      }
    }
    for history in histories {
      purgeBelow[history.name] = history.purgeBelow
      parts[history.name] = Part(bytes: history.keptBytes, history: history.bytes)
      bytes += history.keptBytes
    }
    if let most = limits.diskBytes {
      // If everything is applied, only open segments are left: they can be deleted when captures continue.
      let isAwaited =
        readers.contains { !given.contains($0.id) && !$0.isAtEnd }
        || trails.contains { trail in trail.keep == nil && !readers.contains { $0.trail == trail.name } }
      pausesCaptures = isAwaited && Double(bytes) > Double(most) * (isPaused ? Self.resumeShare : 1)
    }
    for trail in trails {
      let all = readers.filter { $0.trail == trail.name }
      let isUnread = all.isEmpty && trail.keep == nil
      if !isUnread, all.allSatisfy({ given.contains($0.id) || $0.isAtEnd }) {
        let open = min(trail.segments.last?.bytes ?? 0, Self.liveBytesMax)
        live += open
        parts[trail.name, default: Part()].live = open
      }
      let held = all.filter { !given.contains($0.id) && !$0.isAtEnd }.map(\.name).sorted()
      if isUnread || !held.isEmpty { holders[trail.name] = held }
    }
    expired = readers.filter { !$0.isExpired && given.contains($0.id) && loses($0, trails) }.map(\.id)
  }

  // Returns whether a reader needs a segment that is not kept. Segments that are kept as history serve it, too.
  private func loses(_ reader: Reader, _ trails: [Trail]) -> Bool {
    let below = purgeBelow[reader.trail] ?? 0
    return trails.first { $0.name == reader.trail }?.segments.contains {
      $0.number >= reader.segment ?? 0 && $0.number < below
    } ?? false
  }

  private static func bytes(_ histories: [TrailHistory]) -> UInt64 { histories.reduce(0) { $0 + $1.keptBytes } }

  // Shortens the histories of trails, the oldest segment first, until each share has room.
  private mutating func giveWay(_ histories: inout [TrailHistory], _ shares: [Share]) {
    for share in shares {
      let most = Double(share.bytes) * Self.historyShare
      let members = histories.indices.filter { share.trails.contains(histories[$0].name) }
      var held = members.reduce(0) { $0 + histories[$1].keptBytes }
      while Double(held) > most,
        let oldest = members.filter({ histories[$0].oldest != nil })
          .min(by: { histories[$0].oldest ?? 0 < histories[$1].oldest ?? 0 })
      {
        held -= histories[oldest].dropOldest()
        shortened.insert(histories[oldest].name)
      }
    }
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
