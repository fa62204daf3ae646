import CShims
import Changes

/// The reason why a connection of Cairn refused an action that the database file caused. All paths are absolute.
package enum FileRefusal: Equatable, Sendable {
  /// The path of the database, or of its `-journal`, `-wal` or `-shm` file, is a symbolic link.
  case link(String)
  /// The path of the database, or of its `-journal`, `-wal` or `-shm` file, is a pipe, a device or a socket.
  case notAFile(String)
  /// The `-journal`, `-wal` or `-shm` file has a second name (a hard link).
  case hardLink(String)
  /// The `-journal`, `-wal` or `-shm` file belongs to a user who may not write to the database.
  case owner(String)
  /// The `-journal` file names another file, or a statement attaches one.
  case otherFile(String)
  /// The shared memory of the database was truncated while the connection used it.
  case cut(String)
  /// A process holds a lease on the database, or on its `-journal`, `-wal` or `-shm` file. To open the file would wait.
  case lease(String)
  /// The `-shm` file counts more pages in the log than one file may have in the memory of Cairn.
  case index(String)
  /// The file has a view, trigger, function or setting of this name, which Cairn does not run.
  case foreignCode(String)
  /// The definitions of the file are larger than Cairn reads, for this reason.
  case schema(String)

  init?(takenFrom fileGuard: OpaquePointer?) {
    guard let fileGuard else { return nil }
    var text: UnsafePointer<CChar>?
    let kind = cairn_guard_refusal(fileGuard, &text)
    let path = text.map { String(cString: $0) } ?? ""
    switch Int(kind) {
    case CAIRN_REFUSAL_LINK: self = .link(path)
    case CAIRN_REFUSAL_NOT_A_FILE: self = .notAFile(path)
    case CAIRN_REFUSAL_HARD_LINK: self = .hardLink(path)
    case CAIRN_REFUSAL_OWNER: self = .owner(path)
    case CAIRN_REFUSAL_OTHER_FILE: self = .otherFile(path)
    case CAIRN_REFUSAL_CUT: self = .cut(path)
    case CAIRN_REFUSAL_LEASE: self = .lease(path)
    case CAIRN_REFUSAL_INDEX: self = .index(path)
    default: return nil
    }
  }

  /// Returns the refusal as an error for the operator.
  package func asCairnError(_ database: String) -> CairnError {
    let (what, hint) = words
    return CairnError(.databaseUnsafe, "database \(database) is not opened: \(what)", hint: hint)
  }

  private var words: (what: String, hint: String) {
    switch self {
    case .link(let path):
      (
        "\(path) is a symbolic link",
        "name the file itself in the conf; if no administrator made the link, find out which user did: ls -l \(path)"
      )
    case .notAFile(let path):
      (
        "\(path) is a pipe, a device or a socket",
        "find out which user made it, and remove it: ls -l \(path)"
      )
    case .hardLink(let path):
      (
        "\(path) is a hard link to another file",
        "find the other names: find / -xdev -samefile \(path); then remove \(path)"
      )
    case .owner(let path):
      (
        "\(path) belongs to a user without write access to the database",
        "compare the owners: ls -l \(path); if a program made it, give that program's group write access to the database"
      )
    case .otherFile(let path):
      (
        "its journal names another file, \(path)",
        "open the database with its own application once, which ends a transaction over several files; "
          + "if no program of yours writes several files at once, the journal is forged: find out which user made it"
      )
    case .cut(let path):
      (
        "\(path) was truncated while it was in use",
        "no program that uses SQLite does that: find out which process writes to the file, with 'fuser -v \(path)'"
      )
    case .lease(let path):
      (
        "a process holds a lease on \(path), which makes others wait",
        "no program that uses SQLite takes one: find out which process does, with 'fuser -v \(path)'"
      )
    case .index(let path):
      (
        "\(path) counts more pages in the log than Cairn reads",
        "if the -wal file is large, run 'PRAGMA wal_checkpoint(TRUNCATE)' with the application that owns the database; "
          + "if it is small, \(path) is forged: find out which user wrote it"
      )
    case .foreignCode(let name):
      (
        "it makes Cairn run \(name), which only an application may run",
        "check the objects named cairn_ in the schema; if no administrator changed them, find out which program did"
      )
    case .schema(let reason):
      (
        reason,
        "find out which program made them: SELECT type, name, length(sql) FROM sqlite_master ORDER BY 3 DESC; "
          + "then drop what is not needed, or divide the tables among several files"
      )
    }
  }
}
