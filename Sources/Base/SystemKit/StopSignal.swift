import Glibc
import Synchronization

/// A request to stop, for any number of threads. `descriptor` becomes readable when the signal is set.
///
///     let stop = StopSignal()
///     stop.set()
///     stop.isSet   // true, for every thread
package final class StopSignal: Sendable {
  private let flag = Atomic<Bool>(false)
  package let descriptor: Int32
  private let writing: Int32

  package init() {
    var ends: [Int32] = [-1, -1]
    let code = pipe(&ends)
    precondition(code == 0, "no file descriptor is left for a pipe")
    for end in ends {
      _ = fcntl(end, F_SETFD, FD_CLOEXEC)
      _ = fcntl(end, F_SETFL, O_NONBLOCK)
    }
    (descriptor, writing) = (ends[0], ends[1])
  }

  deinit {
    Glibc.close(descriptor)
    Glibc.close(writing)
  }

  package var isSet: Bool { flag.load(ordering: .acquiring) }

  package func set() {
    flag.store(true, ordering: .releasing)
    // write(2) is safe in a signal handler. A full pipe is already readable, so a failed write changes nothing.
    var one: UInt8 = 1
    _ = write(writing, &one, 1)
  }

  /// Sleeps until the time is over or the signal is set. Returns whether it is set.
  package func wait(milliseconds: Int32) -> Bool {
    var entry = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
    _ = poll(&entry, 1, milliseconds)
    Pulse.beat()
    return isSet
  }
}
