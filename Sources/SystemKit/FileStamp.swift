import Glibc

/// What tells a file from what it was before: it changes when somebody replaces the file or writes to it.
package struct FileStamp: Equatable, Sendable {
  private let device: UInt64
  private let inode: UInt64
  private let size: Int64
  private let seconds: Int
  private let nanoseconds: Int

  /// Nil where there is no such file.
  package init?(path: String) {
    var info = stat()
    guard stat(path, &info) == 0 else { return nil }
    (device, inode, size) = (UInt64(info.st_dev), UInt64(info.st_ino), Int64(info.st_size))
    (seconds, nanoseconds) = (info.st_mtim.tv_sec, info.st_mtim.tv_nsec)
  }
}
