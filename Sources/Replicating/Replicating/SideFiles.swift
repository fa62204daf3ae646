import Changes
import SystemKit

/// The files beside an SQLite file that SQLite takes for a part of it: its logs and its journal.
///
/// A file that gets the name of an earlier one must not get the log of that one: SQLite would read rows from it.
/// Source: https://sqlite.org/tempfiles.html
///
///     SideFiles.names(of: "/srv/now.db")   // ["/srv/now.db-wal", "/srv/now.db-journal", "/srv/now.db-shm"]
enum SideFiles {
  static func names(of path: String) -> [String] { ["-wal", "-journal", "-shm"].map { path + $0 } }

  /// Checks that no file exists which SQLite would take for a part of a new file.
  ///
  /// - Parameter what: The words for the new file, such as "restored database".
  /// - Throws: `target-differs`, also for a link that leads nowhere.
  static func checkAreMissing(beside path: String, _ what: String) throws(CairnError) {
    guard let name = names(of: path).first(where: Folder.hasEntry) else { return }
    throw CairnError(
      .targetDiffers, "\(name) exists, from which SQLite would write into the \(what)",
      hint: "move it away if no program needs it, or name a file that has none", remedy: .badInput)
  }

  /// Removes the files that exist.
  static func remove(beside path: String) throws(FileError) {
    for name in names(of: path) { do { try Folder.remove(name) } catch  where error.isMissing {} }
  }
}
