import CShims
import Glibc

/// Functions on folders and on the names in them.
package enum Folder {
  /// Creates the folder and its missing parents, with mode 0750 less the umask: mkdir(2). The new entries are durable.
  package static func create(_ path: String) throws(FileError) {
    if isFolder(path) { return }
    let parent = parent(of: path)
    if parent != path { try create(parent) }
    if mkdir(path, 0o750) < 0 {
      let code = errno
      if code == EEXIST, isFolder(path) { return }
      throw FileError(code: code, operation: "mkdir", path: path)
    }
    try sync(parent)
  }

  /// Returns the names in a folder, sorted by their bytes, without `.` and `..`: readdir(3).
  package static func names(_ path: String) throws(FileError) -> [String] {
    guard let stream = opendir(path) else { throw FileError(code: errno, operation: "opendir", path: path) }
    defer { closedir(stream) }
    var names: [String] = []
    while true {
      errno = 0
      guard let entry = readdir(stream) else { break }
      let name = withUnsafePointer(to: &entry.pointee.d_name) {
        $0.withMemoryRebound(to: CChar.self, capacity: MemoryLayout.size(ofValue: entry.pointee.d_name)) {
          String(cString: $0)
        }
      }
      if name != ".", name != ".." { names.append(name) }
    }
    if errno != 0 { throw FileError(code: errno, operation: "readdir", path: path) }
    return names.sorted { $0.utf8.lexicographicallyPrecedes($1.utf8) }
  }

  /// Returns whether a file or folder exists and may be examined: stat(2).
  package static func exists(_ path: String) -> Bool {
    var status = stat()
    return stat(path, &status) == 0
  }

  /// Returns whether a folder has an entry of this name, also if it is a link that leads nowhere: lstat(2).
  package static func hasEntry(_ path: String) -> Bool {
    var status = stat()
    return lstat(path, &status) == 0
  }

  package static func isFolder(_ path: String) -> Bool {
    var status = stat()
    return stat(path, &status) == 0 && status.st_mode & S_IFMT == S_IFDIR
  }

  /// Returns whether a path, absolute and without links, is a folder that belongs to the current user and to which no
  /// other user may write.
  package static func isPrivate(_ path: String) -> Bool {
    var status = stat()
    return path.utf8.first == UInt8(ascii: "/") && FileIdentity.canonical(path).utf8.elementsEqual(path.utf8)
      && lstat(path, &status) == 0 && status.st_mode & S_IFMT == S_IFDIR && status.st_uid == geteuid()
      && status.st_mode & 0o022 == 0
  }

  /// Sets the modification time of a file to now: utimensat(2). A missing file is no error.
  package static func touch(_ path: String) { _ = utimensat(AT_FDCWD, path, nil, 0) }

  /// Removes a file or an empty folder: remove(3). The change of the folder is not synced.
  package static func remove(_ path: String) throws(FileError) {
    if Glibc.remove(path) < 0 { throw FileError(code: errno, operation: "remove", path: path) }
  }

  /// Renames a file and replaces any file that has the new name: rename(2). The change of the folder is not synced.
  package static func rename(_ path: String, to other: String) throws(FileError) {
    if Glibc.rename(path, other) < 0 { throw FileError(code: errno, operation: "rename", path: path) }
  }

  /// Gives a file a name that no other file has: link(2), unlink(2). The change of the folder is not synced.
  package static func rename(_ path: String, new other: String) throws(FileError) {
    if link(path, other) < 0 { throw FileError(code: errno, operation: "link", path: other) }
    if unlink(path) < 0 { throw FileError(code: errno, operation: "unlink", path: path) }
  }

  /// Replaces the folder `other` by the folder `path` in one durable step, and removes the old one: renameat2(2).
  package static func replace(_ other: String, by path: String) throws(FileError) {
    if exists(other) {
      let code = cairn_exchange(path, other)
      if code != 0 { throw FileError(code: code, operation: "renameat2", path: path) }
      try sync(parent(of: other))
      try removeAll(path)
    } else {
      try rename(path, to: other)
      try sync(parent(of: other))
    }
  }

  /// Removes a folder with its files and empty subfolders. Throws for a subfolder that is not empty. A missing folder
  /// is no error.
  package static func removeAll(_ path: String) throws(FileError) {
    guard isFolder(path) else { return }
    for name in try names(path) { try remove("\(path)/\(name)") }
    try remove(path)
  }

  /// Makes the entries of a folder durable: fsync(2).
  package static func sync(_ path: String) throws(FileError) {
    let descriptor = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
    if descriptor < 0 { throw FileError(code: errno, operation: "open", path: path) }
    defer { close(descriptor) }
    while fsync(descriptor) < 0 {
      if errno != EINTR { throw FileError(code: errno, operation: "fsync", path: path) }
    }
  }

  /// Returns the path without its last part: `.` for a single name, `/` for the root.
  package static func parent(of path: String) -> String {
    var bytes = Array(path.utf8)
    while bytes.count > 1, bytes.last == UInt8(ascii: "/") { bytes.removeLast() }
    guard let slash = bytes.lastIndex(of: UInt8(ascii: "/")) else { return "." }
    return slash == 0 ? "/" : String(decoding: bytes[..<slash], as: UTF8.self)
  }

  /// Returns the last part of a path.
  package static func lastName(of path: String) -> String {
    var bytes = Array(path.utf8)
    while bytes.count > 1, bytes.last == UInt8(ascii: "/") { bytes.removeLast() }
    guard let slash = bytes.lastIndex(of: UInt8(ascii: "/")), bytes.count > 1 else {
      return String(decoding: bytes, as: UTF8.self)
    }
    return String(decoding: bytes[(slash + 1)...], as: UTF8.self)
  }
}
