import Changes
import SQLiteKit

/// Adapts the capture of a file to schema changes of an apply, in the transaction of the apply. No table needs a
/// refresh after such a change.
package enum AppliedSchema {
  /// Drops Cairn's triggers on a table that an apply is about to alter. SQLite does not drop a column that a trigger
  /// names. Does nothing if capture has yet to process a schema change of an application.
  ///
  /// - Parameter version: The schema version at the start of the apply's transaction.
  package static func release(_ table: String, in database: Database, since version: Int64) throws {
    guard try isInStep(database, version) else { return }
    try Journal(database).dropTriggers(onTable: table)
  }

  /// Adapts triggers and recorded table shapes to the schema changes of an apply, before it commits. Does nothing if
  /// capture has yet to process a schema change of an application.
  package static func adopt(in database: Database, since version: Int64, of trail: TrailName) throws {
    guard try isInStep(database, version) else { return }
    let journal = Journal(database)
    try journal.adoptApplied(try journal.patterns(), by: trail)
  }

  private static func isInStep(_ database: Database, _ version: Int64) throws -> Bool {
    guard try Journal(database).isInstalled() else { return false }
    return try database.integer("SELECT schema_version FROM cairn_control WHERE id = 0") == version
  }
}
