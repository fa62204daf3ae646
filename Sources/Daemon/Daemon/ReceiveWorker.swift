import Changes
import Configuring
import ControlAPI
import Deploying
import Endpoints
import Glibc
import NetKit
import Pumping
import ServiceKit
import Synchronization
import SystemKit
import Trust

/// The worker that listens for other nodes, which push trails to this node or pull them.
final class ReceiveWorker: Worker {
  let name = WorkerName.receive
  private static let lookMilliseconds: Int32 = 1_000
  /// The milliseconds between two checks of the certificates.
  static let upkeepMilliseconds =
    getenv("CAIRN_TEST_UPKEEP_MS").flatMap { Int64(String(cString: $0)) } ?? 600_000

  private let receive: Configuration.Receive
  private let context: ServiceContext
  private let plan: @Sendable () -> RetentionPlan
  private let visits = PeerContacts()
  private let isTLS = Mutex<Bool?>(nil)
  private let revoked: RevokedPeers
  private let revokedTold = Mutex<RevokedPeers.Unknown?>(nil)
  private let notes = Mutex(PeerNotes())

  init(
    _ receive: Configuration.Receive, _ context: ServiceContext, plan: @escaping @Sendable () -> RetentionPlan
  ) {
    (self.receive, self.context, self.plan) = (receive, context, plan)
    revoked = PeerFolder(state: context.statePath).revoked
  }

  func run(stop: StopSignal) throws {
    defer { isTLS.withLock { $0 = nil } }
    while !stop.isSet {
      upkeep()
      let tls = try NetworkTLS.server(receive, state: context.statePath)
      try listen(tls, stop)
    }
  }

  private func listen(_ tls: ServerTLS?, _ stop: StopSignal) throws {
    let peers = PeerFolder(state: context.statePath)
    let context = context
    let join = JoinHandler(peers, node: context.node)
    let hooks = NetworkHooks(
      context: context,
      reader: { peer, trail in
        context.grants.allow(peer, .pull, trail) ? WorkerName(.peer, peer) : nil
      }, worker: name, plan: plan)
    let options = PumpHandler.Options(
      node: context.node, grants: { context.grants }, hooks: hooks.hooks, join: { join.begin($0) })
    let desk = PumpHandler(options, copies: context.copies)
    let server = try HTTPServer(
      host: receive.host, port: receive.port, tls: tls, limits: HTTPLimits(connections: receive.connections),
      handler: ReceiveHandler(desk: desk, join: join, visits: visits, context: context, plan: plan))
    defer {
      desk.end()
      server.stop()
    }
    isTLS.withLock { $0 = tls != nil }
    context.tell(name, "listens on \(receive.address), \(tls == nil ? "plain HTTP" : "TLS 1.3")")
    var seen = stamp
    var keptAt = Clock.monotonicMilliseconds
    while !stop.wait(milliseconds: Self.lookMilliseconds) {
      Pulse.beat()
      if Clock.monotonicMilliseconds - keptAt >= Self.upkeepMilliseconds {
        upkeep()
        keptAt = Clock.monotonicMilliseconds
      }
      let now = stamp
      guard now != seen else { continue }
      seen = now
      if isFit() {
        context.tell(name, "listens again: the certificates have changed")
        return
      }
    }
  }

  private func upkeep() {
    guard !receive.isInsecure, receive.tls == nil else { return }
    do {
      let peers = PeerFolder(state: context.statePath)
      for done in try peers.upkeep(node: context.node, now: Clock.system.microseconds()) { context.tell(name, done) }
    } catch {
      let error = CairnError(enveloping: error, doing: "look after the certificates")
      context.log.write(
        LogEntry(
          .warning, "cannot maintain the certificates of this node: \(error.message)", worker: name.description,
          code: error.code, hint: error.hint))
    }
  }

  // If the new certificate files cannot be used, the listener continues with the old ones.
  private func isFit() -> Bool {
    do {
      let tls = try NetworkTLS.server(receive, state: context.statePath)
      try HTTPServer(host: "127.0.0.1", port: 0, tls: tls, handler: Unanswered()).stop()
      return true
    } catch {
      let error = CairnError(enveloping: error, doing: "listen")
      context.log.write(
        LogEntry(
          .warning, "the changed certificates cannot be used, and the former ones stay in force: \(error.message)",
          worker: name.description, code: error.code, hint: error.hint))
      return false
    }
  }

  private struct Unanswered: HTTPHandler {
    func begin(_ request: HTTPRequest) -> HTTPAction { .answer(HTTPResponse(status: 503, closes: true)) }
  }

  // Differs after a certificate file has changed.
  private var stamp: [FileStamp?] {
    guard !receive.isInsecure else { return [] }
    let own = PeerFolder(state: context.statePath).serverTLS
    let files = receive.tls
    return [
      files?.certificate ?? own.certificate, files?.key ?? own.key, files?.peers ?? own.authorities,
    ].map { FileStamp(path: $0) }
  }

  func paths() -> [NodeStatus.Path] { visits.paths(now: Clock.system.microseconds()) }

  func describe(_ status: inout NodeStatus.Worker) {
    status.isCaughtUp = true
    status.place = receive.address
    guard let isTLS = isTLS.withLock({ $0 }) else { return }
    let now = Clock.system.microseconds()
    let count = visits.peersNow(now: now)
    status.detail =
      "listens on \(receive.address), \(isTLS ? "TLS 1.3" : "plain HTTP"), \(count.counted("peer"))"
    if !receive.isInsecure, let problem = revoked.problem {
      status.detail += "; no certificate is accepted: \(problem.reason)"
    }
    let problems = visits.problems(now: now).flatMap(\.value).sorted { $0.key < $1.key }
    guard let (trail, error) = problems.first else { return }
    let others = problems.count > 1 ? ", and \((problems.count - 1).counted("more trail"))" : ""
    status.detail += "; [\(error.code.rawValue)] trail \(trail): \(error.message)\(others)"
  }

  func news() -> [LogEntry] {
    let problem = receive.isInsecure ? nil : revoked.problem
    let isNew = revokedTold.withLock { told in
      defer { told = problem }
      return told != problem
    }
    let entry =
      isNew
      ? problem.map {
        LogEntry(
          .error, "no certificate is accepted, as the list of revoked certificates cannot be read: \($0.reason)",
          worker: name.description, code: .stateForeign, hint: "restore the file from a backup")
      } : nil
    return (entry.map { [$0] } ?? []) + trouble()
  }

  private func trouble() -> [LogEntry] {
    let now = Clock.system.microseconds()
    return notes.withLock { $0.note(visits.problems(now: now), now: now) }.map { note in
      LogEntry(
        note.error == nil ? .notice : .warning, note.text, worker: name.description, code: note.error?.code,
        hint: note.error?.hint)
    }
  }
}
