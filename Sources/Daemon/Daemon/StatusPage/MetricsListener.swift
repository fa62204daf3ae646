import Changes
import Configuring
import ControlAPI
import Deploying
import NetKit
import ServiceKit
import Synchronization
import SystemKit
import Trust

/// The listener for metrics and the status page. If its port is in use, the daemon continues without it, and tries
/// again every 5 s.
///
/// ```swift
/// let metrics = MetricsListener(context) { status }
/// metrics.keep()          // once a second
/// metrics.problem?.code   // "io-failed" while the port is in use
/// ```
final class MetricsListener: Sendable {
  private struct State: ~Copyable {
    var upkeep = ListenerUpkeep()
    var listener: HTTPListener?
    var problem: CairnError?
  }

  private let context: ServiceContext
  private let status: @Sendable () -> NodeStatus
  private let logs = StatusLogs()
  private let state = Mutex(State())

  init(_ context: ServiceContext, status: @escaping @Sendable () -> NodeStatus) {
    (self.context, self.status) = (context, status)
  }

  /// The reason why nothing listens although the conf asks for it; nil if all is well.
  var problem: NodeStatus.Problem? {
    state.withLock { $0.problem }.map {
      NodeStatus.Problem(
        code: $0.code.rawValue, message: $0.message.cutMessage, hint: $0.hint.cutMessage, times: 1)
    }
  }

  /// Opens, closes or opens again the listener, as the present conf says.
  func keep() {
    let metrics = context.configuration.metrics
    let wish = metrics.map { metrics in
      ListenerUpkeep.Wish(
        metrics: metrics,
        stamps: metrics.tls.map { [$0.certificate, $0.key, $0.peers].map { FileStamp(path: $0) } } ?? [])
    }
    let step = state.withLock { $0.upkeep.next(wish, now: Clock.monotonicMilliseconds) }
    guard step != .nothing else { return }
    close()
    guard step == .open, let metrics else { return state.withLock { $0.problem = nil } }
    do {
      let listener = try open(metrics)
      state.withLock { state in
        state.upkeep.succeeded()
        (state.listener, state.problem) = (listener, nil)
      }
      context.log.write(LogEntry(.info, "metrics on \(metrics.address), status page /status"))
    } catch {
      let error = CairnError(enveloping: error, doing: "listen on \(metrics.address)")
      let isNew = state.withLock { state in
        defer { state.problem = error }
        return state.problem?.message != error.message
      }
      guard isNew else { return }
      context.log.write(
        LogEntry(
          .error, "no metrics, and no status page: \(error.message); tried again every 5 s", code: error.code,
          hint: error.hint))
    }
  }

  /// Ends the listener. Answers that are under way are finished first.
  func close() {
    let old = state.withLock { $0.listener.take() }
    withExtendedLifetime(old) {}
  }

  private func open(_ metrics: Configuration.Metrics) throws -> HTTPListener {
    let peers = PeerFolder(state: context.statePath)
    let tls = metrics.tls.map {
      ServerTLS(
        certificate: $0.certificate, key: $0.key, authorities: $0.peers, revoked: peers.serverTLS.revoked)
    }
    return try HTTPListener(host: metrics.host, port: metrics.port, tls: tls) { [weak self] in self?.answer($0) }
  }

  private func answer(_ request: HTTPRequest) -> HTTPListener.Response? {
    // A reload may have changed the token.
    guard let metrics = context.configuration.metrics else { return nil }
    let access = PageAccess(token: metrics.token, isLoopback: metrics.isLoopback, isTLS: request.isTLS)
    let verdict = access.verdict(
      on: request.path, authorization: request.header("Authorization"), hasCertificate: request.peer != nil)
    return verdict.refusal ?? page(request)
  }

  private func page(_ request: HTTPRequest) -> HTTPListener.Response? {
    switch request.path {
    case "/": return .init(status: 303, body: "see /status\n", headers: [("Location", "status")])
    case "/metrics": return .init(contentType: Metrics.contentType, body: Metrics.page(status()))
    case "/healthz": return .init(body: "ok\n")
    case "/readyz": return readiness(status())
    case "/status": return StatusPage.response
    case "/status.json": return .init(contentType: "application/json", body: status().json.line + "\n")
    case "/status/log.json": return log(of: request.query["apply"] ?? "")
    default: return nil
    }
  }

  private func readiness(_ status: NodeStatus) -> HTTPListener.Response {
    let others = status.workers.filter { $0.state != .running }
    let isReady = others.isEmpty && !status.isEnding
    let lines = others.map { "\($0.name) is \($0.state.rawValue)\n" }.joined()
    return .init(status: isReady ? 200 : 503, body: isReady ? "ready\n" : lines.isEmpty ? "ending\n" : lines)
  }

  private func log(of apply: String) -> HTTPListener.Response {
    func refusal(_ status: UInt32, _ error: CairnError) -> HTTPListener.Response {
      let problem = NodeStatus.Problem(
        code: error.code.rawValue, message: error.message.cutMessage, hint: error.hint.cutMessage, times: 1)
      return .init(status: status, contentType: "application/json", body: problem.json.line + "\n")
    }
    do {
      let name = WorkerName(.apply, apply)
      let quarantined = status().workers.first { $0.name == name }?.quarantined ?? 0
      guard let text = try logs.answer(apply, context.configuration, quarantined: quarantined) else {
        return refusal(503, CairnError(.busy, "another reader is served", hint: "try again", remedy: .retry))
      }
      return .init(contentType: "application/json", body: text + "\n")
    } catch {
      let error = CairnError(enveloping: error, doing: "read the logs")
      return refusal(error.code == .usage ? 404 : 503, error)
    }
  }
}
