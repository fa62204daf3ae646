import Glibc
import Synchronization

/// The sign of life of one thread: a number that grows whenever the thread comes past a place where work goes on, or
/// where it waits for something that may be waited for.
///
/// Whoever looks after a thread attaches a pulse to it; code that loops or waits calls ``beat()`` without knowing
/// whether anybody looks. A thread without a pulse beats in vain.
package final class Pulse: Sendable {
  private let count = Atomic<UInt64>(0)
  private static let key: pthread_key_t = {
    var key = pthread_key_t()
    let code = pthread_key_create(&key, nil)
    precondition(code == 0, "no key is left for thread-specific data")
    return key
  }()

  package init() {}

  package var value: UInt64 { count.load(ordering: .relaxed) }

  /// Runs `body` with this as the pulse of the calling thread.
  package func attached<T>(_ body: () throws -> T) rethrows -> T {
    pthread_setspecific(Self.key, Unmanaged.passUnretained(self).toOpaque())
    defer { pthread_setspecific(Self.key, nil) }
    return try withExtendedLifetime(self) { try body() }
  }

  /// The calling thread is alive.
  package static func beat() {
    guard let pulse = pthread_getspecific(key) else { return }
    Unmanaged<Pulse>.fromOpaque(pulse).takeUnretainedValue().count.add(1, ordering: .relaxed)
  }
}
