import Configuring
import Trails

/// The segments of one trail that are kept: those that its readers need, and the history before them.
///
///     var history = TrailHistory(trail, limits, readers, [], now)
///     history.dropOldest()   // the bytes of the oldest segment that no reader needs
struct TrailHistory {
  let name: String
  private let segments: [TrailInfo.Segment]
  /// The index of the first segment that is kept.
  private var first: Int
  /// The index of the first segment that a reader needs.
  private let needed: Int
  /// The size of the segments that are kept, in bytes.
  private(set) var keptBytes: UInt64
  /// The size of the segments that are kept as history only, in bytes.
  private(set) var bytes: UInt64

  /// - Parameter given: The readers that have expired, for which no segments are kept.
  init(
    _ trail: RetentionPlan.Trail, _ limits: Configuration.Limits, _ readers: [RetentionPlan.Reader],
    _ given: Set<RetentionPlan.ReaderID>, _ now: Int64
  ) {
    (name, segments) = (trail.name, trail.segments)
    let live = segments.last?.number ?? 0
    let all = readers.filter { $0.trail == trail.name }
    var below = all.filter { !given.contains($0.id) }.map { $0.segment ?? 0 }.min() ?? live
    if all.isEmpty { below = Self.unread(trail, limits, now) }
    purgeNeed = min(below, live)
    let need = purgeNeed
    needed = segments.firstIndex { $0.number >= need } ?? segments.count
    first = min(needed, trail.keep?.firstIndex(of: segments, now: now) ?? needed)
    keptBytes = segments[first...].reduce(0) { $0 + $1.onDisk }
    bytes = segments[first..<needed].reduce(0) { $0 + $1.onDisk }
  }

  private let purgeNeed: UInt64

  /// The first segment to keep. All segments before it may be deleted.
  var purgeBelow: UInt64 { first < needed ? segments[first].number : purgeNeed }
  /// The time when the oldest segment of the history was begun, µs since 1970 UTC; nil if there is no history.
  var oldest: Int64? { first < needed ? segments[first].created : nil }

  /// Removes the oldest segment of the history, and returns its size in bytes.
  mutating func dropOldest() -> UInt64 {
    guard first < needed else { return 0 }
    let size = segments[first].onDisk
    first += 1
    keptBytes -= size
    bytes -= size
    return size
  }

  // A trail without readers is history only. If it has no bound of its own, it is kept as long as a reader may lag, and
  // without `retain` for ever.
  private static func unread(_ trail: RetentionPlan.Trail, _ limits: Configuration.Limits, _ now: Int64) -> UInt64 {
    if trail.keep != nil { return trail.segments.last?.number ?? 0 }
    guard let retain = limits.retain else { return 0 }
    let oldest = now - retain.milliseconds * 1000
    return trail.segments.last { $0.created <= oldest }?.number ?? 0
  }
}

extension Configuration.History {
  /// Returns the index of the oldest segment to keep. The last segment is always kept.
  func firstIndex(of segments: [TrailInfo.Segment], now: Int64) -> Int {
    guard let last = segments.indices.last else { return 0 }
    var first = 0
    if let moment = moment(now) { first = segments.lastIndex { $0.created <= moment } ?? 0 }
    guard let bytes else { return first }
    var room = UInt64(clamping: bytes)
    var fitting = last
    for index in segments.indices.reversed() {
      guard segments[index].onDisk <= room else { break }
      room -= segments[index].onDisk
      fitting = index
    }
    return max(first, fitting)
  }

  /// Returns whether the segments reach one of the bounds, or contain the trail from its beginning.
  func isReached(by segments: [TrailInfo.Segment], now: Int64) -> Bool {
    guard let first = segments.first, first.number > 1 else { return true }
    if let moment = moment(now), first.created <= moment { return true }
    guard let bytes else { return false }
    let held = segments.reduce(0) { $0 + $1.onDisk }
    let greatest = segments.map(\.onDisk).max() ?? 0
    return held + greatest >= UInt64(clamping: bytes)
  }

  private func moment(_ now: Int64) -> Int64? { age.map { now - $0.milliseconds * 1000 } }
}
