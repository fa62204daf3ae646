import Glibc

/// The seconds since its creation, on a clock that never jumps.
struct Stopwatch {
  private let begun = Stopwatch.now

  var seconds: Double { Self.now - begun }

  static var now: Double {
    var time = timespec()
    clock_gettime(CLOCK_MONOTONIC, &time)
    return Double(time.tv_sec) + Double(time.tv_nsec) / 1e9
  }
}
