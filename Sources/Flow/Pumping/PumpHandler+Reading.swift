import Changes
import CodecKit
import NetKit
import SystemKit
import Trails

// These requests of peers read: the state of trails, and their bytes.
extension PumpHandler {
  func trails(_ peer: String) throws -> HTTPResponse {
    let grants = options.grants()
    let reports = try Trail.names(state: copies.state).filter { grants.allow(peer, .pull, $0) }
      .compactMap { try standing(of: $0) }
    return Self.response(
      JSONObject([
        ("node", .text(options.node)), ("trails", .list(reports.map { .object(self.report($0).json) })),
      ]))
  }

  /// Returns a response with this node's requests for a refresh of tables, for all trails that the peer may push. If
  /// the peer has the present list, the call waits for a change, for at most the request's wait time.
  func requests(_ peer: String, _ request: HTTPRequest) throws -> HTTPResponse {
    let deadline = Clock.monotonicMilliseconds + Int64(try waitSeconds(request)) * 1000
    while true {
      let grants = options.grants()
      let open = options.hooks.allRequests().filter { !$0.value.isEmpty && grants.allow(peer, .push, $0.key) }
        .sorted { $0.key.description < $1.key.description }
      let trails = JSONObject.Value.list(
        open.map { trail, requests in
          .object(
            JSONObject([
              ("trail", .text(trail.description)), ("requests", .list(requests.map { .object($0.json) })),
            ]))
        })
      var told = JSONObject([("trails", trails)])
      if hasQuestion(for: peer) { told["questions"] = .bool(true) }
      let mark = UInt64(CRC32C.of(Array(told.line.utf8))).hex(8)
      if mark != request.query["known"] || Clock.monotonicMilliseconds >= deadline {
        (told["node"], told["mark"]) = (.text(options.node), .text(mark))
        return Self.response(told)
      }
      if stop.wait(milliseconds: 500) { throw Self.ending }
    }
  }

  func waitSeconds(_ request: HTTPRequest) throws -> Int {
    guard let text = request.query["wait"] else { return 0 }
    guard let seconds = Int(text), seconds >= 0 else { throw Self.usage("wait is not a number of seconds") }
    return min(seconds, Self.waitSecondsMax)
  }

  static func offset(_ query: [String: String]) throws -> UInt64 {
    guard let offset = query["offset"].flatMap({ UInt64($0) }), NumberBounds.isNumber(offset) else {
      throw usage("offset is not a number, or is larger than a segment")
    }
    return offset
  }

  private func applied(_ request: HTTPRequest) throws -> Position? {
    guard let text = request.query["applied"] else { return nil }
    guard let position = Position(text) else { throw Self.usage("applied is not a position") }
    return position
  }

  func standing(_ visit: Visit) throws -> HTTPResponse {
    if !visit.may(.push) { try visit.require(.pull) }
    guard let standing = try standing(of: visit.trail, withUnread: visit.may(.push)) else {
      throw CairnError(
        .trailMissing, "there is no trail \(visit.trail) here", hint: "it appears when a capture or a peer writes it",
        remedy: .retry)
    }
    return Self.response(report(standing).json)
  }

  /// Returns the state of a trail; nil if it does not exist.
  ///
  /// - Parameter withUnread: Whether to report the end of all received bytes, even if it is inside a transaction.
  private func standing(of trail: TrailName, withUnread: Bool = false) throws -> TrailStanding? {
    guard copies.exists(trail) else { return nil }
    if withUnread, trail.origin != options.node { return try copies.with(trail) { try $0.sync() } }
    return try SegmentSource.open(folder: copies.folder(trail)).standing()
  }

  func fetch(_ visit: Visit, _ id: TrailID, _ segment: UInt64) throws -> HTTPResponse {
    try visit.require(.pull)
    guard copies.exists(visit.trail) else {
      throw CairnError(.trailMissing, "there is no trail \(visit.trail) here", hint: "wait for it", remedy: .retry)
    }
    let watch = visit.request.query["offset"] == nil ? nil : try copies.watch(visit.trail)
    let source = try SegmentSource.open(folder: copies.folder(visit.trail))
    guard source.id == id else {
      throw PumpRefusal(
        CairnError(
          .trailForked, "trail \(visit.trail) has the id \(source.id) here, not \(id)",
          hint: "run 'cairn explain trail-forked'"), report(try source.standing()))
    }
    guard let watch else { return try whole(visit, source, segment) }
    return try follow(visit, source, segment, watch)
  }

  private func whole(_ visit: Visit, _ source: SegmentSource, _ segment: UInt64) throws -> HTTPResponse {
    guard let file = try source.file(segment), file.isSealed else {
      throw CairnError(
        .trailMissing, "segment \(segment.hex(8)) of trail \(visit.trail) is not sealed here, or purged",
        hint: "read the last segment by positions", remedy: .retry)
    }
    let tag = "\"\(source.id)-\(segment.hex(8))\""
    let headers = [
      ("ETag", tag), ("Cache-Control", "public, max-age=31536000, immutable"), ("Accept-Ranges", "bytes"),
      ("Content-Type", "application/octet-stream"),
    ]
    return Self.response(to: visit.request, file.file, count: file.count, tag: tag, headers)
  }

  /// Returns a response with the bytes of a trail after the requested offset. If there are none, the call waits for
  /// them; it returns status 204 if none arrive within the request's wait time.
  private func follow(
    _ visit: Visit, _ source: SegmentSource, _ segment: UInt64, _ watch: FolderWatch
  ) throws -> HTTPResponse {
    let query = visit.request.query
    let offset = try Self.offset(query)
    let chain = query["chain"].flatMap { bytes(hex: $0) }.flatMap { ChainHash($0) }
    guard chain != nil || (offset == 0 && query["chain"] == nil) else { throw Self.usage("chain is not a chain hash") }
    let applied = try applied(visit.request)
    let deadline = Clock.monotonicMilliseconds + Int64(try waitSeconds(visit.request)) * 1000
    var isTold = false
    while true {
      let verdict = try source.judge(segment: segment, offset: offset, chain: chain)
      if !isTold, let chain, verdict == .follows || verdict == .atEnd {
        isTold = true
        acknowledge(visit, TrailPlace(segment: segment, offset: offset, chain: chain), applied: applied)
      }
      switch verdict {
      case .follows:
        guard
          let place = try chain.map({ TrailPlace(segment: segment, offset: offset, chain: $0) })
            ?? source.start(of: segment), let piece = try source.piece(at: place, max: options.bodyBytes),
          let file = try source.file(piece.place.segment)
        else { throw Self.purgedMeanwhile(visit.trail) }
        return HTTPResponse(
          status: 200,
          headers: [
            ("Cairn-End", source.end.description), ("Cache-Control", "no-store"),
            ("Content-Type", "application/octet-stream"),
          ], body: .file(file.file, offset: piece.place.offset, count: UInt64(piece.count)))
      case .atEnd:
        let left = deadline - Clock.monotonicMilliseconds
        if left > 0, watch.wait(milliseconds: Int(left), stop: stop) { continue }
        if stop.isSet { throw Self.ending }
        if Clock.monotonicMilliseconds < deadline { continue }
        return HTTPResponse(
          status: 204, headers: [("Cairn-End", source.end.description), ("Cache-Control", "no-store")])
      case .purged: throw refusal(.trailPurged, visit, source, "the bytes that follow are purged", segment, offset)
      case .beyond:
        let isFork = options.hooks.isFork(visit.trail, behindEndAt: options.node)
        throw refusal(
          isFork ? .trailForked : .trailElsewhere, visit, source, "that is after the end", segment, offset)
      case .forked: throw refusal(.trailForked, visit, source, "the trail has another history there", segment, offset)
      }
    }
  }

  /// The error that the next bytes of a trail were deleted between two steps of a request.
  static func purgedMeanwhile(_ trail: TrailName) -> CairnError {
    CairnError(
      .trailMissing, "trail \(trail) was purged while it was read", hint: "Cairn tries again", remedy: .retry)
  }

  private func acknowledge(_ visit: Visit, _ place: TrailPlace, applied: Position?) {
    options.hooks.acknowledged(visit.peer, visit.trail, place)
    if let applied { options.hooks.peerApplied(visit.peer, visit.trail, applied) }
  }

  private func refusal(
    _ code: ErrorCode, _ visit: Visit, _ source: SegmentSource, _ why: String, _ segment: UInt64, _ offset: UInt64
  ) -> any Error {
    do {
      let standing = try source.standing()
      return PumpRefusal(
        CairnError(
          code,
          "cannot continue at \(segment.hex(8)):\(offset) of trail \(visit.trail), which ends at \(standing.end): \(why)",
          hint: "run 'cairn explain \(code.rawValue)'"), report(standing))
    } catch { return error }
  }
}

/// The part of a body that a Range header requests; the whole body for several ranges. Source: RFC 9110, section 14.
enum ByteRange: Equatable {
  case all
  case part(Range<UInt64>)
  case none

  init(_ header: String?, count: UInt64) {
    guard let header, header.hasPrefix("bytes="), !header.contains(",") else {
      self = .all
      return
    }
    let sides = header.dropFirst(6).split(separator: "-", maxSplits: 1, omittingEmptySubsequences: false)
    guard sides.count == 2 else {
      self = .all
      return
    }
    if sides[0].isEmpty, let last = UInt64(sides[1]) {
      self = last > 0 && count > 0 ? .part(count - min(last, count)..<count) : .none
    } else if let first = UInt64(sides[0]), sides[1].isEmpty || UInt64(sides[1]) ?? 0 >= first {
      let last = sides[1].isEmpty ? UInt64.max : UInt64(sides[1]) ?? .max
      self = first < count ? .part(first..<min(count, last == .max ? count : last + 1)) : .none
    } else {
      self = .all
    }
  }
}
