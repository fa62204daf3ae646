import Changes
import Glibc
import SystemKit

/// Makes the readable content of an SQLite file durable, before any of it goes into the trail.
///
/// An application with `synchronous=NORMAL` commits without a sync. A power cut loses its last commits, and their
/// sequence numbers are used again. So Cairn syncs the file before it takes changes.
package final class SourceSync {
  private let path: String
  /// The descriptor of the database file, open as long as the process lives. Closing it would drop the POSIX locks that
  /// SQLite holds on the file in this process (https://sqlite.org/howtocorrupt.html, section 2.2).
  private var databaseDescriptor: Int32 = -1

  /// The flags to open files with: a pipe in the file's place does not block this thread, and a link is not followed.
  private static let flags = O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK

  package init(path: String) { self.path = path }

  private static func isPlainFile(_ descriptor: Int32) -> Bool {
    var info = stat()
    return fstat(descriptor, &info) == 0 && info.st_mode & S_IFMT == S_IFREG && info.st_nlink <= 1
  }

  /// Syncs the commits. In WAL mode: `fdatasync` of the -wal file. Otherwise `fdatasync` of the database file, and
  /// `fsync` of its folder, because the removal of the -journal file is the commit.
  ///
  /// An existing -wal file is always synced, because an application may have switched the file to WAL since the mode
  /// was read.
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

  /// Syncs the -wal file. Returns false if there is no such file: then everything has been checkpointed and synced.
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
