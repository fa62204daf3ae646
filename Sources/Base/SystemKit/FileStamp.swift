import Glibc

/// The device, inode, size and modification time of a file, which differ after the file was replaced or written.
///
///     let before = FileStamp(path: "cairn.toml")
///     FileStamp(path: "cairn.toml") == before   // true until the file is written or replaced
package struct FileStamp: Equatable, Sendable {
  private let device: UInt64
  private let inode: UInt64
  private let size: Int64
  private let seconds: Int
  private let nanoseconds: Int

  /// Reads the present ``FileStamp`` of the file at a path; nil if there is none or it cannot be examined.
  package init?(path: String) {
    guard let stamp = try? Self.look(at: path) else { return nil }
    self = stamp
  }

  /// Returns the present ``FileStamp`` of the file at a path; nil if there is no file.
  ///
  /// - Throws: ``FileError`` if the file cannot be examined, for lack of a right or because of a disk error.
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
