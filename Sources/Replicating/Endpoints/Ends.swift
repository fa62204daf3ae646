import Changes
import Glibc
import SQLiteKit
import SystemKit

/// Opens databases, and reports any problem in one line.
package enum Ends {
  /// Opens an SQLite file. Throws if the file is missing, is no database, or cannot be opened in `mode`.
  ///
  /// - Parameter checksOwn: Whether to check that Cairn's own tables are as Cairn makes them. A command that only removes
  ///   them does not check.
  package static func open(_ path: String, mode: Database.Mode, checksOwn: Bool = true) throws -> Database {
    guard FileIdentity(path: path) != nil else {
      throw CairnError(
        .databaseMissing, "there is no database \(path)", hint: "check the path; the source must exist",
        remedy: .badInput
      )
    }
    do {
      let database = try Database(path: path, mode: mode)
      if mode == .readOnly { database.forbidForeignCode() }
      _ = try database.integer("SELECT count(*) FROM sqlite_master")
      if mode == .readWrite {
        guard access(path, W_OK) == 0, access(Folder.parent(of: path), W_OK) == 0 else { throw readOnly(path) }
        try database.executeScript("BEGIN IMMEDIATE; ROLLBACK")
      }
      if checksOwn {
        try database.checkOwnTables()
        try database.checkOwnSizes()
      }
      return database
    } catch let error as SQLiteError {
      if error.primary == 14, access(path, R_OK) != 0 { throw readOnly(path) }
      throw error.asCairnError
    }
  }

  /// Checks the path of an SQLite target. The file may be missing, but its folder must exist.
  package static func checkTarget(_ path: String) throws {
    if FileIdentity(path: path) != nil {
      if Folder.isFolder(path) {
        throw CairnError(
          .databaseNotADatabase, "\(path) is a folder", hint: "name the database file", remedy: .badInput)
      }
      return
    }
    let parent = Folder.parent(of: path)
    guard Folder.isFolder(parent) else {
      throw CairnError(
        .databaseMissing, "the folder of the target does not exist: \(parent)", hint: "create the folder first",
        remedy: .badInput)
    }
    guard access(parent, W_OK) == 0 else { throw readOnly(path) }
  }

  package static func same(_ place: String) -> CairnError {
    CairnError(
      .sameDatabase, "source and target are the same database, \(place)",
      hint: "name another database after --to", remedy: .badInput)
  }

  private static func readOnly(_ path: String) -> CairnError {
    CairnError(
      .databaseReadOnly, "database \(path) cannot be written by this user",
      hint:
        "give this user write access to the file and to its folder (for -wal and -shm); a service needs ReadWritePaths= too"
    )
  }
}
