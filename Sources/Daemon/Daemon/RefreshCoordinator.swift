import Changes
import Configuring
import ControlAPI
import Endpoints
import ServiceKit
import Synchronization
import SystemKit
import Trails

/// Makes captures of this node send the refreshes that applies and other nodes have requested. Removes the requests of
/// this node's applies when they are answered.
package final class RefreshCoordinator: Sendable {
  private let context: ServiceContext
  private let supervisor: Supervisor
  private let thread = Mutex<WorkerThread<Void>?>(nil)
  // By trail.
  private let told = Mutex<[String: CairnError]>([:])
  // Milliseconds of a monotonic clock. After an error, no copy starts before this time.
  private let restsUntil = Mutex<Int64>(0)
  private static let restMilliseconds: Int64 = 5_000
  private let allowances = Mutex(
    Allowances(burst: RefreshCoordinator.burst, refill: RefreshCoordinator.refillMicroseconds))
  // The copies of one trail that a peer may start at once; then one more each minute. Later requests wait, and share
  // one copy.
  private static let burst = 3
  private static let refillMicroseconds: Int64 = 60_000_000

  package init(_ context: ServiceContext, _ supervisor: Supervisor) {
    (self.context, self.supervisor) = (context, supervisor)
  }

  /// Starts the requested refreshes on another thread, one trail after the other, and returns at once. While that
  /// thread runs, further requests wait for a later call.
  package func look() {
    let now = Clock.system.microseconds()
    context.requests.forgetOld(now: now)
    context.answers.closeIdle()
    supervisor.settleRequests()
    guard Clock.monotonicMilliseconds >= restsUntil.withLock({ $0 }) else { return }
    thread.withLock { thread in
      if let running = thread {
        guard running.outcome != nil else { return }
        _ = running.join()
        thread = nil
      }
      // Read the requests only after the earlier thread has ended, so that each request is carried out once.
      let due = due()
      guard !due.isEmpty else { return }
      // If no thread can be started, the next call tries it again: the requests stay open.
      thread = try? WorkerThread { [self] in carryOut(due) }
    }
  }

  private func due() -> [TrailName: [RefreshRequests.Request]] {
    let open = context.requests.all.filter { !$0.isDone }
    var due: [TrailName: [RefreshRequests.Request]] = [:]
    for request in open {
      guard let trail = TrailName(request.trail), context.capture(of: trail) != nil,
        Trail.exists(folder: context.folder(of: trail))
      else { continue }
      due[trail, default: []].append(request)
    }
    return due.compactMapValues { within(rate: $0) }
  }

  // The requests of a peer that has started too many copies stay open.
  private func within(rate requests: [RefreshRequests.Request]) -> [RefreshRequests.Request]? {
    let now = Clock.monotonicMilliseconds * 1000
    var verdicts: [String: Bool] = [:]
    let left = requests.filter { request in
      guard case .peer(let peer) = request.asker else { return true }
      let key = "\(peer) \(request.trail)"
      if let verdict = verdicts[key] { return verdict }
      let verdict = allowances.withLock { $0.take(key, now: now) }
      verdicts[key] = verdict
      return verdict
    }
    return left.isEmpty ? nil : left
  }

  private func carryOut(_ due: [TrailName: [RefreshRequests.Request]]) {
    for (trail, requests) in due {
      if let capture = context.capture(of: trail) { carryOut(requests, of: trail, capture) }
    }
  }

  private func carryOut(_ requests: [RefreshRequests.Request], of trail: TrailName, _ capture: Configuration.Capture) {
    let order = CopyOrder(context: context, supervisor: supervisor)
    let name = WorkerName(.capture, capture.name)
    let isAll = requests.contains { $0.tables.isEmpty }
    let tables = isAll ? [] : Set(requests.flatMap(\.tables).map(\.nameKey)).sorted().map(\.text)
    do {
      try order.checkSource(of: capture)
      let outcome = try order.carryOut(capture, tables, hint: "see 'cairn status' for what \(name) needs")
      for request in requests { context.requests.carriedOut(request) }
      told.withLock { $0[trail.description] = nil }
      let what = if case .tables(let names) = outcome { names.joined(separator: ", ") } else { "everything" }
      context.tell(name, "copies \(what) again, requested by \(askers(requests))")
    } catch {
      let error = CairnError(enveloping: error, doing: "copy tables of \(trail)")
      restsUntil.withLock { $0 = Clock.monotonicMilliseconds + Self.restMilliseconds }
      if error.code == .tableMissing {
        // A missing table must not hold up other requests.
        if requests.count > 1 { return requests.forEach { carryOut([$0], of: trail, capture) } }
        // The table will not exist at the next attempt either.
        for request in requests { context.requests.carriedOut(request, isMissing: true) }
      }
      if let last = told.withLock({ $0.updateValue(error, forKey: trail.description) }), last.isReported(as: error) {
        return
      }
      context.log.write(
        LogEntry(
          .error, "cannot copy again for \(askers(requests)): \(error.message)",
          worker: name.description, code: error.code, hint: error.hint))
    }
  }

  // `"apply.pos, store-042, hq (https://hq.example:7420)"`
  private func askers(_ requests: [RefreshRequests.Request]) -> String {
    let names = requests.map { request in
      switch request.asker {
      case .apply(let name): "apply.\(name)"
      case .peer(let name): context.questions.name(at: name).map { "\($0) (\(name))" } ?? name
      }
    }
    return Set(names).sorted().joined(separator: ", ")
  }
}

extension Supervisor {
  /// Removes each request of this node's applies if its refreshes have started at the target, or if the conf no longer
  /// has the apply.
  func settleRequests() {
    guard !context.requests.all.isEmpty else { return }
    let applies = state.withLock { state in
      Dictionary(
        state.entries.values.compactMap { $0.worker as? ApplyWorker }.map { ($0.apply.name, $0.progress.snapshot) }
      ) { first, _ in first }
    }
    context.requests.settle { request in
      guard case .apply(let name) = request.asker else { return false }
      // An apply that was removed from the conf needs no rows.
      guard let now = applies[name] else { return true }
      return request.isAnswered(begun: now.copiesBegun, awaitsMore: now.awaitsCopies)
    }
  }
}

extension RefreshRequests.Request {
  /// Returns whether the refreshes of all requested tables have started at the target. A request for all tables is
  /// answered when the apply awaits no further refresh.
  ///
  /// - Parameter begun: The transaction of the trail in which the last refresh of each table started, by table name in
  ///   lower case.
  /// - Parameter awaitsMore: Whether the apply still waits for refreshes of tables.
  func isAnswered(begun: [NameKey: UInt64], awaitsMore: Bool) -> Bool {
    let fresh = begun.filter { $0.value > behind }.keys
    guard !fresh.isEmpty else { return false }
    guard !tables.isEmpty else { return !awaitsMore }
    return tables.allSatisfy { pattern in fresh.contains { TablePatterns([pattern]).includes($0.text) } }
  }
}
