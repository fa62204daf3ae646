import Glibc
import Synchronization

/// A request to stop, for any number of threads. `descriptor` becomes readable when the signal is set.
///
///     let stop = StopSignal()
///     stop.set()
///     stop.isSet   // true, for every thread
package final class StopSignal: Sendable {
  private let flag = Atomic<Bool>(false)
  private let wake: WakeSignal

  package var descriptor: Int32 { wake.descriptor }

  package init() {
    do throws(FileError) { wake = try WakeSignal() } catch {
      preconditionFailure("no file descriptor is left for a stop signal: \(error)")
    }
  }

  package var isSet: Bool { flag.load(ordering: .acquiring) }

  package func set() {
    flag.store(true, ordering: .releasing)
    // This is safe in a signal handler.
    wake.set()
  }

  /// Sleeps until the time is over or the signal is set. Returns whether it is set.
  package func wait(milliseconds: Int32) -> Bool {
    var entry = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
    _ = poll(&entry, 1, milliseconds)
    Pulse.beat()
    return isSet
  }
}
