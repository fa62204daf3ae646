import Glibc

/// Reports changes of a file, or of anything in a folder: inotify(7). Changes from other hosts are not seen.
///
///     let watch = try FolderWatch(folder)
///     watch.drain()   // true: something in the folder changed
package final class FolderWatch {
  package let path: String
  /// The descriptor for poll(2), readable if something changed since the last ``drain()``. The watch owns it.
  package let descriptor: Int32

  /// Starts to watch. Earlier changes are not reported, so examine the file or folder after this call.
  package init(_ path: String) throws(FileError) {
    self.path = path
    descriptor = inotify_init1(Int32(IN_NONBLOCK | IN_CLOEXEC))
    if descriptor < 0 { throw FileError(code: errno, operation: "inotify_init1", path: path) }
    let events =
      IN_MODIFY | IN_CREATE | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO | IN_ATTRIB | IN_DELETE_SELF | IN_MOVE_SELF
    if inotify_add_watch(descriptor, path, UInt32(events)) < 0 {
      throw FileError(code: errno, operation: "inotify_add_watch", path: path)
    }
  }

  deinit { close(descriptor) }

  /// Clears the reported changes, without waiting. Returns whether there were any.
  @discardableResult
  package func drain() -> Bool {
    var seen = false
    withUnsafeTemporaryAllocation(byteCount: 4096, alignment: 8) { buffer in
      while true {
        let n = read(descriptor, buffer.baseAddress, buffer.count)
        if n > 0 { seen = true } else if n == 0 || errno != EINTR { break }
      }
    }
    return seen
  }
}
