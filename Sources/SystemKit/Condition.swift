import Glibc

/// A lock, and a way to wait under it until something has changed: pthread_mutex_lock(3), pthread_cond_wait(3).
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
  /// Gives the lock up until somebody calls ``tell()``, or for no reason at all.
  package func wait() { pthread_cond_wait(changed, mutex) }
  /// Wakes all who wait.
  package func tell() { pthread_cond_broadcast(changed) }
}
