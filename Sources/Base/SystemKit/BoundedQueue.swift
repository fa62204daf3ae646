import Glibc

/// A queue of limited length between threads: a thread that appends to a full queue waits.
///
///     let ranges = BoundedQueue<Int>(capacity: 8)
///     ranges.append(1)   // waits while the queue is full
package final class BoundedQueue<Element: Sendable>: @unchecked Sendable {
  private let lock = UnsafeMutablePointer<pthread_mutex_t>.allocate(capacity: 1)
  private let changed = UnsafeMutablePointer<pthread_cond_t>.allocate(capacity: 1)
  // The variables below are accessed only under the lock.
  private var elements: [Element] = []
  private var isClosed = false
  private let capacity: Int

  package init(capacity: Int) {
    self.capacity = capacity
    pthread_mutex_init(lock, nil)
    // A wait must end in time even if the time of day is set.
    var attributes = pthread_condattr_t()
    pthread_condattr_init(&attributes)
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC)
    pthread_cond_init(changed, &attributes)
    pthread_condattr_destroy(&attributes)
  }

  deinit {
    pthread_cond_destroy(changed)
    pthread_mutex_destroy(lock)
    changed.deallocate()
    lock.deallocate()
  }

  /// Appends an element, and first waits for room in a full queue. Returns false if the queue is closed.
  @discardableResult package func append(_ element: Element) -> Bool {
    pthread_mutex_lock(lock)
    defer { pthread_mutex_unlock(lock) }
    while elements.count >= capacity, !isClosed { pthread_cond_wait(changed, lock) }
    guard !isClosed else { return false }
    elements.append(element)
    pthread_cond_broadcast(changed)
    return true
  }

  /// Waits for an element; returns nil if the queue is closed and empty.
  package func next() -> Element? {
    pthread_mutex_lock(lock)
    defer { pthread_mutex_unlock(lock) }
    while elements.isEmpty, !isClosed { pthread_cond_wait(changed, lock) }
    guard !elements.isEmpty else { return nil }
    let element = elements.removeFirst()
    pthread_cond_broadcast(changed)
    return element
  }

  /// Waits until the queue has an element or is closed, for at most `milliseconds`. Returns false if the time ran out.
  package func wait(milliseconds: Int) -> Bool {
    var limit = timespec()
    clock_gettime(CLOCK_MONOTONIC, &limit)
    limit.tv_sec += milliseconds / 1000
    limit.tv_nsec += milliseconds % 1000 * 1_000_000
    if limit.tv_nsec >= 1_000_000_000 {
      (limit.tv_sec, limit.tv_nsec) = (limit.tv_sec + 1, limit.tv_nsec - 1_000_000_000)
    }
    pthread_mutex_lock(lock)
    defer { pthread_mutex_unlock(lock) }
    while elements.isEmpty, !isClosed {
      if pthread_cond_timedwait(changed, lock, &limit) == ETIMEDOUT { break }
    }
    return !elements.isEmpty || isClosed
  }

  /// Closes the queue. Elements in it can still be taken.
  package func close() {
    pthread_mutex_lock(lock)
    isClosed = true
    pthread_cond_broadcast(changed)
    pthread_mutex_unlock(lock)
  }
}
