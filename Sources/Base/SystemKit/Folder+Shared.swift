import Changes
import Glibc

/// Folders in which another user could put a link or a file of their own in the place of a file that Cairn makes.
extension Folder {
  /// Returns the first folder on the way to a file in which another user may exchange entries; nil if there is none.
  /// Root and the present user are no other users.
  ///
  /// - Parameter path: The path of the file. The file need not exist, its folder must.
  package static func firstShared(onTheWayTo path: String) -> String? {
    let own = path.hasPrefix("/") ? path : FileIdentity.canonical(".") + "/" + path
    // A link on the way is safe if its own folder is, and if the folders are to which it leads.
    return firstShared(own) ?? firstShared(FileIdentity.canonicalFolder(of: own))
  }

  private static func firstShared(_ path: String) -> String? {
    var (folders, folder) = ([String](), path)
    while folder != "/" {
      folder = parent(of: folder)
      folders.append(folder)
    }
    return folders.reversed().first { isShared($0) }
  }

  private static func isShared(_ folder: String) -> Bool {
    var status = stat()
    guard stat(folder, &status) == 0 else { return false }
    if status.st_uid != geteuid(), status.st_uid != 0 { return true }
    // With the sticky bit, users exchange only entries of their own.
    return status.st_mode & 0o022 != 0 && status.st_mode & S_ISVTX == 0
  }

  /// Throws `usage` if another user may exchange entries of a folder on the way to a file that is to be made.
  ///
  /// - Parameter what: The kind of the file, such as `snapshot`.
  package static func checkIsNotShared(onTheWayTo path: String, _ what: String) throws(CairnError) {
    guard let folder = firstShared(onTheWayTo: path) else { return }
    throw CairnError(
      .usage, "another user may write folder \(folder), and so exchange the \(what) \(path) while it is made",
      hint:
        "name a file in a folder that only this user may write, or run as the owner of a folder that no group writes",
      remedy: .badInput)
  }
}
