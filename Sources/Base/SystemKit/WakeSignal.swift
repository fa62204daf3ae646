import CShims
import Glibc

/// A descriptor for poll(2) that is readable from ``set()`` to ``clear()``: eventfd(2).
package struct WakeSignal: ~Copyable, Sendable {
  package let descriptor: Int32

  package init() throws(FileError) {
    descriptor = cairn_wake_descriptor()
    if descriptor < 0 { throw FileError(code: errno, operation: "eventfd", path: "") }
  }

  deinit { close(descriptor) }

  /// Makes the descriptor readable. This may run in a signal handler.
  package func set() { Self.set(descriptor) }

  /// Makes the descriptor of a wake signal that still exists readable.
  static func set(_ descriptor: Int32) {
    var one: UInt64 = 1
    // It fails only where the count is full, and then the descriptor is readable already.
    _ = write(descriptor, &one, 8)
  }

  /// Makes the descriptor unreadable, without waiting. Returns whether it was readable.
  package func clear() -> Bool {
    var count: UInt64 = 0
    while true {
      if read(descriptor, &count, 8) == 8 { return true }
      if errno != EINTR { return false }
    }
  }
}
