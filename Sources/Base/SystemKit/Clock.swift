import Glibc

/// A source of the time: the system's clock, or a function that a test passes.
package struct Clock: Sendable {
  /// The time, µs since 1970 UTC.
  package var microseconds: @Sendable () -> Int64
  package init(microseconds: @escaping @Sendable () -> Int64) { self.microseconds = microseconds }

  package static let system = Clock {
    var time = timespec()
    clock_gettime(CLOCK_REALTIME, &time)
    return Int64(time.tv_sec) * 1_000_000 + Int64(time.tv_nsec) / 1000
  }

  /// The time of a monotonic clock, µs. Only differences are meaningful.
  package static var monotonicMicroseconds: Int64 {
    var time = timespec()
    clock_gettime(CLOCK_MONOTONIC, &time)
    return Int64(time.tv_sec) * 1_000_000 + Int64(time.tv_nsec) / 1000
  }

  /// The time of a monotonic clock, ms. Only differences are meaningful.
  package static var monotonicMilliseconds: Int64 {
    var time = timespec()
    clock_gettime(CLOCK_MONOTONIC, &time)
    return Int64(time.tv_sec) * 1000 + Int64(time.tv_nsec) / 1_000_000
  }

  package static func sleep(milliseconds: Int) {
    var time = timespec(tv_sec: milliseconds / 1000, tv_nsec: milliseconds % 1000 * 1_000_000)
    nanosleep(&time, nil)
  }
}
