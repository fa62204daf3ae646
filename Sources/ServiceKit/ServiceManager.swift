import CSystemd
import Changes
import Glibc

/// What a service tells systemd, and is told by it. Without systemd nothing of it does anything.
///
/// Source: sd_notify(3), sd_watchdog_enabled(3).
package enum ServiceManager {
  /// Sends lines such as `READY=1` (`sd_notify`).
  package static func notify(_ lines: String...) { _ = sd_notify(0, lines.joined(separator: "\n")) }

  /// The status line of `systemctl status`; a line break would end it.
  package static func tell(_ status: String) {
    notify("STATUS=" + status.oneLine)
  }

  /// That the service is reading its conf anew. `READY=1` ends it.
  package static func reloading() {
    var time = timespec()
    clock_gettime(CLOCK_MONOTONIC, &time)
    notify("RELOADING=1", "MONOTONIC_USEC=\(Int64(time.tv_sec) * 1_000_000 + Int64(time.tv_nsec) / 1000)")
  }

  /// Within what time `WATCHDOG=1` has to come, again and again; nil: nobody waits for it.
  package static var watchdogMilliseconds: Int64? {
    var microseconds: UInt64 = 0
    guard sd_watchdog_enabled(0, &microseconds) > 0 else { return nil }
    return Int64(clamping: microseconds / 1000)
  }
}
