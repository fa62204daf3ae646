import Glibc

/// What tells a file from what it was before: it changes when somebody replaces the file or writes to it.
package struct FileStamp: Equatable, Sendable {
  private let device: UInt64
  private let inode: UInt64
  private let size: Int64
  private let seconds: Int
  private let nanoseconds: Int

  /// Nil where there is no such file, or it cannot be looked at; see ``look(at:)``.
  package init?(path: String) {
    guard let stamp = try? Self.look(at: path) else { return nil }
    self = stamp
  }

  /// Returns nil if there is no file of that path.
  ///
  /// - Throws: When that is not known: no right to look, an error of the disk.
  package static func look(at path: String) throws(FileError) -> FileStamp? {
    var info = stat()
    guard stat(path, &info) != 0 else { return FileStamp(info) }
    guard errno == ENOENT else { throw FileError(code: errno, operation: "stat", path: path) }
    return nil
  }

  private init(_ info: stat) {
    (device, inode, size) = (UInt64(info.st_dev), UInt64(info.st_ino), Int64(info.st_size))
    (seconds, nanoseconds) = (info.st_mtim.tv_sec, info.st_mtim.tv_nsec)
  }
}
