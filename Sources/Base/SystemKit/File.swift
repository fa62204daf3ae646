import CShims
import Glibc

/// An open file that is read and written at offsets, by one thread. This object owns the descriptor; `deinit` closes
/// it.
///
///     let file = try File("/var/lib/cairn/mark", .read)
///     try file.read(into: buffer, at: 0)
package final class File {
  package enum Mode: Sendable {
    case read
    /// Opens an existing file for reading and writing; ENOENT if there is none.
    case readWrite
    /// Creates the file and opens it for reading and writing; EEXIST if it exists.
    case create
    /// Creates the file if it is missing. ELOOP for a symbolic link.
    case openOrCreate

    fileprivate var flags: Int32 {
      switch self {
      case .read: O_RDONLY
      case .readWrite: O_RDWR
      case .create: O_RDWR | O_CREAT | O_EXCL
      case .openOrCreate: O_RDWR | O_CREAT | O_NOFOLLOW
      }
    }
  }

  package let path: String
  private var descriptor: Int32
  private var isLocked = false

  /// Opens a regular file: open(2). A new file gets `permissions`, less the umask. The new entry in the folder is not
  /// synced.
  ///
  /// Other users may own the folder. So a pipe does not block the call, and a pipe, a socket or a device is refused. A
  /// folder can be opened for reading, to lock it.
  ///
  /// - Throws: ENOTSUP for a path that does not lead to a regular file; the errors of open(2).
  package init(_ path: String, _ mode: Mode, permissions: UInt32 = 0o640) throws(FileError) {
    self.path = path
    descriptor = open(path, mode.flags | O_CLOEXEC | O_NONBLOCK, permissions)
    if descriptor < 0 { throw FileError(code: errno, operation: "open", path: path) }
    let kind = try status().st_mode & S_IFMT
    guard kind == S_IFREG || kind == S_IFDIR else {
      throw FileError(code: ENOTSUP, operation: "open", path: path)
    }
  }

  deinit {
    guard descriptor >= 0 else { return }
    unlock()
    _ = Glibc.close(descriptor)
  }

  package var size: UInt64 {
    get throws(FileError) { UInt64(clamping: try status().st_size) }
  }

  /// The bytes that the file occupies on the disk: `st_blocks` of fstat(2).
  package var allocated: UInt64 {
    get throws(FileError) { UInt64(clamping: try status().st_blocks) * 512 }
  }

  /// The time of the last write to the file, µs since 1970 UTC: `st_mtim` of fstat(2).
  package var writtenAt: Int64 {
    get throws(FileError) {
      let time = try status().st_mtim
      return Int64(time.tv_sec) &* 1_000_000 &+ Int64(time.tv_nsec) / 1000
    }
  }

  /// Whether the file still has a name in a folder: fstat(2).
  package var isLinked: Bool {
    get throws(FileError) { try status().st_nlink > 0 }
  }

  /// Whether the file belongs to the present user, has one name, and may be written by no other user.
  package var isOwn: Bool {
    get throws(FileError) {
      let status = try status()
      return status.st_uid == geteuid() && status.st_nlink == 1 && status.st_mode & 0o022 == 0
    }
  }

  /// Whether the path still leads to this file. False if the file was removed, moved or replaced.
  package var isInPlace: Bool {
    get throws(FileError) {
      let own = try status()
      var there = stat()
      guard stat(path, &there) == 0 else {
        if errno == ENOENT || errno == ENOTDIR { return false }
        throw failure("stat")
      }
      return own.st_ino == there.st_ino && own.st_dev == there.st_dev
    }
  }

  /// Fills `buffer` from `offset`: pread(2). Returns the number of bytes read, which is less than the size of `buffer`
  /// only at the end of the file.
  package func read(into buffer: UnsafeMutableRawBufferPointer, at offset: UInt64) throws(FileError) -> Int {
    guard let base = buffer.baseAddress else { return 0 }
    var done = 0
    while done < buffer.count {
      let n = pread(descriptor, base + done, buffer.count - done, off_t(clamping: offset + UInt64(done)))
      if n < 0 {
        if errno == EINTR { continue }
        throw failure("pread")
      }
      if n == 0 { break }
      done += n
    }
    return done
  }

  /// Writes all of `bytes` at `offset`: pwrite(2). After an error, an unknown part has been written.
  package func write(_ bytes: UnsafeRawBufferPointer, at offset: UInt64) throws(FileError) {
    guard let base = bytes.baseAddress else { return }
    var done = 0
    while done < bytes.count {
      let n = pwrite(descriptor, base + done, bytes.count - done, off_t(clamping: offset + UInt64(done)))
      if n < 0 {
        if errno == EINTR { continue }
        throw failure("pwrite")
      }
      done += n
    }
  }

  /// Starts to write the range to the disk, without waiting: sync_file_range(2). Nothing is durable after it.
  package func beginWriting(from offset: UInt64, count: UInt64) {
    cairn_begin_writing(descriptor, offset, count)
  }

  /// Makes content and size durable: fdatasync(2). After an error, the content on disk is unknown, and another call
  /// does not help.
  package func syncData() throws(FileError) {
    while fdatasync(descriptor) < 0 { if errno != EINTR { throw failure("fdatasync") } }
  }

  /// Makes content and all attributes of the file durable: fsync(2).
  package func sync() throws(FileError) {
    while fsync(descriptor) < 0 { if errno != EINTR { throw failure("fsync") } }
  }

  /// Sets the size: ftruncate(2). A longer file reads as zeros after its old end.
  package func truncate(to size: UInt64) throws(FileError) {
    while ftruncate(descriptor, off_t(clamping: size)) < 0 { if errno != EINTR { throw failure("ftruncate") } }
  }

  /// Allocates disk space for the range, so that a later write cannot lack space: posix_fallocate(3).
  package func allocate(from offset: UInt64, count: UInt64) throws(FileError) {
    while true {
      let code = posix_fallocate(descriptor, off_t(clamping: offset), off_t(clamping: count))
      if code == 0 { return }
      if code != EINTR { throw FileError(code: code, operation: "posix_fallocate", path: path) }
    }
  }

  /// Replaces the content of a file atomically, through a file whose name ends in `.new`. After a crash the file has
  /// its old or its new content.
  package static func replace(_ path: String, with bytes: UnsafeRawBufferPointer) throws(FileError) {
    let fresh = path + ".new"
    let file = try File(fresh, .openOrCreate)
    try file.truncate(to: 0)
    try file.write(bytes, at: 0)
    try file.sync()
    try file.close()
    try Folder.rename(fresh, to: path)
    try Folder.sync(Folder.parent(of: path))
  }

  /// Takes an exclusive lock without waiting: flock(2). Returns false if another open file has the lock.
  package func tryLock() throws(FileError) -> Bool {
    while flock(descriptor, LOCK_EX | LOCK_NB) < 0 {
      if errno == EWOULDBLOCK { return false }
      if errno != EINTR { throw failure("flock") }
    }
    isLocked = true
    return true
  }

  /// Closes the file, and throws the error of close(2). The descriptor is closed in any case.
  package func close() throws(FileError) {
    guard descriptor >= 0 else { return }
    unlock()
    let result = Glibc.close(descriptor)
    let code = errno
    descriptor = -1
    // Linux releases the descriptor even if it reports EINTR.
    if result < 0, code != EINTR { throw FileError(code: code, operation: "close", path: path) }
  }

  /// Returns the descriptor, which the caller owns from now on and closes. Later calls on this object fail.
  package func release() -> Int32 {
    defer { descriptor = -1 }
    return descriptor
  }

  // Closing alone does not release the lock while a child process has the descriptor, between fork and exec.
  private func unlock() {
    if isLocked { _ = flock(descriptor, LOCK_UN) }
    isLocked = false
  }

  private func status() throws(FileError) -> stat {
    var result = stat()
    if fstat(descriptor, &result) < 0 { throw failure("fstat") }
    return result
  }

  private func failure(_ operation: String) -> FileError { FileError(code: errno, operation: operation, path: path) }
}
