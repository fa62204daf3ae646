import Glibc
import Synchronization

/// The sign of life of one thread: a number that grows when the thread makes progress or starts to wait.
///
///     let pulse = Pulse()
///     try pulse.attached { try apply.run(stop: stop, drain: drain) }   // the thread calls Pulse.beat()
package final class Pulse: Sendable {
  private let count = Atomic<UInt64>(0)
  private let inStatement = Atomic<Bool>(false)
  private let stop: StopSignal?
  private static let key: pthread_key_t = {
    var key = pthread_key_t()
    let code = pthread_key_create(&key, nil)
    precondition(code == 0, "no key is left for thread-specific data")
    return key
  }()

  /// Creates a pulse.
  ///
  /// - Parameter stop: The signal that asks the thread to end; nil if there is none.
  package init(stop: StopSignal? = nil) { self.stop = stop }

  package var value: UInt64 { count.load(ordering: .relaxed) }

  /// Whether the thread is executing a statement of SQLite.
  package var isInStatement: Bool { inStatement.load(ordering: .relaxed) }

  /// Runs `body` with this pulse as the calling thread's pulse.
  package func attached<T>(_ body: () throws -> T) rethrows -> T {
    pthread_setspecific(Self.key, Unmanaged.passUnretained(self).toOpaque())
    defer { pthread_setspecific(Self.key, nil) }
    return try withExtendedLifetime(self) { try body() }
  }

  /// Runs `body`, in which SQLite executes a statement. Meanwhile, the watchdog reports a thread without progress as
  /// waiting for SQLite.
  @inline(__always)
  package static func inStatement<T>(_ body: () -> T) -> T {
    guard let pointer = pthread_getspecific(key) else { return body() }
    let pulse = Unmanaged<Pulse>.fromOpaque(pointer)
    pulse._withUnsafeGuaranteedRef { $0.inStatement.store(true, ordering: .relaxed) }
    defer { pulse._withUnsafeGuaranteedRef { $0.inStatement.store(false, ordering: .relaxed) } }
    return body()
  }

  /// Whether the calling thread's stop signal is set; false if the thread has no stop signal.
  package static var isToEnd: Bool {
    guard let pulse = pthread_getspecific(key) else { return false }
    return Unmanaged<Pulse>.fromOpaque(pulse).takeUnretainedValue().stop?.isSet ?? false
  }

  /// Reports that the calling thread is alive. Does nothing on a thread without a pulse.
  package static func beat() {
    guard let pulse = pthread_getspecific(key) else { return }
    Unmanaged<Pulse>.fromOpaque(pulse).takeUnretainedValue().count.add(1, ordering: .relaxed)
  }
}
