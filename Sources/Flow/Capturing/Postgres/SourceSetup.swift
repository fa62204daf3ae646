import PostgresKit

/// The part of a PostgreSQL source that a superuser prepares before a capture by another role begins.
package enum SourceSetup {
  /// Returns whether the event triggers that report schema changes exist, and are of this version.
  package static func hasEventTriggers(_ connection: PostgresConnection) throws -> Bool {
    try SchemaTriggers(connection: connection).isComplete()
  }

  /// Creates the event triggers.
  ///
  /// - Throws: ``PostgresError`` with `isPrivilege` if the role is no superuser; `privilege-missing` if an untrusted
  ///   role owns the schema of the triggers.
  package static func createEventTriggers(_ connection: PostgresConnection) throws {
    try SchemaTriggers(connection: connection).install()
  }
}
