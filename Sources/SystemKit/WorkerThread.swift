import Glibc
import Synchronization

/// A thread of its own for one blocking worker: libraries that block do not belong on Swift's cooperative pool.
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

  /// Starts `body` at once; `finished` is called on the same thread when it has returned.
  package init(_ body: @escaping @Sendable () -> Outcome, finished: @escaping @Sendable () -> Void = {}) {
    let box = Box(body, finished)
    self.box = box
    var thread = pthread_t()
    let context = Unmanaged.passRetained(box as AnyObject).toOpaque()
    let code = pthread_create(
      &thread, nil,
      { context in
        guard let context else { return nil }
        let object = Unmanaged<AnyObject>.fromOpaque(context).takeRetainedValue()
        (object as? any Runnable)?.run()
        return nil
      }, context)
    precondition(code == 0, "pthread_create failed")
    self.thread = thread
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

/// Runs `body` on a thread of its own that nobody waits for.
package func detached(_ body: @escaping @Sendable () -> Void) {
  var thread = pthread_t()
  let context = Unmanaged.passRetained(WorkerThread<Void>.Box(body, {}) as AnyObject).toOpaque()
  let code = pthread_create(
    &thread, nil,
    { context in
      guard let context else { return nil }
      (Unmanaged<AnyObject>.fromOpaque(context).takeRetainedValue() as? any Runnable)?.run()
      return nil
    }, context)
  precondition(code == 0, "pthread_create failed")
  pthread_detach(thread)
}
