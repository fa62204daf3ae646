import Glibc
import Synchronization
import SystemKit

/// One descriptor for each `-shm` that this process asks about locks. None is ever closed.
///
/// close(2) of any descriptor of a file releases all locks that the process has on the file (fcntl(2)). So a second
/// descriptor would release the locks of SQLite.
final class LogDescriptors: Sendable {
  static let shared = LogDescriptors()

  private struct Key: Hashable {
    let device: UInt64
    let inode: UInt64
  }

  private let open = Mutex<[Key: Int32]>([:])

  func descriptor(_ path: String) throws -> Int32 {
    try open.withLock { open in
      var found = stat()
      guard lstat(path, &found) == 0 else { throw FileError(code: errno, operation: "lstat", path: path) }
      let key = Key(device: UInt64(found.st_dev), inode: UInt64(found.st_ino))
      if let known = open[key] { return known }
      let descriptor = Glibc.open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW)
      guard descriptor >= 0 else { throw FileError(code: errno, operation: "open", path: path) }
      // The file may have been replaced since. Then the descriptor stays for the file that it has.
      guard fstat(descriptor, &found) == 0 else { throw FileError(code: errno, operation: "fstat", path: path) }
      open[Key(device: UInt64(found.st_dev), inode: UInt64(found.st_ino))] = descriptor
      return descriptor
    }
  }
}
