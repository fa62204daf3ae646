import Changes
import SQLiteKit

/// Adapts the capture of a file to the schema changes that an apply makes there, inside the transaction of the apply.
///
/// No other connection can have written meanwhile, so capture has missed nothing and copies nothing. The trail of the
/// file records the change, because rows after the change have the new shape.
package enum AppliedSchema {
  /// Drops Cairn's triggers on a table that an apply is about to alter, because SQLite refuses to drop a column that
  /// they name. `version` is the schema version at the start of the transaction.
  package static func release(_ table: String, in database: Database, since version: Int64) throws {
    guard try isInStep(database, version) else { return }
    try Journal(database).dropTriggers(onTable: table)
  }

  /// Adapts the triggers and recorded table shapes to the schema changes of an apply of `trail`, before that apply
  /// commits.
  ///
  /// Does nothing if an application had changed the schema too and capture has not processed that yet. Capture then
  /// adapts to all changes later, and copies the tables whose changes the journal may lack.
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
