import Glibc

/// The file behind a path: two paths with one identity are one file, by whatever links.
package struct FileIdentity: Hashable, Sendable {
  let device: UInt64
  let inode: UInt64

  /// Nil when there is no such file.
  package init?(path: String) {
    var info = stat()
    guard stat(path, &info) == 0 else { return nil }
    device = UInt64(info.st_dev)
    inode = UInt64(info.st_ino)
  }

  /// The path without links and dots, as far as it exists.
  package static func canonical(_ path: String) -> String {
    if let buffer = realpath(path, nil) {
      defer { free(buffer) }
      return String(cString: buffer)
    }
    guard let slash = path.lastIndex(of: "/"), slash > path.startIndex else { return path }
    return canonical(String(path[..<slash])) + path[slash...]
  }
}
