import Changes
import PostgresKit
import SystemKit

/// Opens the connections on which a trail is applied.
enum PostgresApplySession {
  private static let patienceMilliseconds: Int64 = 5000

  static func open(_ uri: String, trail: TrailName) throws -> PostgresConnection {
    let connection = try PostgresConnection(uri, application: "cairn apply \(trail)")
    try check(connection)
    try adopt(connection)
    try claim(connection, trail)
    let state = PostgresApplyState(connection, of: trail)
    try setUpOrigin(connection, try state.originPrefix() + trail.description, trail)
    try OwnSchema.check("cairn", connection)
    try connection.makingOnce {
      try connection.transaction {
        try state.lock()
        try state.isInstalled() ? state.upgrade() : state.install()
      }
    }
    return connection
  }

  /// Connects to a target, and checks its encoding, the role's rights, and that the server is a primary. Changes
  /// nothing.
  static func prove(_ uri: String) throws -> PostgresConnection {
    let connection = try PostgresConnection(uri, application: "cairn")
    try check(connection)
    try connection.makingOnce {
      try connection.execute("BEGIN")
      defer { connection.rollback() }
      try adopt(connection)
      let state = PostgresApplyState(connection)
      try OwnSchema.check("cairn", connection)
      try state.lock()
      if try !state.isInstalled() { try state.install() }
    }
    return connection
  }

  private static func check(_ connection: PostgresConnection) throws {
    let encoding = try connection.first("SHOW server_encoding") ?? ""
    guard encoding == "UTF8" else {
      throw CairnError(
        .serverSetting, "\(connection.place) has the encoding \(encoding), which cannot hold every text",
        hint: "replicate into a database that was made with TEMPLATE template0 ENCODING 'UTF8'")
    }
    guard try connection.first("SELECT pg_is_in_recovery()") == "f" else {
      throw CairnError(
        .databaseReadOnly, "\(connection.place) is a standby and cannot be written",
        hint: "connect to the primary")
    }
  }

  /// Sets the session up for apply: ordinary triggers and foreign key checks are off, commits are durable, and
  /// statements have no timeout.
  private static func adopt(_ connection: PostgresConnection) throws {
    // This is queried first: in a transaction, a refused statement fails all that follow.
    let role = try connection.first("SELECT current_user") ?? ""
    do { try connection.execute("SET session_replication_role = replica") } catch let error as PostgresError
      where error.isPrivilege
    {
      throw CairnError(
        .privilegeMissing,
        "\(connection.place): role \(role) may not set session_replication_role, which keeps the target's triggers from firing",
        hint: connection.serverVersion >= 150_000
          ? "as a superuser: GRANT SET ON PARAMETER session_replication_role TO \(role.quotedName)"
          : "before PostgreSQL 15 only a superuser may: use such a role")
    }
    try connection.executeScript(
      """
      SET synchronous_commit = on; SET jit = off; SET enable_seqscan = off;
      SET enable_hashjoin = off; SET enable_mergejoin = off;
      SET check_function_bodies = off; SET client_min_messages = warning
      """)
  }

  /// Waits at most 5 s until no earlier session of this role applies the trail; then throws `database-busy`.
  ///
  /// The server session of a killed `cairn` may still commit what it received.
  private static func claim(_ connection: PostgresConnection, _ trail: TrailName) throws {
    let limit = Clock.monotonicMilliseconds + patienceMilliseconds
    try connection.query(
      "SELECT set_config('application_name', \(applicationText), false)", ["cairn apply \(trail)"])
    while let other = try connection.query(earlierText).first {
      guard Clock.monotonicMilliseconds < limit else {
        throw busy(connection, trail, "process \(other[0] ?? "?") of role \(other[1] ?? "?"), since \(other[2] ?? "?")")
      }
      Clock.sleep(milliseconds: 50)
    }
  }

  /// The SQL expression for the `application_name` of the session that applies trail `$1`. Long names are hashed.
  static let applicationText = "CASE WHEN octet_length($1) < 64 THEN $1 ELSE 'cairn apply ' || md5($1) END"

  /// The query for an earlier session of this role for the same trail. An advisory lock is not used, as any role could
  /// take it.
  private static let earlierText = """
    SELECT other.pid, other.usename, date_trunc('second', other.backend_start)
    FROM pg_stat_activity AS other, pg_stat_activity AS mine WHERE mine.pid = pg_backend_pid()
      AND other.datid = mine.datid AND other.usesysid = mine.usesysid AND other.application_name = mine.application_name
      AND (other.backend_start, other.pid) < (mine.backend_start, mine.pid)
    ORDER BY other.backend_start LIMIT 1
    """

  private static func busy(_ connection: PostgresConnection, _ trail: TrailName, _ how: String) -> CairnError {
    CairnError(
      .databaseBusy, "another session applies trail \(trail) to \(connection.place): \(how)",
      hint: "run only one apply of this trail; a session that lost its client ends by itself after a while",
      remedy: .retry)
  }

  /// Sets up a replication origin for the session, so that the write-ahead log marks apply's rows as replicated. Does
  /// nothing if the role may not use origins.
  private static func setUpOrigin(_ connection: PostgresConnection, _ origin: String, _ trail: TrailName) throws {
    let limit = Clock.monotonicMilliseconds + patienceMilliseconds
    var isTidied = false
    while true {
      do {
        if try connection.first("SELECT 1 FROM pg_replication_origin WHERE roname = $1", [origin]) == nil {
          try connection.run("SELECT pg_replication_origin_create($1)", [origin])
        }
        try connection.run("SELECT pg_replication_origin_session_setup($1)", [origin])
        return
      } catch let error as PostgresError where error.isPrivilege {
        return
      } catch let error as PostgresError where error.sqlState == "55006" {
        // The session of a killed cairn ends a moment after it.
        guard Clock.monotonicMilliseconds < limit else { throw busy(connection, trail, error.message) }
        Clock.sleep(milliseconds: 50)
      } catch let error as PostgresError where error.sqlState == "53400" || error.sqlState == "55000" {
        guard !isTidied else {
          throw CairnError(
            .serverSetting, "\(connection.place) has no room for a replication origin: \(error.message)",
            hint:
              "raise max_replication_slots (PostgreSQL 18: max_active_replication_origins) and restart the server")
        }
        isTidied = true
        try dropOrphans(connection)
      }
    }
  }

  /// Drops Cairn's replication origins of databases that no longer exist, because the server limits the number of
  /// origins.
  private static func dropOrphans(_ connection: PostgresConnection) throws {
    let rows = try connection.query(
      """
      SELECT roname FROM pg_replication_origin WHERE roname ~ '^cairn_[0-9]+_'
        AND split_part(roname, '_', 2) NOT IN (SELECT oid::text FROM pg_database)
      """)
    for row in rows { _ = try? connection.run("SELECT pg_replication_origin_drop($1)", [row.first ?? nil]) }
  }
}
