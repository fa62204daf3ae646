import Changes
import Glibc

/// The error of a system call on a file or folder.
///
///     FileError(code: ENOENT, operation: "open", path: "a").description   // "open a: No such file …"
package struct FileError: Error, Sendable, CustomStringConvertible {
  package let code: Int32
  /// The system call, for example `pwrite`.
  package let operation: String
  package let path: String

  package init(code: Int32, operation: String, path: String) {
    self.code = code
    self.operation = operation
    self.path = path
  }

  package var isMissing: Bool { code == ENOENT || code == ENOTDIR }

  /// Whether the file is larger than Cairn reads.
  package var isTooLarge: Bool { code == EFBIG }

  /// Whether the file system, or the quota of the user on it, is full.
  package var isFull: Bool { (code == ENOSPC || code == EDQUOT) && !operation.hasPrefix("inotify") }

  package var description: String { "\(operation) \(path): \(String(cString: strerror(code)))" }

  /// Returns the error as a ``CairnError``.
  ///
  /// - Parameters:
  ///   - doing: The words that complete "cannot …".
  ///   - missing: The code for a file or folder that does not exist.
  package func asCairnError(doing: String, missing: ErrorCode = .ioFailed) -> CairnError {
    let (code, hint): (ErrorCode, String) =
      switch self.code {
      case ENOSPC where operation == "inotify_add_watch":
        (.ioFailed, "raise the number of files that a user may watch: sysctl fs.inotify.max_user_watches")
      case EMFILE where operation == "inotify_init1":
        (.ioFailed, "raise the number of inotify descriptors of a user: sysctl fs.inotify.max_user_instances")
      case ENOSPC, EDQUOT:
        (.diskFull, "free space on the file system of \(path) (df shows it), or raise the quota")
      case EROFS, EACCES, EPERM:
        (.stateUnwritable, "check the owner and the mode of \(path), and that its file system is mounted read-write")
      case ENOENT, ENOTDIR: (missing, "check that \(path) exists and that the path is spelled right")
      case EFBIG: (.stateForeign, "find out what wrote \(path): it is larger than any such file of Cairn's")
      case ENOTSUP, ENXIO: (.ioFailed, "find out what made \(path): it is no regular file")
      case EMFILE, ENFILE: (.ioFailed, "raise the limit of open files (ulimit -n, or LimitNOFILE= of the service)")
      default: (.ioFailed, "look into the kernel log (dmesg) for errors of the disk that holds \(path)")
      }
    return CairnError(code, "cannot \(doing): \(self)", hint: hint, context: ["path": path])
  }
}
