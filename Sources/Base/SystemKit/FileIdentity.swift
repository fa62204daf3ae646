import Glibc

/// The identity of the file at a path. Two paths of one file have equal identities.
///
///     FileIdentity(path: "shop.db") == FileIdentity(path: "./shop.db")   // true
package struct FileIdentity: Hashable, Sendable {
  let device: UInt64
  let inode: UInt64
  /// The user that owns the file. Comparisons of identities ignore it.
  package let owner: UInt32

  /// Reads the identity of the file at a path; nil if there is no file. Without `followsLink`, a link is a file of its
  /// own.
  package init?(path: String, followsLink: Bool = true) {
    var info = stat()
    guard (followsLink ? stat(path, &info) : lstat(path, &info)) == 0 else { return nil }
    device = UInt64(info.st_dev)
    inode = UInt64(info.st_ino)
    owner = info.st_uid
  }

  package static func == (left: FileIdentity, right: FileIdentity) -> Bool {
    left.device == right.device && left.inode == right.inode
  }

  package func hash(into hasher: inout Hasher) {
    hasher.combine(device)
    hasher.combine(inode)
  }

  /// Returns the path without symbolic links, `.` and `..`. Parts that do not exist stay unchanged.
  package static func canonical(_ path: String) -> String {
    if let buffer = realpath(path, nil) {
      defer { free(buffer) }
      return String(cString: buffer)
    }
    guard let slash = path.lastIndex(of: "/"), slash > path.startIndex else { return path }
    return canonical(String(path[..<slash])) + path[slash...]
  }

  /// Returns the path without symbolic links, `.` and `..` in its folder. The last part stays, even if it is a link.
  package static func canonicalFolder(of path: String) -> String {
    let name = Folder.lastName(of: path)
    guard path.hasSuffix(name), !["", ".", ".."].contains(name) else { return canonical(path) }
    let folder = canonical(Folder.parent(of: path))
    return folder == "/" ? "/" + name : folder + "/" + name
  }
}
