import Changes
import ControlAPI
import Trails

/// The state of each transfer of a trail to or from another node, for `cairn status`.
struct TransferStatus {
  private struct FilePlace: Comparable, Sendable {
    var segment: UInt64
    var offset: UInt64
    static func < (a: Self, b: Self) -> Bool { (a.segment, a.offset) < (b.segment, b.offset) }
  }

  private struct Clocks {
    var files = PlaceClock<FilePlace>()
    var positions = PlaceClock<Position>()
  }

  /// A trail, with the pump that pushes it or the peer that pulls it.
  private struct PathKey: Hashable {
    var trail: String
    var end: String
    init(trail: String, end: String) { (self.trail, self.end) = (trail, end) }
    init(_ path: NodeStatus.Path) { self.init(trail: path.trail, end: path.way == .push ? path.worker : path.peer) }
  }

  private var clocks: [String: Clocks] = [:]
  private var rates: [String: Rate] = [:]

  /// Returns the state of all transfers, for `cairn status`.
  ///
  /// - Parameter transfers: The transfers as the workers report them, with the names of the peers.
  /// - Parameter keys: All readers of trails at other nodes.
  /// - Parameter standings: The ends of the trails.
  /// - Parameter infos: The segments of the trails.
  /// - Parameter now: µs since 1970 UTC.
  /// - Parameter monotonic: Milliseconds of a monotonic clock.
  mutating func paths(
    transfers: [NodeStatus.Path], keys: [PeerRegistry.Key], book: (PeerRegistry.Key) -> PeerRegistry.Entry?,
    givenUp: Set<RetentionPlan.ReaderID>, pumpPeers: [String: String], standings: [String: TrailStanding],
    infos: [String: TrailInfo], now: Int64, monotonic: Int64
  ) -> [NodeStatus.Path] {
    for (name, standing) in standings {
      clocks[name, default: Clocks()].files.note(
        FilePlace(segment: standing.end.segment, offset: standing.end.offset), at: now)
      clocks[name, default: Clocks()].positions.note(standing.position, at: now)
    }
    clocks = clocks.filter { standings[$0.key] != nil }
    var paths = transfers.filter { !$0.way.isOutward }
    let outward = Dictionary(transfers.filter(\.way.isOutward).map { (PathKey($0), $0) }) { first, _ in first }
    for key in keys {
      let trail = key.trail.description
      let isPush = key.reader.kind == .pump
      let peer = isPush ? pumpPeers[key.reader.name] ?? "" : key.reader.name
      let live = outward[PathKey(trail: trail, end: isPush ? key.reader.description : peer)]
      var path = live ?? NodeStatus.Path(trail, peer, isPush ? .push : .served, .waiting)
      if isPush { path.worker = key.reader.description }
      if let standing = standings[trail], let entry = book(key), entry.id == standing.id.description {
        fill(&path, entry, standing, infos[trail], now)
      }
      if givenUp.contains(.init(key.reader, trail)) { path.state = .givenUp }
      paths.append(path)
    }
    let before = rates
    rates = [:]
    return paths.map { path in
      var path = path
      let key = "\(path.way.rawValue) \(path.worker) \(path.peer) \(path.trail)"
      var rate = before[key] ?? Rate()
      rate.note(path.bytes, now: monotonic)
      rates[key] = rate
      path.bytesPerSecond = rate.perSecond
      return path
    }.sorted { ($0.trail, $0.way.rawValue, $0.peer, $0.worker) < ($1.trail, $1.way.rawValue, $1.peer, $1.worker) }
  }

  private func fill(
    _ path: inout NodeStatus.Path, _ entry: PeerRegistry.Entry, _ standing: TrailStanding, _ info: TrailInfo?,
    _ now: Int64
  ) {
    path.durable = "\(entry.segment.hex(8)):\(entry.offset)"
    path.applied = entry.applied?.description ?? ""
    path.seenAt = max(path.seenAt ?? 0, entry.seenAt)
    // If the two trails differ, the bytes after this position are not the bytes that the peer lacks.
    guard path.problem?.code != ErrorCode.trailForked.rawValue else { return }
    path.durableLagMilliseconds = clocks[path.trail]?.files.lagMilliseconds(
      at: FilePlace(segment: entry.segment, offset: entry.offset), now: now)
    path.appliedLagMilliseconds = entry.applied.flatMap {
      clocks[path.trail]?.positions.lagMilliseconds(at: $0, now: now)
    }
    path.behindBytes = Self.bytes(behind: entry, standing, info)
  }

  /// Returns the number of bytes between the peer's position and the end of the trail; nil if unknown.
  static func bytes(behind entry: PeerRegistry.Entry, _ standing: TrailStanding, _ info: TrailInfo?) -> UInt64? {
    let end = standing.end
    guard (entry.segment, entry.offset) <= (end.segment, end.offset) else { return nil }
    if let first = info?.segments.first?.number, entry.segment < first { return nil }
    if entry.segment == end.segment { return end.offset - entry.offset }
    let sealed = (info?.segments ?? []).filter { $0.number >= entry.segment && $0.number < standing.end.segment }
    let whole = sealed.reduce(UInt64(0)) { $0 + $1.bytes }
    let had = sealed.first?.number == entry.segment ? min(entry.offset, sealed.first?.bytes ?? 0) : 0
    return whole - had + standing.end.offset
  }
}
