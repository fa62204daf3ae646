import Glibc

/// A listening Unix socket in the file system.
///
///     let listener = try LocalListener("/run/cairn/control.sock", group: "cairn")
///     let socket = listener.accept(seconds: 10)
package final class LocalListener {
  package let path: String
  /// The descriptor for poll(2), readable when a client connects.
  package let descriptor: Int32
  private let inode: UInt64

  /// Begins to listen. Throws `EADDRINUSE` if another process listens at this path. The socket's file has the mode 0660
  /// and belongs to `group`, if one is given.
  package init(_ path: String, group: String?) throws(FileError) {
    self.path = path
    try Self.removeStale(path)
    let descriptor = socket(
      AF_UNIX, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue) | Int32(SOCK_NONBLOCK.rawValue), 0)
    guard descriptor >= 0 else { throw FileError(code: errno, operation: "socket", path: path) }
    do throws(FileError) {
      let mask = umask(0o177)
      let code = try LocalSocket.withAddress(path) { bind(descriptor, $0, $1) < 0 ? errno : 0 }
      umask(mask)
      if code != 0 { throw FileError(code: code, operation: "bind", path: path) }
      if let group { try Self.give(path, to: group) }
      if chmod(path, 0o660) < 0 { throw FileError(code: errno, operation: "chmod", path: path) }
      if listen(descriptor, 64) < 0 { throw FileError(code: errno, operation: "listen", path: path) }
      inode = Self.inode(path)
    } catch {
      Glibc.close(descriptor)
      throw error
    }
    self.descriptor = descriptor
  }

  deinit {
    if Self.inode(path) == inode { unlink(path) }
    Glibc.close(descriptor)
  }

  /// Accepts the next client; nil if none is waiting. A read or write on the client's socket fails after `seconds`.
  package func accept(seconds: Int) -> LocalSocket? {
    let peer = Glibc.accept(descriptor, nil, nil)
    if peer >= 0 { _ = fcntl(peer, F_SETFD, FD_CLOEXEC) }
    return peer >= 0 ? LocalSocket(peer, path: path, seconds: seconds) : nil
  }

  private static func removeStale(_ path: String) throws(FileError) {
    var status = stat()
    guard lstat(path, &status) == 0 else { return }
    guard status.st_mode & S_IFMT == S_IFSOCK else { throw FileError(code: EEXIST, operation: "bind", path: path) }
    do throws(FileError) {
      _ = try LocalSocket.connect(path, seconds: 1)
    } catch {
      // The listener is gone.
      guard error.code == ECONNREFUSED || error.code == ENOENT else { throw error }
      unlink(path)
      return
    }
    throw FileError(code: EADDRINUSE, operation: "bind", path: path)
  }

  private static func give(_ path: String, to group: String) throws(FileError) {
    guard let entry = getgrnam(group) else {
      throw FileError(code: ENOENT, operation: "getgrnam \(group) for", path: path)
    }
    if chown(path, uid_t.max, entry.pointee.gr_gid) < 0 {
      throw FileError(code: errno, operation: "chown to group \(group)", path: path)
    }
  }

  private static func inode(_ path: String) -> UInt64 {
    var status = stat()
    return lstat(path, &status) == 0 ? UInt64(status.st_ino) : 0
  }
}
