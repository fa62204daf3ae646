import CSystemd
import Changes
import Glibc

/// Messages from a service to systemd. Without systemd they have no effect.
///
/// Source: sd_notify(3), sd_watchdog_enabled(3).
package enum ServiceManager {
  /// Sends lines such as `READY=1` to systemd.
  package static func notify(_ lines: String...) { _ = sd_notify(0, lines.joined(separator: "\n")) }

  /// Sets the status line of `systemctl status`.
  package static func tell(_ status: String) {
    notify("STATUS=" + status.oneLine)
  }

  /// Reports to systemd that the service has begun to load its conf again. Afterwards, send `READY=1`.
  package static func reloading() {
    var time = timespec()
    clock_gettime(CLOCK_MONOTONIC, &time)
    notify("RELOADING=1", "MONOTONIC_USEC=\(Int64(time.tv_sec) * 1_000_000 + Int64(time.tv_nsec) / 1000)")
  }

  /// The longest time between two messages `WATCHDOG=1`, in ms; nil without a watchdog.
  package static var watchdogMilliseconds: Int64? {
    var microseconds: UInt64 = 0
    guard sd_watchdog_enabled(0, &microseconds) > 0 else { return nil }
    return Int64(clamping: microseconds / 1000)
  }
}
