import Changes
import Glibc
import Synchronization
import SystemKit

/// Syncs an SQLite file before its changes go into the trail. Without that, a power cut may lose the last commits
/// (`synchronous=NORMAL`).
package final class SourceSync {
  private let path: String
  private let own = Mutex<Inode?>(nil)
  private struct Inode: Hashable {
    let device: dev_t
    let number: ino_t

    init(_ info: stat) { (device, number) = (info.st_dev, info.st_ino) }
  }

  /// The descriptors of the database files of this process, never closed: closing one would drop SQLite's POSIX locks
  /// on the file (https://sqlite.org/howtocorrupt.html, section 2.2). So each file has one.
  private static let descriptors = Mutex<[Inode: Int32]>([:])

  /// The flags for opening a file. A pipe does not block, and a link is not followed.
  private static let flags = O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK

  package init(path: String) { self.path = path }

  private static func isPlainFile(_ info: stat) -> Bool { info.st_mode & S_IFMT == S_IFREG && info.st_nlink <= 1 }

  /// Returns the descriptor of the database file; nil, with `errno`, if it cannot be opened. Another file that took its
  /// place is not opened (ESTALE): descriptors stay open, and the file may be exchanged again and again.
  private func databaseDescriptor() -> Int32? {
    var info = stat()
    guard lstat(path, &info) == 0 else { return nil }
    let first = own.withLock { own in
      own = own ?? Inode(info)
      return own
    }
    guard first == Inode(info) else {
      errno = ESTALE
      return nil
    }
    return Self.descriptors.withLock { known in
      if let descriptor = known[Inode(info)] { return descriptor }
      let descriptor = open(path, Self.flags)
      guard descriptor >= 0, fstat(descriptor, &info) == 0 else { return nil }
      // The path may have another file by now, whose descriptor is known: then this one stays open as well.
      if known[Inode(info)] == nil { known[Inode(info)] = descriptor }
      return descriptor
    }
  }

  /// Syncs the -wal file if there is one. Without WAL mode, also syncs the database file and its folder.
  ///
  /// - Returns: The suffixes of the files that were synced.
  @discardableResult
  package func sync(isWAL: Bool) throws -> [String] {
    let log = try syncLog() ? ["-wal"] : []
    if isWAL { return log }
    guard let descriptor = databaseDescriptor(), fdatasync(descriptor) == 0 else { throw failed("", errno) }
    do { try Folder.sync(Folder.parent(of: path)) } catch { throw failed(" (its folder)", error.code) }
    return log + [""]
  }

  /// Syncs the -wal file. Returns false if the file does not exist.
  private func syncLog() throws -> Bool {
    var info = stat()
    guard lstat(path + "-wal", &info) == 0 || errno == ENOENT else { throw failed("-wal", errno) }
    guard info.st_nlink > 0 else { return false }
    // The file may be a link to another database: closing it would drop the locks on that database.
    guard Self.isPlainFile(info) else { throw failed("-wal", EPERM) }
    let descriptor = open(path + "-wal", Self.flags)
    guard descriptor >= 0 || errno == ENOENT else { throw failed("-wal", errno) }
    guard descriptor >= 0 else { return false }
    guard fstat(descriptor, &info) == 0, Self.isPlainFile(info) else { throw failed("-wal", EPERM) }
    defer { close(descriptor) }
    guard fdatasync(descriptor) == 0 else { throw failed("-wal", errno) }
    return true
  }

  private func failed(_ suffix: String, _ code: Int32) -> CairnError {
    CairnError(
      .ioFailed, "cannot sync \(path)\(suffix): \(String(cString: strerror(code)))",
      hint: "check the disk and the kernel log; capture read nothing that is not durable at the source")
  }
}
