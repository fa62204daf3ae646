import Changes
import CodecKit
import NetKit
import SystemKit
import Trails

/// Sends one trail to one peer: the bytes that the copy at the peer lacks.
final class TrailPush: TrailTransfer {
  /// The size of a request body, in bytes, while many bytes are still to be sent. A larger block is sent alone.
  private static let bodyBytes = 8 << 20
  private static let smallBytes = 32 << 10

  let gauge: TransferGauge
  let stop: StopSignal
  private let trail: TrailName
  private let plan: PumpPlan
  private let shared: PumpShared
  private var body = Scratch(capacity: smallBytes)
  private var idle = IdleWait()

  init(_ trail: TrailName, _ plan: PumpPlan, _ shared: PumpShared, gauge: TransferGauge, stop: StopSignal) {
    (self.trail, self.plan, self.shared, self.gauge, self.stop) = (trail, plan, shared, gauge, stop)
  }

  func session(_ achieved: () -> Void) throws {
    let folder = shared.copies.folder(trail)
    let watch = try shared.copies.watch(trail)
    let source = try SegmentSource.open(folder: folder)
    let link = try PumpLink(plan, stop: stop, heard: gauge.heard)
    var report: TrailReport?
    do { report = try link.report(trail) } catch let fault as PumpFault where fault.error.code == .trailOwn {
      throw LeftOut()
    }
    if let report, report.node == trail.origin { throw LeftOut() }
    var detours = 0
    while !stop.isSet {
      do {
        report = try step(source, link, report, watch, achieved)
        detours = 0
      } catch let fault as PumpFault where fault.error.code == .trailElsewhere && fault.report != nil && detours < 20 {
        // Another sender was faster, or an answer was lost: continue at the end of the copy.
        detours += 1
        if detours > 3 { _ = stop.wait(milliseconds: 50) }
        report = fault.report
      }
    }
  }

  private func step(
    _ source: SegmentSource, _ link: PumpLink, _ report: TrailReport?, _ watch: FolderWatch,
    _ achieved: () -> Void
  ) throws -> TrailReport {
    let standing = try source.standing()
    guard let report else { return try begin(source, link, standing, restart: nil, achieved) }
    note(report, standing)
    guard report.standing.id == source.id else {
      throw forked("the trail's id is \(source.id), that of the copy at '\(report.node)' is \(report.standing.id)")
    }
    let place = report.standing.end
    switch try source.judge(place) {
    case .follows:
      guard let piece = try source.piece(at: place, max: Self.bodyBytes) else {
        throw PumpHandler.purgedMeanwhile(trail)
      }
      return try send(piece, source, link, restart: nil, achieved)
    case .atEnd:
      achieved()
      gauge.set { $0.state = .waiting }
      let seconds = idle.seconds(isApplyBehind: report.applied.map { $0 < standing.position } ?? true)
      if watch.wait(milliseconds: seconds * 1000, stop: stop) { return report }
      if stop.isSet { throw HTTPClient.Stopped() }
      return try link.push(.init(start: nil, count: 0), at: place, trail, source.id)
    case .purged: return try begin(source, link, standing, restart: place, achieved)
    case .forked:
      throw forked("the copy at '\(report.node)' ends at \(place) with another history")
    case .beyond:
      let isFork = shared.hooks.isFork(trail, behindEndAt: plan.node)
      throw CairnError(
        isFork ? .trailForked : .trailElsewhere,
        "trail \(trail) ends at \(standing.end), before the end of its copy at '\(report.node)', \(place)",
        hint: isFork
          ? "if this node was restored from a backup, see 'cairn explain trail-forked'; nothing is sent until then"
          : "the pump waits until the trail here has reached this position: see with 'cairn status' which worker brings it",
        remedy: isFork ? .stop : .retry, context: ["trail": trail.description, "peer": report.node])
    }
  }

  /// Begins the copy at the peer, for the first time or again, at the oldest segment of this node.
  private func begin(
    _ source: SegmentSource, _ link: PumpLink, _ standing: TrailStanding, restart: TrailPlace?, _ achieved: () -> Void
  ) throws -> TrailReport {
    guard let start = try source.start(of: standing.oldest),
      let piece = try source.piece(at: start, max: Self.bodyBytes)
    else { throw PumpHandler.purgedMeanwhile(trail) }
    return try send(piece, source, link, restart: restart, achieved)
  }

  private func send(
    _ piece: SegmentSource.Piece, _ source: SegmentSource, _ link: PumpLink, restart: TrailPlace?,
    _ achieved: () -> Void
  ) throws -> TrailReport {
    gauge.set { $0.state = .moving }
    let report: TrailReport
    if piece.count <= Self.smallBytes {
      let buffer = try body.bytes(piece.count)
      try source.read(piece, into: buffer)
      report = try link.push(UnsafeRawBufferPointer(buffer), at: piece.place, trail, source.id, restart: restart)
    } else {
      report = try link.push(
        source: PieceSource(source, piece), at: piece.place, trail, source.id, restart: restart)
    }
    // Without this check, a peer that always reports the same end would get the same bytes without a pause.
    guard report.standing.end.isBehind(piece.place) else {
      throw CairnError(
        .peerUnreachable,
        "node '\(report.node)' reports that its copy of trail \(trail) ends at \(report.standing.end), after it took the bytes from \(piece.place) on",
        hint: "look at the trail there with 'cairn trail show'; Cairn tries again by itself", remedy: .retry,
        context: ["trail": trail.description, "peer": report.node])
    }
    gauge.moved(piece.count)
    idle.begin()
    achieved()
    return report
  }

  private func note(_ report: TrailReport, _ standing: TrailStanding) {
    gauge.set {
      $0.peer = report.node
      ($0.copied, $0.copiedPosition) = (report.standing.end, report.standing.position)
      ($0.end, $0.peerApplied) = (standing.end, report.applied)
    }
    let hooks = shared.hooks
    hooks.acknowledged(report.node, trail, report.standing.end)
    if let applied = report.applied { hooks.peerApplied(report.node, trail, applied) }
    hooks.questions.note(report.node, at: plan.url)
    // The peer is identified by its address, because it may give itself any name.
    _ = hooks.asked(plan.url, trail, report.requests)
  }

  private func forked(_ problem: String) -> CairnError {
    CairnError(
      .trailForked, "trail \(trail) has two histories: \(problem)",
      hint: "run 'cairn explain trail-forked' to find out which history to keep",
      context: ["trail": trail.description])
  }
}

/// A request body that is read from a segment while it is sent.
private final class PieceSource: HTTPBodySource {
  private let source: SegmentSource
  private let piece: SegmentSource.Piece

  init(_ source: SegmentSource, _ piece: SegmentSource.Piece) { (self.source, self.piece) = (source, piece) }

  var count: Int { piece.count }

  func read(from offset: Int, into buffer: UnsafeMutableRawBufferPointer) throws {
    try source.read(piece, from: offset, into: buffer)
  }
}
