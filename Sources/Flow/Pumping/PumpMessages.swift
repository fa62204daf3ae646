import Changes
import Trails

/// A request of a node for a refresh of tables through the trail (`docs/reference/protocol.md`, Refresh).
///
///     CopyRequest(id: "7f3a", tables: ["orders"])
package struct CopyRequest: Hashable, Sendable {
  /// The id of the request. Requests with the same id are one request.
  @ByBytes package var id: String
  /// The patterns of the requested tables; empty for all tables.
  @ByBytes package var tables: [String]

  package init(id: String, tables: [String]) { (self.id, self.tables) = (id, tables) }

  private static let idBytesMax = 64
  static let countMax = 256
  private static let tableBytesMax = 64 << 10

  /// Returns whether a text is an id: 1 to 64 letters, digits and hyphens.
  package static func isID(_ text: String) -> Bool {
    (1...idBytesMax).contains(text.utf8.count)
      && text.utf8.allSatisfy {
        (0x30...0x39).contains($0) || (0x61...0x7a).contains($0) || (0x41...0x5a).contains($0)
          || $0 == UInt8(ascii: "-")
      }
  }

  /// Parses a request; nil if any part is invalid.
  init?(_ value: JSONObject.Value) {
    guard case .object(let object) = value, let id = object.text("id"), Self.isID(id),
      case .list(let patterns)? = object["tables"]
    else { return nil }
    self.id = id
    tables = patterns.compactMap { if case .text(let text) = $0, !text.isEmpty { text } else { nil } }
    guard tables.count == patterns.count, tables.reduce(0, { $0 + 8 + $1.utf8.count }) <= Self.tableBytesMax else {
      return nil
    }
  }

  var json: JSONObject {
    JSONObject([("id", .text(id)), ("tables", .list(tables.map { .text($0) }))])
  }
}

/// The state of a trail at a node, as sent to peers (`docs/reference/protocol.md`, The state of a trail).
package struct TrailReport: Equatable, Sendable {
  package var node: String
  package var standing: TrailStanding
  /// The position up to which every apply of the node has applied the trail; nil if unknown or without an apply.
  package var applied: Position?
  package var requests: [CopyRequest]

  package init(node: String, standing: TrailStanding, applied: Position?, requests: [CopyRequest]) {
    (self.node, self.standing, self.applied, self.requests) = (node, standing, applied, requests)
  }

  package var json: JSONObject {
    var end = standing.end.json
    end["position"] = .text(standing.position.description)
    var object = JSONObject([
      ("node", .text(node)), ("trail", .text(standing.name.description)), ("id", .text(standing.id.description)),
      ("oldest", .integer(Int64(clamping: standing.oldest))), ("end", .object(end)),
      ("transaction", .integer(Int64(clamping: standing.lastTransaction))),
    ])
    if let applied { object["applied"] = .text(applied.description) }
    object["requests"] = .list(requests.map { .object($0.json) })
    return object
  }

  /// Parses a report; nil if a required member is missing.
  package init?(_ object: JSONObject) {
    guard let name = object.text("trail").flatMap({ TrailName($0) }),
      let id = object.text("id").flatMap({ bytes(hex: $0) }).flatMap({ TrailID($0) }),
      let oldest = object.integer("oldest"), oldest > 0, NumberBounds.isSegment(UInt64(oldest)),
      let end = object.object("end"), let place = TrailPlace(end)
    else { return nil }
    node = object.text("node").flatMap { TrailName.isValid($0) ? $0 : nil } ?? ""
    standing = TrailStanding(
      name: name, id: id, oldest: UInt64(oldest), end: place,
      position: end.text("position").flatMap { Position($0) } ?? Position(segment: place.segment, offset: 0),
      lastTransaction: min(UInt64(clamping: object.integer("transaction") ?? 0), NumberBounds.numbers - 1))
    applied = object.text("applied").flatMap { Position($0) }
    requests = object.list("requests").prefix(CopyRequest.countMax).compactMap { CopyRequest($0) }
  }
}

extension JSONObject {
  private static let toldBytesMax = 4096

  /// Returns a text member of an object from another node, cut to 4096 bytes; nil if there is none.
  func told(_ name: String) -> String? {
    guard let text = text(name), text.utf8.count > Self.toldBytesMax else { return text(name) }
    return String(decoding: text.utf8.prefix(Self.toldBytesMax), as: UTF8.self) + "…"
  }
}

extension TrailPlace {
  var json: JSONObject {
    JSONObject([
      ("segment", .integer(Int64(clamping: segment))), ("offset", .integer(Int64(clamping: offset))),
      ("chain", .text(chain.description)),
    ])
  }

  init?(_ object: JSONObject) {
    guard let segment = object.integer("segment"), segment > 0, let offset = object.integer("offset"), offset >= 0,
      NumberBounds.isSegment(UInt64(segment)), NumberBounds.isNumber(UInt64(offset)),
      let chain = object.text("chain").flatMap({ bytes(hex: $0) }).flatMap({ ChainHash($0) })
    else { return nil }
    self.init(segment: UInt64(segment), offset: UInt64(offset), chain: chain)
  }
}

/// Decodes hexadecimal digits to at most 64 bytes; nil for any other text.
func bytes(hex text: String) -> [UInt8]? {
  let digits = Array(text.utf8)
  guard digits.count.isMultiple(of: 2), digits.count <= 128 else { return nil }
  func value(_ digit: UInt8) -> UInt8? {
    switch digit {
    case 0x30...0x39: digit - 0x30
    case 0x61...0x66: digit - 0x57
    case 0x41...0x46: digit - 0x37
    default: nil
    }
  }
  var bytes: [UInt8] = []
  for at in stride(from: 0, to: digits.count, by: 2) {
    guard let high = value(digits[at]), let low = value(digits[at + 1]) else { return nil }
    bytes.append(high << 4 | low)
  }
  return bytes
}

/// An error that a node reports in an HTTP response (`docs/reference/protocol.md`, Errors).
package struct PumpFault: Sendable {
  package let status: Int
  package let error: CairnError
  /// The state of the trail at the node that reports the error; nil if it reported none.
  package let report: TrailReport?

  package init(_ error: CairnError, report: TrailReport? = nil) {
    (self.error, self.report) = (error, report)
    status = Self.status(of: error.code)
  }

  /// Reads the error from the body of a response.
  package init(status: Int, body: [UInt8], from peer: String) {
    self.status = status
    var told: JSONObject?
    if case .object(let object)? = try? JSONReader.read(body) { told = object }
    report = told?.object("state").flatMap { TrailReport($0) }
    let code = told?.text("code").flatMap { ErrorCode(rawValue: $0) } ?? Self.code(of: status)
    let remedy: CairnError.Remedy =
      switch status {
      case 400, 413: .bug
      case 409: code == .trailForked ? .stop : .retry
      default: .retry
      }
    error = CairnError(
      code, "\(peer) answers \(status): \(told?.told("message") ?? "without a message of Cairn")",
      hint: told?.told("hint") ?? "check what listens there: it may not be a cairnd", remedy: remedy)
  }

  package var json: JSONObject {
    var object = JSONObject([
      ("code", .text(error.code.rawValue)), ("message", .text(error.message)), ("hint", .text(error.hint)),
    ])
    if let report { object["state"] = .object(report.json) }
    return object
  }

  private static func status(of code: ErrorCode) -> Int {
    switch code {
    case .usage: 400
    case .peerUnknown: 401
    case .peerRefused: 403
    case .trailMissing: 404
    case .trailElsewhere, .trailForked, .trailOwn, .stateForeign: 409
    case .trailPurged: 410
    case .trailDamaged, .trailVersion: 422
    case .busy, .trailBusy: 503
    case .diskFull, .diskBudget: 507
    default: 500
    }
  }

  private static func code(of status: Int) -> ErrorCode {
    switch status {
    case 401: .peerUnknown
    case 403: .peerRefused
    case 404: .trailMissing
    case 409: .trailElsewhere
    case 410: .trailPurged
    case 422: .trailDamaged
    case 429, 503: .busy
    case 507: .diskFull
    default: .peerUnreachable
    }
  }
}
