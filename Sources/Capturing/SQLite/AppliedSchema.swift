import Changes
import SQLiteKit

/// Keeps a capture in step with the schema changes that an apply makes in the same file, inside of apply's transaction.
///
/// Nobody else can have written meanwhile, so nothing was missed and nothing has to be copied. The trail of the file is
/// told of the change, as its rows have the new shape from there on.
package enum AppliedSchema {
  /// Takes the triggers off a table that is about to be altered: SQLite refuses to drop a column that they name.
  /// `version`: the schema's when the transaction began.
  package static func release(_ table: String, in database: Database, since version: Int64) throws {
    guard try isInStep(database, version) else { return }
    try Journal(database).dropTriggers(onTable: table)
  }

  /// Before the commit of an apply of `trail`. Where a program had changed the schema as well, and capture has not seen that yet, it is left to
  /// capture, which copies what is in doubt.
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
