import Changes
import NetKit
import SystemKit
import Trails

/// The connection of one transfer to a peer, with the requests of the protocol. Only one thread may use it.
final class PumpLink {
  private static let version: Int64 = 1
  /// The longest time for which a request lets the peer wait, in seconds.
  static let waitSeconds = IdleWait.longest
  private static let answerSeconds = 10

  let client: HTTPClient
  private var address: String { client.base.address }
  private let heard: () -> Void

  /// Creates a link to the peer that `plan` names.
  ///
  /// - Parameter heard: Is called after each answer of the peer.
  init(
    _ plan: PumpPlan, stop: StopSignal, silenceSeconds: Int = waitSeconds + answerSeconds,
    heard: @escaping () -> Void = {}
  ) throws {
    self.heard = heard
    client = try HTTPClient(
      base: plan.url, tls: plan.tls,
      options: .init(
        silenceSeconds: silenceSeconds, rate: plan.rate, node: plan.node,
        bodyBytesMax: OpenQuestions.answerBytesMax + 1024),
      stop: stop)
  }

  func report(_ trail: TrailName) throws -> TrailReport? {
    let reply = try perform("GET", "/cairn/1/trails/\(trail)")
    if reply.status == 404 {
      try checkVersion()
      return nil
    }
    return try report(reply)
  }

  /// Throws an error if the peer does not speak this version of the protocol.
  private func checkVersion() throws {
    let reply = try perform("GET", "/cairn")
    guard reply.status == 200, case .object(let object)? = try? JSONReader.read(reply.body) else {
      guard [200, 404].contains(reply.status) else { throw fault(reply) }
      throw CairnError(
        .peerUnreachable, "the server at \(address) is not a cairnd", hint: "check what listens there", remedy: .retry)
    }
    let versions = object.list("versions").compactMap { value -> Int64? in
      if case .integer(let number) = value { number } else { nil }
    }
    guard !versions.contains(Self.version) else { return }
    throw CairnError(
      .unsupported,
      "node '\(object.told("node") ?? "")' at \(address) does not speak version \(Self.version) of the protocol, as this node does, but version \(versions.prefix(10).map(String.init).joined(separator: ", "))",
      hint: "bring both to the same version of Cairn; Cairn tries again by itself", remedy: .retry)
  }

  func trails() throws -> [TrailReport] {
    let reply = try perform("GET", "/cairn/1/trails")
    if reply.status == 404 { try checkVersion() }
    guard reply.status == 200, case .object(let object)? = try? JSONReader.read(reply.body) else {
      throw fault(reply).error
    }
    return object.objects("trails").compactMap { TrailReport($0) }
  }

  /// Appends bytes to the copy at the peer, and returns the new state of the copy.
  ///
  /// - Parameter restart: The present end of the copy, if the copy begins again at `place`, in a later segment;
  ///   otherwise nil.
  func push(
    _ bytes: UnsafeRawBufferPointer? = nil, source: (any HTTPBodySource)? = nil, at place: TrailPlace,
    _ trail: TrailName, _ id: TrailID, restart: TrailPlace? = nil
  ) throws -> TrailReport {
    var target = target(trail, id, place.segment) + "?offset=\(place.offset)&chain=\(place.chain)"
    if let restart { target += "&restart=\(restart.segment.hex(8)):\(restart.offset)" }
    return try report(perform("POST", target, body: bytes, source: source))
  }

  enum Fetched {
    case bytes
    case nothing
  }

  /// Passes the bytes of the peer's trail after `place` to `sink`. If there are none yet, the peer waits for them, for
  /// at most `waitSeconds`.
  ///
  /// - Parameter isKnown: Whether to send `place.chain` to the peer, which checks it.
  func follow(
    _ place: TrailPlace, isKnown: Bool, _ trail: TrailName, _ id: TrailID, applied: Position?,
    waitSeconds: Int, into sink: (UnsafeRawBufferPointer) throws -> Void
  ) throws -> (Fetched, end: TrailSpot?) {
    let target = address(of: place, isKnown: isKnown, trail, id, applied) + "&wait=\(waitSeconds)"
    let reply = try withoutActuallyEscaping(sink) { sink in try perform("GET", target, into: sink) }
    guard reply.status == 200 || reply.status == 204 else { throw fault(reply) }
    return (reply.status == 200 ? .bytes : .nothing, reply.headers["cairn-end"].flatMap { TrailSpot($0) })
  }

  /// Reports to the peer that this node has the trail durably up to `place`. If the peer rejects the place, only the
  /// next request throws.
  func tell(_ place: TrailPlace, _ trail: TrailName, _ id: TrailID, applied: Position?) throws {
    _ = try perform("HEAD", address(of: place, isKnown: true, trail, id, applied))
  }

  private func address(
    of place: TrailPlace, isKnown: Bool, _ trail: TrailName, _ id: TrailID, _ applied: Position?
  ) -> String {
    var target = target(trail, id, place.segment) + "?offset=\(place.offset)"
    if isKnown { target += "&chain=\(place.chain)" }
    if let applied { target += "&applied=\(applied)" }
    return target
  }

  func segment(
    _ number: UInt64, _ trail: TrailName, _ id: TrailID, into sink: (UnsafeRawBufferPointer) throws -> Void
  ) throws {
    let target = target(trail, id, number)
    let reply = try withoutActuallyEscaping(sink) { sink in try perform("GET", target, into: sink) }
    guard reply.status == 200 else { throw fault(reply) }
  }

  func ask(_ requests: [CopyRequest], _ trail: TrailName) throws {
    let body = JSONObject([("requests", .list(requests.map { .object($0.json) }))]).line
    let reply = try Array(body.utf8).withUnsafeBytes { bytes in
      try perform("POST", "/cairn/1/trails/\(trail)/requests", body: bytes)
    }
    guard reply.status == 200 else { throw fault(reply).error }
  }

  private static let requestsMax = 4096

  /// Returns the peer's requests for a refresh of tables, for all trails that this node may push.
  ///
  /// - Parameter known: The checksum (`mark`) of the last list. The peer waits until its list differs, for at most
  ///   ``waitSeconds``.
  func requests(
    known: String?
  ) throws -> (node: String, mark: String, requests: [(TrailName, [CopyRequest])], hasQuestions: Bool) {
    let mark = known.map { "&known=\($0)" } ?? ""
    let reply = try perform("GET", "/cairn/1/requests?wait=\(Self.waitSeconds)\(mark)")
    guard reply.status == 200, case .object(let object)? = try? JSONReader.read(reply.body),
      let node = object.text("node"), TrailName.isValid(node), let mark = object.text("mark"),
      mark.utf8.count <= 64, mark.utf8.allSatisfy(Self.isHexDigit)
    else { throw fault(reply).error }
    let requests = object.objects("trails").prefix(Self.requestsMax).compactMap { entry in
      entry.text("trail").flatMap { TrailName($0) }
        .map { ($0, entry.list("requests").prefix(CopyRequest.countMax).compactMap { CopyRequest($0) }) }
    }
    return (node, mark, requests, object.bool("questions") ?? false)
  }

  // MARK: Questions about rows

  /// The maximum time for the transfer of an answer to a question, in seconds.
  static let questionSeconds = 60
  private static let questionWaitSeconds = 2

  /// Sends a question about rows of a trail's source to the peer, and returns the encoded answer.
  func ask(_ question: [UInt8], _ trail: TrailName) throws -> [UInt8] {
    let reply = try question.withUnsafeBytes { try perform("POST", "/cairn/1/trails/\(trail)/questions", body: $0) }
    guard reply.status == 200 else { throw fault(reply).error }
    return reply.body
  }

  /// Returns the next question of the peer about rows of a trail that this node may push; nil if none arrives within
  /// `questionWaitSeconds`.
  func nextQuestion() throws -> OpenQuestions.Question? {
    let reply = try perform("GET", "/cairn/1/questions?wait=\(Self.questionWaitSeconds)")
    if reply.status == 204 { return nil }
    guard reply.status == 200, let trail = reply.headers["cairn-trail"].flatMap({ TrailName($0) }),
      let id = reply.headers["cairn-question"], id.utf8.count <= 64, id.utf8.allSatisfy(Self.isHexDigit)
    else { throw fault(reply).error }
    return OpenQuestions.Question(id: id, trail: trail, bytes: reply.body)
  }

  /// Sends the encoded answer to a question. The peer drops the answer if the asking node no longer waits.
  func answer(_ question: OpenQuestions.Question, _ sealed: [UInt8]) throws {
    let reply = try sealed.withUnsafeBytes { try perform("POST", "/cairn/1/questions/\(question.id)", body: $0) }
    guard [200, 404].contains(reply.status) else { throw fault(reply).error }
  }

  private static func isHexDigit(_ byte: UInt8) -> Bool { Character(UnicodeScalar(byte)).isHexDigit }

  private func perform(
    _ method: String, _ target: String, body: UnsafeRawBufferPointer? = nil, source: (any HTTPBodySource)? = nil,
    into sink: ((UnsafeRawBufferPointer) throws -> Void)? = nil
  ) throws -> HTTPReply {
    let reply = try client.perform(method, target, body: body, source: source, into: sink)
    heard()
    return reply
  }

  private func target(_ trail: TrailName, _ id: TrailID, _ segment: UInt64) -> String {
    "/cairn/1/trails/\(trail)/\(id)/\(segment.hex(8)).seg"
  }

  private func report(_ reply: HTTPReply) throws -> TrailReport {
    guard reply.status == 200 else { throw fault(reply) }
    guard case .object(let object)? = try? JSONReader.read(reply.body), let report = TrailReport(object) else {
      throw fault(reply).error
    }
    return report
  }

  private func fault(_ reply: HTTPReply) -> PumpFault {
    PumpFault(status: reply.status, body: reply.body, from: address)
  }
}

extension PumpFault: Error {}

/// A segment and an offset in its file, as in the header `Cairn-End`.
struct TrailSpot: Equatable {
  var segment: UInt64
  var offset: UInt64

  init(segment: UInt64, offset: UInt64) { (self.segment, self.offset) = (segment, offset) }

  init?(_ text: String) {
    let parts = text.split(separator: ":")
    guard parts.count == 2, let segment = UInt64(parts[0], radix: 16), let offset = UInt64(parts[1]),
      NumberBounds.isSegment(segment), NumberBounds.isNumber(offset)
    else { return nil }
    (self.segment, self.offset) = (segment, offset)
  }
}
