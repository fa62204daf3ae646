import Changes
import Glibc
import SystemKit

/// Syncs an SQLite file before its changes go into the trail. Without that, a power cut may lose the last commits
/// (`synchronous=NORMAL`).
package final class SourceSync {
  private let path: String
  /// The descriptor of the database file, never closed: closing it would drop SQLite's POSIX locks
  /// (https://sqlite.org/howtocorrupt.html, section 2.2).
  private var databaseDescriptor: Int32 = -1

  /// The flags for opening a file. A pipe does not block, and a link is not followed.
  private static let flags = O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK

  package init(path: String) { self.path = path }

  private static func isPlainFile(_ descriptor: Int32) -> Bool {
    var info = stat()
    return fstat(descriptor, &info) == 0 && info.st_mode & S_IFMT == S_IFREG && info.st_nlink <= 1
  }

  /// Syncs the -wal file if there is one. Without WAL mode, also syncs the database file and its folder.
  ///
  /// - Returns: The suffixes of the files that were synced.
  @discardableResult
  package func sync(isWAL: Bool) throws -> [String] {
    let log = try syncLog() ? ["-wal"] : []
    if isWAL { return log }
    if databaseDescriptor < 0 { databaseDescriptor = open(path, Self.flags) }
    guard databaseDescriptor >= 0, fdatasync(databaseDescriptor) == 0 else { throw failed("", errno) }
    do { try Folder.sync(Folder.parent(of: path)) } catch { throw failed(" (its folder)", error.code) }
    return log + [""]
  }

  /// Syncs the -wal file. Returns false if the file does not exist.
  private func syncLog() throws -> Bool {
    let descriptor = open(path + "-wal", Self.flags)
    guard descriptor >= 0 || errno == ENOENT else { throw failed("-wal", errno) }
    guard descriptor >= 0 else { return false }
    // The file may be a link to another database: closing it would drop the locks on that database.
    guard Self.isPlainFile(descriptor) else { throw failed("-wal", EPERM) }
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
