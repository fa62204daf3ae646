import Changes
import PostgresKit

/// Triggers that refuse writes of applications to a table of a PostgreSQL target.
///
/// The triggers do not fire in apply's session (`session_replication_role` is `replica`). A table has these triggers
/// while an apply to the table has `local_writes = "refuse"`. ``GuardUpkeep`` makes them while apply runs.
///
///     let guards = PostgresGuards(connection)
///     for table in try guards.tables(of: trail) { try guards.adjust(table) }
struct PostgresGuards {
  let connection: PostgresConnection
  init(_ connection: PostgresConnection) { self.connection = connection }

  /// One of the two triggers of a table, found by its type (`pg_trigger.tgtype`). The owner of the table may rename it.
  private struct Kind {
    let type, name, event, level: String
  }
  private static let kinds = [
    Kind(type: "31", name: "cairn_refuse", event: "INSERT OR UPDATE OR DELETE", level: "ROW"),
    Kind(type: "34", name: "cairn_refuse_truncate", event: "TRUNCATE", level: "STATEMENT"),
  ]

  /// Whether some trail's state says that table `n.nspname`, `c.relname` must have the triggers.
  private static let isWanted = """
    EXISTS (SELECT FROM cairn.table_state AS s WHERE s.guarded AND s.schema_name = n.nspname AND s.table_name = c.relname)
    """

  /// Returns the tables of a trail that lack a trigger, and all tables with triggers that no trail needs.
  func tables(of trail: TrailName?) throws -> [GuardSchedule.Table] {
    let rows = try connection.query(
      """
      SELECT n.nspname, c.relname, true FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
      WHERE c.relkind IN ('r', 'p') AND EXISTS (SELECT FROM cairn.table_state AS s WHERE s.guarded
          AND s.trail IN ($1, '') AND s.schema_name = n.nspname AND s.table_name = c.relname)
        AND (SELECT count(DISTINCT t.tgtype) FROM pg_trigger AS t
          WHERE t.tgrelid = c.oid AND t.tgfoid = to_regproc('cairn.refuse')) < 2
      UNION ALL
      SELECT DISTINCT n.nspname, c.relname, false FROM pg_trigger AS t JOIN pg_class AS c ON c.oid = t.tgrelid
        JOIN pg_namespace AS n ON n.oid = c.relnamespace
      WHERE t.tgfoid = to_regproc('cairn.refuse') AND t.tgparentid = 0 AND NOT \(Self.isWanted)
      """, [trail?.description])
    return rows.map { .init(schema: $0[0] ?? "", name: $0[1] ?? "", isWanted: $0[2] == "t") }
  }

  /// Creates the missing triggers of a table, or drops those that no trail needs. Runs in the caller's transaction.
  func adjust(_ table: GuardSchedule.Table) throws {
    // The schema is looked up in the catalog: `to_regclass` fails without the right USAGE.
    let rows = try connection.query(
      """
      SELECT \(Self.isWanted), t.tgtype, t.tgname, t.tgparentid = 0
      FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
        LEFT JOIN pg_trigger AS t ON t.tgrelid = c.oid AND t.tgfoid = to_regproc('cairn.refuse')
      WHERE n.nspname = $1 AND c.relname = $2
      """, [table.schema, table.name])
    guard rows.first?.first == "t" else {
      for row in rows where row[3] == "t" { try connection.execute(Self.drop(row[2] ?? "", on: table)) }
      return
    }
    for kind in Self.kinds where !rows.contains(where: { $0[1] == kind.type }) {
      try connection.execute(
        """
        CREATE TRIGGER \(kind.name) BEFORE \(kind.event) ON \(table.quotedName)
          FOR EACH \(kind.level) EXECUTE FUNCTION cairn.refuse()
        """)
    }
  }

  /// Drops the triggers that no trail needs. Runs in the caller's transaction.
  ///
  /// - Throws: `privilege-missing` if this role does not own one of their tables.
  func dropUnneeded() throws {
    // After a refused statement, the transaction answers no query.
    let role = try currentRole()
    for table in try tables(of: nil) where !table.isWanted {
      do { try adjust(table) } catch let error as PostgresError where error.isPrivilege {
        throw failure(of: table, error, role)
      }
    }
  }

  func makeFunction() throws {
    if try connection.first("SELECT to_regproc('cairn.refuse') IS NOT NULL") == "t" { return }
    try connection.execute(
      """
      CREATE FUNCTION cairn.refuse() RETURNS trigger LANGUAGE plpgsql AS $$
      BEGIN
        RAISE EXCEPTION 'table %.% is a replica: Cairn refuses writes of other programs (local_writes)',
          TG_TABLE_SCHEMA, TG_TABLE_NAME USING ERRCODE = 'insufficient_privilege';
      END $$
      """)
  }

  private static func drop(_ name: String, on table: GuardSchedule.Table) -> String {
    "DROP TRIGGER \(name.quotedName) ON \(table.quotedName)"
  }

  // MARK: Failed attempts

  func currentRole() throws -> String { try connection.first("SELECT current_user") ?? "" }

  /// Returns the error for a table whose triggers the server refuses to create or to drop.
  ///
  /// - Parameter role: The role of this session.
  func failure(of table: GuardSchedule.Table, _ error: PostgresError, _ role: String) -> CairnError {
    let name = table.quotedName
    guard table.isWanted else {
      let drops = Self.kinds.map { Self.drop($0.name, on: table) }.joined(separator: "; ")
      return CairnError(
        .privilegeMissing,
        "\(connection.place): role \(role) cannot drop the triggers that refuse writes of other programs to table \(name) (local_writes): \(error.message)",
        hint: "run at the target as the owner of the table: \(drops)", context: ["table": name])
    }
    let message =
      "\(connection.place): role \(role) cannot make the triggers that refuse writes of other programs to table \(name) (local_writes): \(error.message)"
    let again = "or set another local_writes for the table; apply tries again by itself"
    if error.isPrivilege {
      return CairnError(
        .privilegeMissing, message,
        hint:
          "run at the target as the owner of the table: GRANT TRIGGER ON \(name) TO \(role.quotedName); \(again)",
        context: ["table": name])
    }
    let cause =
      error.sqlState == "42710"
      ? "rename or drop the other trigger of that name at the target" : "remove the cause at the target"
    return CairnError(.tableRefused, message, hint: "\(cause), \(again)", context: ["table": name])
  }

  /// Returns the error for a table that another session keeps locked. The message names that session.
  func inUse(_ table: GuardSchedule.Table) throws -> CairnError {
    let found = try connection.query(
      """
      WITH RECURSIVE tree(oid) AS (
        SELECT c.oid FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
        WHERE n.nspname = $1 AND c.relname = $2
        UNION SELECT i.inhrelid FROM tree JOIN pg_inherits AS i ON i.inhparent = tree.oid)
      SELECT a.pid, a.usename, a.application_name FROM tree JOIN pg_locks AS l ON l.relation = tree.oid
        LEFT JOIN pg_stat_activity AS a ON a.pid = l.pid
      WHERE l.granted AND l.pid IS DISTINCT FROM pg_backend_pid()
        AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
        AND ($3 = 'f' OR l.mode NOT IN ('AccessShareLock', 'RowShareLock'))
      ORDER BY a.xact_start LIMIT 1
      """, [table.schema, table.name, table.isWanted ? "t" : "f"])
    let holder = found.first.map { row in
      if row[0] == nil { return "a prepared transaction (see pg_prepared_xacts)" }
      let texts = row.map { $0 ?? "?" }
      return "process \(texts[0]) of role \(texts[1]) (\(texts[2]))"
    }
    let what = table.isWanted ? "are not made" : "are not dropped"
    return CairnError(
      .databaseBusy,
      "\(connection.place): the triggers that refuse writes of other programs to table \(table.quotedName) (local_writes) \(what) yet: \(holder ?? "another session") uses the table",
      hint: "end that session if it should not have the table; apply tries again by itself", remedy: .retry,
      context: ["table": table.quotedName])
  }
}
