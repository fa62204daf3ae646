import Glibc

/// A lock with a condition variable, on which threads wait for a change: pthread_mutex_lock(3), pthread_cond_wait(3).
///
///     condition.lock()
///     while !isReady { condition.wait() }
///     condition.unlock()
package final class Condition: @unchecked Sendable {
  private let mutex = UnsafeMutablePointer<pthread_mutex_t>.allocate(capacity: 1)
  private let changed = UnsafeMutablePointer<pthread_cond_t>.allocate(capacity: 1)

  package init() {
    pthread_mutex_init(mutex, nil)
    pthread_cond_init(changed, nil)
  }

  deinit {
    pthread_cond_destroy(changed)
    pthread_mutex_destroy(mutex)
    changed.deallocate()
    mutex.deallocate()
  }

  package func lock() { pthread_mutex_lock(mutex) }
  package func unlock() { pthread_mutex_unlock(mutex) }
  /// Releases the lock, waits for a wake-up, and takes the lock again. Spurious wake-ups are possible.
  package func wait() { pthread_cond_wait(changed, mutex) }
  /// Wakes all threads that wait.
  package func tell() { pthread_cond_broadcast(changed) }
}
