import Changes
import PostgresKit

/// Triggers that refuse writes of applications to a table of a PostgreSQL target.
///
/// The triggers do not fire in apply's session (`session_replication_role` is `replica`). A table has these triggers
/// while an apply to the table has `local_writes = "refuse"`.
struct PostgresGuards {
  let connection: PostgresConnection
  init(_ connection: PostgresConnection) { self.connection = connection }

  /// The longest wait for a table's lock, in ms. Meanwhile, other sessions that need the table wait for apply.
  private static let lockMilliseconds = 2000

  /// Creates and drops triggers, so that exactly the trail's tables for which `isGuarded` returns true refuse writes of
  /// applications. Uses its own transaction.
  ///
  /// - Parameter isGuarded: Returns whether a table, by schema and name, must refuse writes of applications.
  /// - Throws: A lock timeout; the call must then be repeated.
  func reconcile(_ state: PostgresApplyState, isGuarded: (String, String) -> Bool) throws {
    try connection.transaction {
      try state.lock()
      try connection.execute("SET LOCAL lock_timeout = \(Self.lockMilliseconds)")
      for (source, table) in try state.tables() where table.isGuarded != isGuarded(table.schema, table.name) {
        var table = table
        table.isGuarded.toggle()
        try state.save(source.text, table)
      }
      try reconcile()
    }
  }

  /// Creates and drops triggers, so that exactly the tables with `guarded` in `cairn.table_state` refuse writes of
  /// applications. Runs in the caller's transaction.
  func reconcile() throws {
    let wanted = try tables(
      """
      SELECT DISTINCT n.nspname, c.relname FROM cairn.table_state t JOIN pg_namespace n ON n.nspname = t.schema_name
      JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = t.table_name AND c.relkind IN ('r', 'p') WHERE t.guarded
      """)
    let there = """
      SELECT n.nspname, c.relname FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid
      JOIN pg_namespace n ON n.oid = c.relnamespace
      WHERE t.tgfoid = to_regproc('cairn.refuse') AND t.tgparentid = 0 GROUP BY 1, 2
      """
    for table in try tables(there).subtracting(wanted).sorted() { try drop(table.text) }
    // If one of the two triggers has been dropped, both are created again.
    let open = try wanted.subtracting(tables(there + " HAVING count(*) = 2"))
    if !open.isEmpty { try makeFunction() }
    for table in open.sorted() { try make(table.text) }
  }

  private func tables(_ sql: String) throws -> Set<NameKey> {
    Set(try connection.query(sql).map { NameKey("\(($0[0] ?? "").quotedName).\(($0[1] ?? "").quotedName)") })
  }

  private func makeFunction() throws {
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

  private func drop(_ table: String) throws {
    try connection.execute("DROP TRIGGER IF EXISTS cairn_refuse ON \(table)")
    try connection.execute("DROP TRIGGER IF EXISTS cairn_refuse_truncate ON \(table)")
  }

  private func make(_ table: String) throws {
    do {
      try drop(table)
      try connection.execute(
        """
        CREATE TRIGGER cairn_refuse BEFORE INSERT OR UPDATE OR DELETE ON \(table)
          FOR EACH ROW EXECUTE FUNCTION cairn.refuse()
        """)
      try connection.execute(
        """
        CREATE TRIGGER cairn_refuse_truncate BEFORE TRUNCATE ON \(table)
          FOR EACH STATEMENT EXECUTE FUNCTION cairn.refuse()
        """)
    } catch let error as PostgresError where error.isPrivilege {
      let role = try? connection.first("SELECT current_user")
      throw CairnError(
        .privilegeMissing,
        "\(connection.place): writes of other programs to table \(table) cannot be refused: \(error.message)",
        hint:
          "as its owner: GRANT TRIGGER ON \(table) TO \((role ?? "").quotedName); or remove local_writes = \"refuse\"",
        context: ["table": table])
    }
  }
}
