import Changes
import NetKit
import Synchronization
import SystemKit
import Trails

/// The handler that answers the requests of peers at a node that listens (`docs/reference/protocol.md`).
///
///     let desk = PumpHandler(options, copies: TrailCopies(state: state))
///     let server = try HTTPServer(host: "127.0.0.1", port: 0, handler: desk)
package final class PumpHandler: HTTPHandler {
  /// The settings of a listener for peers.
  ///
  ///     let options = PumpHandler.Options(node: "hq", grants: { grants }, join: { join.begin($0) })
  package struct Options: Sendable {
    package var node: String
    /// Returns the grants of peers; called for each request.
    package var grants: @Sendable () -> Grants
    /// Answers `POST join` and `POST renew`, by which nodes get and renew certificates.
    package var join: @Sendable (HTTPRequest) -> HTTPAction
    package var hooks: PumpHooks
    /// The maximum size of a response or a pushed body with several blocks, in bytes. A larger block is sent alone.
    package var bodyBytes = 8 << 20

    package init(
      node: String, grants: @escaping @Sendable () -> Grants, hooks: PumpHooks = PumpHooks(),
      join: @escaping @Sendable (HTTPRequest) -> HTTPAction
    ) {
      (self.node, self.grants, self.hooks, self.join) = (node, grants, hooks, join)
    }
  }

  static let waitSecondsMax = 60
  static let requestBytesMax = 64 << 10

  let options: Options
  let copies: TrailCopies
  let bodies = BodyPermits()
  let stop = StopSignal()

  package init(_ options: Options, copies: TrailCopies) {
    (self.options, self.copies) = (options, copies)
  }

  /// Ends all requests that wait for data. Requests that arrive afterwards get the error `busy`.
  package func end() { stop.set() }

  package func begin(_ request: HTTPRequest) -> HTTPAction {
    do {
      if stop.isSet { throw Self.ending }
      return try route(request)
    } catch { return .answer(Self.response(error)) }
  }

  private func route(_ request: HTTPRequest) throws -> HTTPAction {
    var parts = request.path.split(separator: "/").map(String.init)
    guard parts.first == "cairn" else { throw Self.nothing }
    parts.removeFirst()
    if request.method == "POST", parts == ["1", "join"] || parts == ["1", "renew"] { return options.join(request) }
    let peer = try peer(of: request)
    if parts.isEmpty {
      try Self.expect(Self.reading, request)
      return .answer(
        Self.response(
          JSONObject([("versions", .list([.integer(1)])), ("node", .text(options.node))])))
    }
    if parts == ["1", "join"] || parts == ["1", "renew"] { try Self.expect(Self.writing, request) }
    if parts == ["1", "requests"] {
      try Self.expect(Self.reading, request)
      return .answer(try requests(peer, request))
    }
    if parts.starts(with: ["1", "questions"]), parts.count <= 3 {
      try Self.expect(parts.count == 2 ? Self.reading : Self.writing, request)
      return parts.count == 2 ? .answer(try question(for: peer, request)) : .receive(try answering(peer, parts[2]))
    }
    if parts.starts(with: ["1", "snapshots"]), parts.count <= 3 {
      try Self.expect(Self.reading, request)
      return .answer(parts.count == 2 ? try snapshots(peer) : try snapshot(peer, parts[2], request))
    }
    guard parts.count >= 2, parts[0] == "1", parts[1] == "trails" else { throw Self.nothing }
    parts.removeFirst(2)
    if parts.isEmpty {
      try Self.expect(Self.reading, request)
      return .answer(try trails(peer))
    }
    guard let first = parts.first, let trail = TrailName(first) else { throw Self.nothing }
    let visit = Visit(peer: peer, trail: trail, grants: options.grants(), request: request)
    switch parts.count {
    case 1:
      try Self.expect(Self.reading, request)
      return .answer(try standing(visit))
    case 2 where parts[1] == "requests":
      try Self.expect(Self.writing, request)
      return try asking(visit)
    case 2 where parts[1] == "questions":
      try Self.expect(Self.writing, request)
      return try questioning(visit)
    case 3:
      guard let id = bytes(hex: parts[1]).flatMap({ TrailID($0) }), let segment = Self.segment(parts[2]) else {
        throw Self.nothing
      }
      try Self.expect(Self.reading + Self.writing, request)
      return Self.writing.contains(request.method)
        ? try push(visit, id, segment) : .answer(try fetch(visit, id, segment))
    default: throw Self.nothing
    }
  }

  private static let reading = ["GET", "HEAD"]
  private static let writing = ["POST"]

  /// Throws unless `methods` has the method of the request. The error does not show an unknown client whether the path
  /// exists.
  private static func expect(_ methods: [String], _ request: HTTPRequest) throws {
    guard !methods.contains(request.method) else { return }
    throw PumpMethodRefusal(allowed: methods)
  }

  /// A request about a trail, with the peer that makes it.
  struct Visit {
    let peer: String
    let trail: TrailName
    let grants: Grants
    let request: HTTPRequest

    func may(_ right: Grants.Right) -> Bool { grants.allow(peer, right, trail) }

    func require(_ right: Grants.Right) throws {
      guard may(right) else {
        throw CairnError(
          .peerRefused, "peer '\(peer)' may not \(right == .push ? "push" : "pull") trail \(trail)",
          hint: "grant it at the listener, with may in [peer.\(peer)]", remedy: .retry,
          context: ["peer": peer, "trail": trail.description])
      }
    }
  }

  private func peer(of request: HTTPRequest) throws -> String {
    func unknown(_ why: String) -> CairnError {
      CairnError(
        .peerUnknown, "the certificate of the peer is not accepted: \(why)",
        hint: "run 'cairn peer invite' at the listener, and 'cairn peer join' at the peer", remedy: .retry,
        context: ["peer": request.remote])
    }
    if request.isTLS {
      guard let peer = request.peer else { throw unknown(request.peerProblem ?? "the peer sent no certificate") }
      return peer.commonName
    }
    guard let name = request.header("Cairn-Node"), TrailName.isValid(name) else {
      throw unknown("the request has no header Cairn-Node")
    }
    return name
  }

  private static func segment(_ text: String) -> UInt64? {
    guard text.hasSuffix(".seg"), let number = UInt64(text.dropLast(4), radix: 16), NumberBounds.isSegment(number),
      text == number.hex(8) + ".seg"
    else { return nil }
    return number
  }

  func report(_ standing: TrailStanding) -> TrailReport {
    TrailReport(
      node: options.node, standing: standing, applied: options.hooks.applied(standing.name),
      requests: options.hooks.requests(standing.name))
  }
}

// MARK: - Answers

extension PumpHandler {
  static func response(_ object: JSONObject, status: UInt32 = 200) -> HTTPResponse {
    HTTPResponse(status: status, type: "application/json", text: object.line + "\n")
  }

  static func response(_ error: any Error) -> HTTPResponse {
    if let refusal = error as? PumpMethodRefusal {
      let allowed = refusal.allowed.joined(separator: ", ")
      var told = response(PumpFault(usage("this address takes only \(allowed)")).json, status: 405)
      told.headers.append(("Allow", allowed))
      return told
    }
    if let large = error as? PumpBodyTooLarge {
      return response(PumpFault(usage("a body with several blocks has at most \(large.most) bytes")).json, status: 413)
    }
    let fault =
      error as? PumpRefusal
      ?? PumpRefusal(
        (error as? CairnError)
          ?? CairnError(.bug, "\(error)", hint: "please report this", remedy: .bug))
    let told = PumpFault(fault.error, report: fault.report)
    return response(told.json, status: UInt32(told.status))
  }

  /// Returns the response to a request whose body was not read; the connection closes after it.
  package static func refusal(_ error: CairnError) -> HTTPResponse {
    var told = response(error)
    told.closes = true
    return told
  }

  static var ending: CairnError {
    CairnError(.busy, "this node is shutting down", hint: "Cairn tries again by itself", remedy: .retry)
  }

  static func usage(_ problem: String) -> CairnError {
    CairnError(.usage, problem, hint: "see docs/reference/protocol.md", remedy: .badInput)
  }

  static var nothing: CairnError {
    CairnError(
      .trailMissing, "there is nothing at this address", hint: "see docs/reference/protocol.md", remedy: .retry)
  }
}

/// The error that a path does not allow the HTTP method of a request.
private struct PumpMethodRefusal: Error {
  let allowed: [String]
}

/// The error that a request body is longer than the protocol allows.
struct PumpBodyTooLarge: Error {
  let most: Int
}

struct PumpRefusal: Error {
  let error: CairnError
  let report: TrailReport?

  init(_ error: CairnError, _ report: TrailReport? = nil) { (self.error, self.report) = (error, report) }
}
