import Applying
import Capturing
import Changes
import PostgresKit
import SQLiteKit
import SystemKit
import Trails

/// Undoes a transaction in the database in which it began.
///
///     let origin = try Undoing.origin(ofTrail: "/var/lib/state/local.shop")
///     let outcome = try Undoing.run(found.plan, at: origin.url, isForced: false, isDry: true)
package enum Undoing {
  /// Returns the database from which a replication captures the trail in a folder, and the folder without links. Returns
  /// nil if the folder around it is not the state folder of a replication.
  ///
  /// - Throws: `usage` if another user may have written the trail or the name of the database.
  package static func origin(ofTrail given: String) throws -> (folder: String, url: DatabaseURL)? {
    let folder = FileIdentity.canonical(given)
    let state = Folder.parent(of: folder)
    guard try StateFolder.ends(of: state) != nil else { return nil }
    // Another user could choose the rows and the database, and this user may write more databases than the other one.
    if let place = [state, folder].first(where: { !Folder.isPrivate($0) }) {
      throw CairnError(
        .usage, "\(place) is not private to this user, so the database that it names may be the choice of another one",
        hint: "run the command as the user of the replication, or name the database with --database", remedy: .badInput)
    }
    guard let ends = try StateFolder.ends(of: state) else { return nil }
    let name = try Trail.info(folder: folder).name
    func url(_ place: String) throws -> DatabaseURL {
      try DatabaseURL(place.hasPrefix("/") ? "sqlite:" + place : PostgresPlace.uri(of: place))
    }
    let (from, to) = (try url(ends.from), try url(ends.to))
    let isTo = from.stem == to.stem ? name.origin == "remote" : name.name == to.stem
    return (folder, isTo ? to : from)
  }

  /// Writes the inverse of a plan into a database, as one transaction of an application.
  ///
  /// - Parameter isForced: Whether columns are written that later transactions wrote.
  /// - Parameter isDry: Whether the transaction is rolled back in the end.
  package static func run(
    _ plan: UndoPlan, at url: DatabaseURL, isForced: Bool, isDry: Bool
  ) throws -> UndoRun.Outcome {
    switch url {
    case .sqlite(let path):
      // The definitions are read on a connection on which no code of the file runs.
      let schemas = try Ends.open(path, mode: .readOnly).userTables().map(\.schema)
      return try UndoRun(try Ends.open(path, mode: .readWrite), schemas: schemas)
        .run(plan, isForced: isForced, isDry: isDry)
    case .postgres(let uri):
      let connection = try PostgresConnection(uri, application: "cairn undo")
      let schemas = try connection.tables(passesLocked: false).tables.map(\.schema)
      do {
        return try UndoRun(connection, schemas: schemas).run(plan, isForced: isForced, isDry: isDry)
      } catch let error as PostgresError where error.isLockTimeout {
        throw CairnError(
          .databaseBusy, "\(connection.place): another session keeps a row or a table locked",
          hint: "end its transaction, or run the command again", remedy: .retry)
      } catch let error as PostgresError where error.isPrivilege {
        throw CairnError(
          .privilegeMissing, "\(connection.place): \(error.message)",
          hint: "name a role that may write the tables: --database postgresql://ROLE@HOST/DB")
      }
    }
  }
}
