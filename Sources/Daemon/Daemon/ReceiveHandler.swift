import Changes
import ControlAPI
import NetKit
import Pumping
import SystemKit
import Trust

/// The HTTP handler for peers that push and pull trails. Pushed bytes are refused while all trails, or those of the
/// peer, exceed their disk limit.
final class ReceiveHandler: HTTPHandler {
  private let desk: PumpHandler
  private let join: JoinHandler
  private let visits: PeerContacts
  private let context: ServiceContext
  private let plan: @Sendable () -> RetentionPlan

  init(
    desk: PumpHandler, join: JoinHandler, visits: PeerContacts, context: ServiceContext,
    plan: @escaping @Sendable () -> RetentionPlan
  ) {
    (self.desk, self.join, self.visits, self.context) = (desk, join, visits, context)
    self.plan = plan
  }

  func mayGoOn(_ request: HTTPRequest) -> Bool { desk.mayGoOn(request) }

  func begin(_ request: HTTPRequest) -> HTTPAction {
    if let peer = request.peer { join.noteUse(of: peer) }
    if ["/cairn/1/renew", "/cairn/1/authority"].contains(request.path) { return join.begin(request) }
    guard let visit = visit(request) else { return desk.begin(request) }
    visits.begin(visit.peer, visit.trail, visit.way, now: Clock.system.microseconds())
    if visit.way == .received, let obstacle = obstacle(visit, isEmpty: request.contentLength == 0) {
      let refusal = PumpHandler.refusal(obstacle)
      end(visit, refusal, bytes: 0)
      return .answer(refusal)
    }
    switch desk.begin(request) {
    case .answer(let response):
      if visit.way == .received { context.intake.end(visit.peer) }
      end(visit, response, bytes: visit.way == .served ? response.bodyBytes : 0)
      return .answer(response)
    case .receive(let sink): return .receive(CountingSink(sink, self, visit))
    }
  }

  // Returns the error if a peer may not push now. Otherwise returns nil and counts the request body.
  private func obstacle(_ visit: Visit, isEmpty: Bool) -> CairnError? {
    if !isEmpty {
      if let full = context.obstacle(for: visit.peer, plan) { return full }
      if let surplus = context.obstacle(for: visit.peer, beginning: visit.trail) { return surplus }
    }
    let most = context.configuration.peers.first { $0.name == visit.peer }?.requests ?? 1
    guard !context.intake.begin(visit.peer, most: most) else { return nil }
    return CairnError(
      .busy,
      "peer '\(visit.peer)' has \(most.counted("push", "pushes")) in progress, the limit of requests in [peer.\(visit.peer)]",
      hint: "Cairn tries again by itself", remedy: .retry, context: ["peer": visit.peer])
  }

  private struct Visit {
    var peer: String
    var trail: TrailName
    var way: NodeStatus.Path.Direction
  }

  // The peer, trail and direction of a request for bytes of a trail; nil for any other request, or without a grant.
  private func visit(_ request: HTTPRequest) -> Visit? {
    let parts = request.path.split(separator: "/")
    guard ["GET", "POST"].contains(request.method), parts.count == 6, parts[0] == "cairn", parts[2] == "trails",
      let trail = TrailName(String(parts[3])),
      let peer = request.isTLS ? request.peer?.commonName : request.header("Cairn-Node")
    else { return nil }
    let way: NodeStatus.Path.Direction = request.method == "POST" ? .received : .served
    guard context.grants.allow(peer, way == .received ? .push : .pull, trail) else { return nil }
    return Visit(peer: peer, trail: trail, way: way)
  }

  private func end(_ visit: Visit, _ response: HTTPResponse, bytes: UInt64) {
    // If this node has no copy of the trail yet, a problem with the bytes (4xx) is reported to their sender only. A
    // lack of disk space is also shown in this node's status.
    let isHere = context.copies.exists(visit.trail)
    let problem = !isHere && (400..<500).contains(response.status) ? nil : response.problem
    visits.end(
      visit.peer, visit.trail, visit.way, bytes: bytes, problem: problem, isHere: isHere,
      now: Clock.system.microseconds())
  }

  private func abandon(_ visit: Visit, bytes: UInt64) {
    visits.abandon(
      visit.peer, visit.trail, visit.way, bytes: bytes, isHere: context.copies.exists(visit.trail),
      now: Clock.system.microseconds())
  }

  private final class CountingSink: HTTPBodySink {
    private let sink: any HTTPBodySink
    private let desk: ReceiveHandler
    private let visit: Visit
    private var bytes: UInt64 = 0
    private var isFull = false

    init(_ sink: any HTTPBodySink, _ desk: ReceiveHandler, _ visit: Visit) {
      (self.sink, self.desk, self.visit) = (sink, desk, visit)
    }

    func receive(_ piece: UnsafeRawBufferPointer) -> HTTPResponse? {
      bytes += UInt64(piece.count)
      desk.context.intake.note(piece.count, of: visit.peer)
      if let full = desk.context.obstacle(for: visit.peer, desk.plan) {
        isFull = true
        return PumpHandler.refusal(full)
      }
      return sink.receive(piece)
    }

    func finish() -> HTTPResponse {
      desk.context.intake.end(visit.peer)
      let response = sink.finish()
      desk.end(visit, response, bytes: bytes)
      return response
    }

    func abandon() {
      desk.context.intake.end(visit.peer)
      sink.abandon()
      if isFull { return desk.end(visit, PumpHandler.refusal(IntakeGate.full(desk.context.node)), bytes: bytes) }
      desk.abandon(visit, bytes: bytes)
    }
  }
}

extension HTTPResponse {
  fileprivate var bodyBytes: UInt64 {
    switch body {
    case .none: 0
    case .bytes(let bytes): UInt64(bytes.count)
    case .memory(let memory): UInt64(memory.count)
    case .file(_, _, let count): count
    }
  }

  // Only for a problem that an operator must solve; otherwise nil.
  fileprivate var problem: NodeStatus.Problem? {
    guard status >= 400, case .bytes(let bytes) = body, case .object(let told)? = try? JSONReader.read(bytes),
      let code = told.text("code"),
      [ErrorCode.trailForked, .trailDamaged, .diskFull, .diskBudget, .ioFailed, .bug].map(\.rawValue).contains(code)
    else { return nil }
    return NodeStatus.Problem(
      code: code, message: told.text("message") ?? "", hint: told.text("hint") ?? "", times: 1)
  }
}
