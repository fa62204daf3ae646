import Changes
import Glibc
import Synchronization

/// A thread of its own for a worker that blocks.
///
///     let thread = try WorkerThread { Result { try apply.run(stop: stop, drain: drain) } }
///     let outcome = thread.join()
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

  /// Starts `body` at once. `finished` is called after it, on the same thread.
  ///
  /// - Throws: `io-failed`, with the remedy retry, if the process cannot start another thread.
  package init(
    _ body: @escaping @Sendable () -> Outcome, finished: @escaping @Sendable () -> Void = {}
  ) throws(CairnError) {
    box = Box(body, finished)
    thread = try started(box)
  }

  package var outcome: Outcome? { box.outcome.withLock { $0 } }

  /// Waits for the end of the thread. Returns the result of `body`, never nil. The caller may join a thread only once.
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

/// Runs `body` on a new thread, without waiting for its end.
///
/// - Throws: `io-failed`, with the remedy retry, if the process cannot start another thread.
package func detached(_ body: @escaping @Sendable () -> Void) throws(CairnError) {
  pthread_detach(try started(WorkerThread<Void>.Box(body, {})))
}

private func started(_ work: some Runnable & AnyObject) throws(CairnError) -> pthread_t {
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
  throw CairnError(
    .ioFailed, "cannot start another thread: \(String(cString: strerror(code)))",
    hint:
      "raise TasksMax= of the service ('systemctl edit cairnd'), 'ulimit -u' or the memory, or run fewer pumps here",
    remedy: .retry)
}
