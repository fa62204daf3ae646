import Changes
import PostgresKit
import SystemKit

extension PostgresApplyState {
  /// Deletes apply's state of the trail at the target: checkpoint, tables and replication origin. Returns false if
  /// there was none.
  ///
  /// - Throws: `database-busy` if a session still applies the trail after `patienceMilliseconds`; `privilege-missing` if
  ///   triggers of `local_writes` are at a table that this role does not own.
  package func forgetTrail(patienceMilliseconds: Int64 = 3_000) throws -> Bool {
    guard let trail, try isInstalled() else { return false }
    let limit = Clock.monotonicMilliseconds + patienceMilliseconds
    while let process = try user(of: trail) {
      guard Clock.monotonicMilliseconds < limit else { throw busy(trail, "process \(process)") }
      Clock.sleep(milliseconds: 50)
    }
    return try connection.transaction {
      try lock()
      try upgrade()
      // Indexes and foreign keys that wait for rows of this trail alone are not needed any more.
      try connection.run(
        """
        DELETE FROM cairn.pending AS p WHERE EXISTS (SELECT FROM cairn.table_state AS t
            WHERE t.trail = $1 AND (t.schema_name, t.table_name) = (p.schema_name, p.table_name))
          AND NOT EXISTS (SELECT FROM cairn.table_state AS t
            WHERE t.trail <> $1 AND (t.schema_name, t.table_name) = (p.schema_name, p.table_name))
        """, [trail.description])
      var count: Int64 = 0
      for table in ["checkpoint", "table_state", "waiting"] {
        count += try connection.run("DELETE FROM cairn.\(table) WHERE trail = $1", [trail.description])
      }
      try QuarantineLog(connection).forget(trail)
      try PostgresGuards(connection).dropUnneeded()
      let origin = try originPrefix() + trail.description
      guard try connection.first("SELECT 1 FROM pg_replication_origin WHERE roname = $1", [origin]) != nil else {
        return count > 0
      }
      do { try connection.run("SELECT pg_replication_origin_drop($1)", [origin]) } catch let error as PostgresError
        where error.sqlState == "55006"
      { throw busy(trail, error.message) }
      return true
    }
  }

  private func user(of trail: TrailName) throws -> String? {
    try connection.first(
      """
      SELECT pid FROM pg_stat_activity WHERE datname = current_database()
        AND usesysid IN (SELECT oid FROM pg_roles WHERE rolsuper OR rolname = current_user)
        AND application_name = \(PostgresApplySession.applicationText)
      """,
      ["cairn apply \(trail)"])
  }

  private func busy(_ trail: TrailName, _ who: String) -> CairnError {
    CairnError(
      .databaseBusy, "a session applies trail \(trail) to \(connection.place): \(who)",
      hint: "remove the apply from the conf and reload, or stop it, then run again", remedy: .retry)
  }
}
