import Changes
import Glibc

/// Reports changes of a file, or of anything in a folder: inotify(7). Changes from other hosts are not seen.
///
///     let watch = try FolderWatch(folder)
///     watch.drain()   // true: something in the folder changed
///
/// All watches of the process share one inotify descriptor and one thread, so a report comes a moment after its change.
package final class FolderWatch: Sendable {
  package let path: String
  private let names: Set<NameKey>?
  private let signal: WakeSignal
  private let shared: SharedInotify
  private let watch: Int32

  /// The descriptor for poll(2), readable if something changed since the last ``drain()``. The watch owns it.
  package var descriptor: Int32 { signal.descriptor }

  /// Starts to watch. Earlier changes are not reported, so examine the file or folder after this call.
  ///
  /// - Parameter names: The names in a folder whose changes are reported; nil for all.
  package init(_ path: String, names: Set<NameKey>? = nil) throws(FileError) {
    self.path = path
    self.names = names
    signal = try WakeSignal()
    shared = try SharedInotify.get()
    watch = try shared.add(signal.descriptor, path, names)
  }

  deinit { shared.remove(signal.descriptor, watch, names) }

  /// Clears the reported changes, without waiting. Returns whether there were any.
  @discardableResult
  package func drain() -> Bool { signal.clear() }

  /// Waits for a change, and clears the report. Returns false if the time is over or `stop` was set.
  package func wait(milliseconds: Int, stop: StopSignal) -> Bool {
    var polled = [
      pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0),
      pollfd(fd: stop.descriptor, events: Int16(POLLIN), revents: 0),
    ]
    _ = poll(&polled, 2, Int32(clamping: milliseconds))
    Pulse.beat()
    return polled[0].revents != 0 && drain() && !stop.isSet
  }
}
