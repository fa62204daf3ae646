import Changes
import PostgresKit

/// The replication origins of a server: one for each trail that is applied to one of the server's databases.
package enum PostgresOrigins {
  /// Returns whether the server has a replication origin for the apply of the trail to this database.
  package static func has(_ trail: TrailName, _ connection: PostgresConnection) throws -> Bool {
    let origin = try PostgresApplyState(connection).originPrefix() + trail.description
    return try connection.first("SELECT 1 FROM pg_replication_origin WHERE roname = $1", [origin]) != nil
  }

  /// Throws `server-setting` if the server's limit does not allow replication origins for `new` more apply workers.
  ///
  /// Does nothing if the role may not use origins.
  ///
  /// Source: https://www.postgresql.org/docs/current/runtime-config-replication.html
  package static func check(_ connection: PostgresConnection, new: Int) throws {
    // Before PostgreSQL 18, slots and origins had one limit.
    let setting = connection.serverVersion >= 180_000 ? "max_active_replication_origins" : "max_replication_slots"
    let row =
      try connection.query(
        """
        SELECT current_setting($1)::int,
          (SELECT count(*) FROM pg_replication_origin WHERE NOT (roname ~ '^cairn_[0-9]+_'
            AND split_part(roname, '_', 2) NOT IN (SELECT oid::text FROM pg_database))),
          has_function_privilege('pg_replication_origin_session_setup(text)', 'execute')
        """, [setting]
      ).first ?? []
    guard row.count == 3, row[2] == "t", let most = Int(row[0] ?? ""), let used = Int(row[1] ?? ""), used + new > most
    else { return }
    throw CairnError(
      .serverSetting,
      "\(connection.place): \(used) of \(most.counted("replication origin")) \(used == 1 ? "is" : "are") in use (\(setting)), and \(new.counted("apply needs one", "applies need one each"))",
      hint:
        "raise \(setting) and restart the server, or remove the origin of an apply that is no longer used: 'cairn detach URL --trail NODE.NAME'"
    )
  }
}
