import Glibc
import Synchronization

/// A dedicated thread for one blocking worker: blocking libraries do not belong on Swift's cooperative pool.
package final class WorkerThread<Outcome: Sendable>: Sendable {
  fileprivate final class Box: Sendable {
    let body: @Sendable () -> Outcome
    let outcome = Mutex<Outcome?>(nil)
    let finished: @Sendable () -> Void
    init(_ body: @escaping @Sendable () -> Outcome, _ finished: @escaping @Sendable () -> Void) {
      self.body = body
      self.finished = finished
    }
  }

  private let box: Box
  private let thread: pthread_t

  /// Starts `body` at once. After it returns, `finished` is called on the same thread.
  package init(_ body: @escaping @Sendable () -> Outcome, finished: @escaping @Sendable () -> Void = {}) {
    box = Box(body, finished)
    guard let thread = started(box) else { preconditionFailure("pthread_create failed") }
    self.thread = thread
  }

  private init(_ box: Box, _ thread: pthread_t) { (self.box, self.thread) = (box, thread) }

  /// Starts `body` as above; returns nil if the process may have no more threads.
  package static func ifPossible(_ body: @escaping @Sendable () -> Outcome) -> WorkerThread? {
    let box = Box(body, {})
    return started(box).map { WorkerThread(box, $0) }
  }

  package var outcome: Outcome? { box.outcome.withLock { $0 } }

  /// Waits for the end of the thread; call it once.
  package func join() -> Outcome? {
    pthread_join(thread, nil)
    return outcome
  }
}

private protocol Runnable { func run() }

extension WorkerThread.Box: Runnable {
  func run() {
    let result = body()
    outcome.withLock { $0 = result }
    finished()
  }
}

/// Runs `body` on a thread of its own, without waiting for its end.
package func detached(_ body: @escaping @Sendable () -> Void) {
  guard let thread = started(WorkerThread<Void>.Box(body, {})) else { preconditionFailure("pthread_create failed") }
  pthread_detach(thread)
}

private func started(_ work: some Runnable & AnyObject) -> pthread_t? {
  var thread = pthread_t()
  let context = Unmanaged.passRetained(work as AnyObject)
  let code = pthread_create(
    &thread, nil,
    { context in
      guard let context else { return nil }
      (Unmanaged<AnyObject>.fromOpaque(context).takeRetainedValue() as? any Runnable)?.run()
      return nil
    }, context.toOpaque())
  guard code != 0 else { return thread }
  context.release()
  return nil
}
