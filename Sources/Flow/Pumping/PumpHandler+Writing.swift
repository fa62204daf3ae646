import Changes
import NetKit
import SystemKit
import Trails

// These requests of peers write: bytes of trails, and requests for copies.
extension PumpHandler {
  func push(_ visit: Visit, _ id: TrailID, _ segment: UInt64) throws -> HTTPAction {
    try visit.require(.push)
    guard visit.trail.origin != options.node else {
      throw CairnError(
        .trailOwn, "trail \(visit.trail) is written by this node", hint: "exclude it in 'trail' of the pump",
        remedy: .retry)
    }
    let query = visit.request.query
    let offset = try Self.offset(query)
    guard let chain = query["chain"].flatMap({ bytes(hex: $0) }).flatMap({ ChainHash($0) }) else {
      throw Self.usage("chain is not a chain hash")
    }
    var replaced: (segment: UInt64, offset: UInt64)?
    if let text = query["restart"] {
      let parts = text.split(separator: ":")
      guard parts.count == 2, let segment = UInt64(parts[0], radix: 16), let offset = UInt64(parts[1]),
        NumberBounds.isSegment(segment), NumberBounds.isNumber(offset)
      else { throw Self.usage("restart is not a position") }
      replaced = (segment, offset)
    }
    let place = TrailPlace(segment: segment, offset: offset, chain: chain)
    return .receive(PushSink(self, visit, id, place, restarts: replaced))
  }

  func asking(_ visit: Visit) throws -> HTTPAction {
    try visit.require(.pull)
    return .receive(AskSink(self, visit))
  }
}

/// Receives the bytes that a peer pushes into a copy of a trail.
final class PushSink: HTTPBodySink {
  private let desk: PumpHandler
  private let visit: PumpHandler.Visit
  private let id: TrailID
  private let place: TrailPlace
  private let restarts: (segment: UInt64, offset: UInt64)?
  private var feed: CopyFeed?
  private var taken = 0
  private lazy var handover = PieceHandover { [unowned self] in try take($0) }
  private var isRestart: Bool { restarts != nil }

  init(
    _ desk: PumpHandler, _ visit: PumpHandler.Visit, _ id: TrailID, _ place: TrailPlace,
    restarts: (segment: UInt64, offset: UInt64)?
  ) {
    (self.desk, self.visit, self.id, self.place, self.restarts) = (desk, visit, id, place, restarts)
  }

  func receive(_ bytes: UnsafeRawBufferPointer) -> HTTPResponse? {
    do {
      if desk.stop.isSet { throw PumpHandler.ending }
      try handover.put(bytes)
      return nil
    } catch { return refusal(error) }
  }

  func finish() -> HTTPResponse {
    do {
      try handover.finish()
      if let feed, !feed.isWhole { throw PumpHandler.usage("the body ends inside a block") }
      let standing = try desk.copies.with(visit.trail) { copy in
        if feed == nil { try copy.expect(place, of: id) }
        return try copy.sync()
      }
      guard let standing else {
        throw CairnError(
          .trailMissing, "there is no copy of \(visit.trail) here yet", hint: "begin the copy", remedy: .retry)
      }
      if isRestart { desk.options.hooks.restarted(visit.trail) }
      desk.options.hooks.acknowledged(visit.peer, visit.trail, standing.end)
      return PumpHandler.response(desk.report(standing).json)
    } catch { return refusal(error) }
  }

  /// Ends the request after an error. Blocks that arrived whole stay in the copy.
  func abandon() {
    try? handover.settle()
    _ = try? desk.copies.with(visit.trail) { try $0.sync() }
  }

  private func take(_ bytes: UnsafeRawBufferPointer) throws {
    try desk.copies.with(visit.trail) { copy in
      let feed = try feed ?? begin(copy)
      self.feed = feed
      taken += bytes.count
      if taken > desk.options.bodyBytes, feed.hasBlock { throw PumpBodyTooLarge(most: desk.options.bodyBytes) }
      try feed.take(bytes, for: copy)
    }
  }

  private func begin(_ copy: TrailCopy) throws -> CopyFeed {
    guard let restarts else { return CopyFeed(trail: id, at: place, from: visit.peer) }
    guard let end = copy.end, end.segment == restarts.segment, end.offset == restarts.offset else {
      throw CairnError(
        .trailElsewhere,
        "the copy of trail \(visit.trail) does not end at \(restarts.segment.hex(8)):\(restarts.offset)",
        hint: "Cairn continues at the end of the copy by itself", remedy: .retry)
    }
    return CopyFeed(trail: id, at: place, from: visit.peer, restartsBehind: end)
  }

  private func refusal(_ error: any Error) -> HTTPResponse {
    try? handover.settle()
    guard let error = error as? CairnError else { return PumpHandler.response(error) }
    var standing: TrailStanding?
    if desk.copies.exists(visit.trail) { standing = try? desk.copies.with(visit.trail) { try $0.sync() } }
    return PumpHandler.response(PumpRefusal(error, standing.map { desk.report($0) }))
  }
}

/// Receives a peer's requests for a refresh of tables.
private final class AskSink: HTTPBodySink {
  private let desk: PumpHandler
  private let visit: PumpHandler.Visit
  private var bytes: [UInt8] = []

  init(_ desk: PumpHandler, _ visit: PumpHandler.Visit) { (self.desk, self.visit) = (desk, visit) }

  func receive(_ piece: UnsafeRawBufferPointer) -> HTTPResponse? {
    guard bytes.count + piece.count <= PumpHandler.requestBytesMax else {
      return PumpHandler.response(PumpFault(PumpHandler.usage("the body is too large")).json, status: 413)
    }
    bytes.append(contentsOf: piece)
    return nil
  }

  func finish() -> HTTPResponse {
    do {
      guard case .object(let object)? = try? JSONReader.read(bytes) else {
        throw PumpHandler.usage("the body is not a JSON object")
      }
      guard case .list(let list)? = object["requests"] else { throw PumpHandler.usage("requests is not a list") }
      let requests = list.compactMap { CopyRequest($0) }
      guard requests.count == list.count else {
        throw PumpHandler.usage("a request is not an id of letters, digits and hyphens with a list of tables")
      }
      guard desk.copies.exists(visit.trail) else {
        throw CairnError(.trailMissing, "there is no trail \(visit.trail) here", hint: "wait for it", remedy: .retry)
      }
      let surplus = desk.options.hooks.asked(visit.peer, visit.trail, requests)
      guard surplus == 0 else {
        throw CairnError(
          .busy,
          "\(surplus) of \(requests.count) copies that peer '\(visit.peer)' asks for are refused now: too many are open, or the disk has no room",
          hint: "ask for them again when the other copies have arrived", remedy: .retry,
          context: ["peer": visit.peer, "trail": visit.trail.description])
      }
      return PumpHandler.response(JSONObject([("requests", .list(requests.map { .object($0.json) }))]))
    } catch { return PumpHandler.response(error) }
  }

  func abandon() {}
}
