import Changes
import NetKit
import SystemKit
import Trails

/// Fetches one trail from one peer, and appends it to this node's copy.
final class TrailPull: TrailTransfer {
  private static let askAgainMilliseconds: Int64 = 60_000
  private static let tellMilliseconds: Int64 = 5_000
  // The shortest time, in milliseconds, from a request that brings no bytes to the next one. A peer lets such a request
  // wait for a second or longer.
  private static let emptyMilliseconds: Int64 = 100

  let gauge: TransferGauge
  let stop: StopSignal
  private let trail: TrailName
  private let plan: PumpPlan
  private let shared: PumpShared
  private var asked: [CopyRequest] = []
  private var askedAt: Int64 = 0
  private var toldAt: Int64?
  private var idle = IdleWait()

  init(_ trail: TrailName, _ plan: PumpPlan, _ shared: PumpShared, gauge: TransferGauge, stop: StopSignal) {
    (self.trail, self.plan, self.shared, self.gauge, self.stop) = (trail, plan, shared, gauge, stop)
  }

  func session(_ achieved: () -> Void) throws {
    if trail.origin == plan.node { throw LeftOut() }
    let link = try PumpLink(plan, stop: stop, heard: gauge.heard)
    guard let report = try link.report(trail) else {
      throw CairnError(
        .trailMissing, "there is no trail \(trail) at \(link.client.base.address) yet", hint: "the pump waits for it",
        remedy: .retry)
    }
    let id = report.standing.id
    note(report)
    var standing = try shared.copies.exists(trail) ? shared.copies.with(trail) { try $0.sync() } : nil
    if standing == nil, let surplus = shared.hooks.surplus(trail) { throw surplus }
    if let standing, standing.id != id {
      throw CairnError(
        .trailForked, "trail \(trail) has the id \(id) at '\(report.node)', its copy here \(standing.id)",
        hint: "run 'cairn explain trail-forked'", context: ["trail": trail.description])
    }
    var end = TrailSpot(segment: report.standing.end.segment, offset: report.standing.end.offset)
    while !stop.isSet {
      if let full = shared.hooks.full() { throw full }
      try ask(link)
      let (before, begun) = (standing?.end, Clock.monotonicMilliseconds)
      do { standing = try step(link, report, standing, &end, achieved) } catch let fault as PumpFault
        where fault.error.code == .trailPurged
      {
        standing = try restart(link, standing, achieved)
      } catch let error as CairnError where error.code == .trailElsewhere {
        // Another pump fetches the same trail: this transfer continues at the present end of the copy.
        standing = try shared.copies.with(trail) { try $0.sync() }
      } catch let fault as PumpFault where fault.error.code == .trailElsewhere {
        throw CairnError(
          .trailElsewhere,
          "trail \(trail) ends at '\(report.node)' before the copy here: \(fault.error.message)",
          hint:
            "the pump waits until the trail there has reached this position: see with 'cairn status' there which worker brings it",
          remedy: .retry, context: ["trail": trail.description, "peer": report.node])
      }
      let left = begun + Self.emptyMilliseconds - Clock.monotonicMilliseconds
      if standing?.end == before, left > 0 { _ = stop.wait(milliseconds: Int32(clamping: left)) }
    }
  }

  private func step(
    _ link: PumpLink, _ report: TrailReport, _ standing: TrailStanding?, _ end: inout TrailSpot, _ achieved: () -> Void
  ) throws -> TrailStanding? {
    let id = report.standing.id
    let place = standing?.end ?? TrailPlace(segment: report.standing.oldest, offset: 0, chain: .zero)
    gauge.set { $0.state = place.isBefore(end) ? .moving : .waiting }
    if let standing, place.offset == 0, place.segment < end.segment {
      try tell(link, place, id)
      return try receive(at: place, id) { sink in
        try link.segment(place.segment, trail, id, into: sink)
        return true
      } ?? standing
    }
    let applied = shared.hooks.applied(trail)
    let isBehind = applied.flatMap { applied in standing.map { applied < $0.position } } ?? true
    let seconds = idle.seconds(isApplyBehind: isBehind)
    let result = try receive(at: standing == nil ? nil : place, first: place, id) { sink in
      let (fetched, told) = try link.follow(
        place, isKnown: standing != nil, trail, id, applied: applied, waitSeconds: seconds, into: sink)
      if let told { end = told }
      if fetched == .bytes { idle.begin() }
      return fetched == .bytes
    }
    achieved()
    return result ?? standing
  }

  /// Appends the bytes that `fetch` receives to the copy, and syncs the copy. Returns the new state; nil if no bytes
  /// came. Checked blocks stay after an error.
  private func receive(
    at place: TrailPlace?, first: TrailPlace? = nil, _ id: TrailID, restart end: TrailPlace? = nil,
    _ fetch: ((UnsafeRawBufferPointer) throws -> Void) throws -> Bool
  ) throws -> TrailStanding? {
    guard let start = place ?? first else { return nil }
    let copies = shared.copies
    let sender = shared.hooks.dialled ?? plan.url
    let intake = Intake(trail, id, start, from: sender, isKnown: place != nil, restartsBehind: end, copies)
    var didFetch = false
    do {
      didFetch = try fetch { bytes in
        if let full = shared.hooks.full() { throw full }
        try intake.put(bytes)
        gauge.moved(bytes.count)
        shared.hooks.come(bytes.count)
      }
      try intake.finish()
    } catch {
      if intake.hasTaken() { _ = try? copies.with(trail) { try $0.sync() } }
      throw error
    }
    guard didFetch else { return nil }
    let standing = try copies.with(trail) { try $0.sync() }
    if let standing { gauge.set { ($0.copied, $0.copiedPosition) = (standing.end, standing.position) } }
    return standing
  }

  /// Begins the copy again at the oldest segment of the sender, because the sender has purged the segments after the
  /// copy's end. Returns the new state; nil if either node has nothing of the trail.
  private func restart(
    _ link: PumpLink, _ standing: TrailStanding?, _ achieved: () -> Void
  ) throws -> TrailStanding? {
    guard let report = try link.report(trail), let standing else { return nil }
    note(report)
    let start = TrailPlace(segment: report.standing.oldest, offset: 0, chain: .zero)
    let result = try receive(at: nil, first: start, report.standing.id, restart: standing.end) { sink in
      _ = try link.follow(start, isKnown: false, trail, report.standing.id, applied: nil, waitSeconds: 0, into: sink)
      return true
    }
    shared.hooks.restarted(trail)
    achieved()
    return result
  }

  private func tell(_ link: PumpLink, _ place: TrailPlace, _ id: TrailID) throws {
    let now = Clock.monotonicMilliseconds
    if let toldAt, now - toldAt < Self.tellMilliseconds { return }
    try link.tell(place, trail, id, applied: shared.hooks.applied(trail))
    toldAt = now
  }

  private func ask(_ link: PumpLink) throws {
    let wanted = shared.hooks.requests(trail)
    let now = Clock.monotonicMilliseconds
    guard wanted != asked || (!wanted.isEmpty && now - askedAt > Self.askAgainMilliseconds) else { return }
    // If the peer refuses requests for now, the transfer asks again later; the trail continues meanwhile.
    do { try link.ask(wanted, trail) } catch let error as CairnError where error.code == .busy {}
    (asked, askedAt) = (wanted, now)
  }

  private func note(_ report: TrailReport) {
    gauge.set { ($0.peer, $0.end, $0.peerApplied) = (report.node, report.standing.end, report.applied) }
  }
}

private final class Intake {
  private let trail: TrailName
  private let id: TrailID
  private let start: TrailPlace
  private let sender: String
  private let isKnown: Bool
  private let restartsBehind: TrailPlace?
  private let copies: TrailCopies
  private var feed: CopyFeed?
  private lazy var handover = PieceHandover { [unowned self] in try take($0) }

  init(
    _ trail: TrailName, _ id: TrailID, _ start: TrailPlace, from sender: String, isKnown: Bool,
    restartsBehind: TrailPlace?, _ copies: TrailCopies
  ) {
    (self.trail, self.id, self.start, self.sender, self.isKnown) = (trail, id, start, sender, isKnown)
    (self.restartsBehind, self.copies) = (restartsBehind, copies)
  }

  func put(_ bytes: UnsafeRawBufferPointer) throws { try handover.put(bytes) }

  func finish() throws {
    try handover.finish()
    if let feed, !feed.isWhole {
      throw CairnError(
        .peerUnreachable, "an answer with blocks of trail \(trail) ends inside a block", hint: "Cairn tries again",
        remedy: .retry)
    }
  }

  func hasTaken() -> Bool {
    try? handover.settle()
    return feed != nil
  }

  private func take(_ bytes: UnsafeRawBufferPointer) throws {
    let feed = self.feed ?? begin(bytes)
    self.feed = feed
    try copies.with(trail) { copy in try feed.take(bytes, for: copy) }
  }

  private func begin(_ bytes: UnsafeRawBufferPointer) -> CopyFeed {
    var place = start
    // A side that has nothing yet takes the chain hash before the first block from its header.
    if !isKnown, let chain = CopyFeed.chain(inHeader: bytes) { place.chain = chain }
    return CopyFeed(trail: id, at: place, from: sender, restartsBehind: restartsBehind)
  }
}

extension TrailPlace {
  fileprivate func isBefore(_ spot: TrailSpot) -> Bool { (segment, offset) < (spot.segment, spot.offset) }
}
