import Changes
import Mapping
import PostgresKit

/// Cairn's own tables in a PostgreSQL target, in the schema `cairn`. They are written in the transaction that applies
/// the changes.
///
/// `cairn.pending` has the indexes and foreign keys that apply creates when their tables have their rows.
///
/// ```
/// cairn.table_state(trail, source, schema_name, table_name, created, loaded, refreshing, emptied, existing,
///   claim, guarded)
/// cairn.pending(schema_name, table_name, kind, name, statement, needs_schema, needs_table, definition)
/// cairn.tables_found(trail, relations)
/// ```
package struct PostgresApplyState {
  struct Table {
    /// The schema (namespace) of the table at the target.
    var schema: String
    var name: String
    /// Whether Cairn created the table, so that its columns follow the source.
    var isCreated = false
    var isLoaded = false
    /// The method of the table's refresh that is in progress; nil: none.
    var refreshing: Refresh.Method?
    /// Whether a refresh of the table was requested and has not begun at the target. Until then, apply skips changes
    /// that the refresh will contain.
    var isAwaited = false
    /// Whether the table was empty when its present refresh began, so that no chunk replaces rows.
    var isEmptied = false
    var existing: ExistingRows = .overwrite
    var isGuarded = false
    /// The part of the table's rows that belongs to the trail; nil: not known.
    var claim: TableClaim?
  }

  /// An index or foreign key that apply creates when its tables have their rows.
  struct Pending {
    enum Kind: String {
      case index
      case foreignKey = "foreign key"
    }
    var schema: String
    var table: String
    var kind: Kind
    var name: String
    /// The parts of a foreign key; nil for an index.
    var key: PendingForeignKey?
    /// The schema (namespace) of the table that a foreign key references.
    var needsSchema = ""
    var needsTable = ""
  }

  let connection: PostgresConnection
  /// The trail whose state is read and written; nil if only functions for all trails are called.
  let trail: TrailName?
  package init(_ connection: PostgresConnection, of trail: TrailName? = nil) {
    (self.connection, self.trail) = (connection, trail)
  }

  /// Locks apply's state until the caller's transaction ends, because several apply workers may write to a database at
  /// once.
  func lock() throws {
    guard try isInstalled() else { return }
    try connection.execute("LOCK TABLE cairn.checkpoint IN SHARE UPDATE EXCLUSIVE MODE")
  }

  var checkpoints: Checkpoints { Checkpoints(connection) }

  package func isInstalled() throws -> Bool { try checkpoints.isInstalled() }

  func install() throws {
    if try connection.first("SELECT 1 FROM pg_namespace WHERE nspname = 'cairn'") == nil {
      let row = try connection.query("SELECT current_database(), current_user").first ?? []
      do { try connection.execute("CREATE SCHEMA cairn") } catch let error as PostgresError where error.isPrivilege {
        let (database, role) = ((row.first ?? nil) ?? "", (row.last ?? nil) ?? "")
        throw CairnError(
          .privilegeMissing,
          "\(connection.place): role \(role) may not create the schema cairn, which keeps the checkpoint",
          hint: "as a superuser: GRANT CREATE ON DATABASE \(database.quotedName) TO \(role.quotedName)")
      }
    }
    try OwnSchema.check("cairn", connection)
    try MessageKey.install(.own, connection)
    try connection.executeScript(
      """
      CREATE TABLE IF NOT EXISTS cairn.checkpoint(trail text PRIMARY KEY, trail_id bytea NOT NULL, segment bigint NOT NULL,
        content_offset bigint NOT NULL, chain bytea NOT NULL, number bigint NOT NULL, applied_at timestamptz NOT NULL,
        version integer NOT NULL);
      CREATE TABLE IF NOT EXISTS cairn.table_state(trail text NOT NULL, source text NOT NULL, schema_name text NOT NULL,
        table_name text NOT NULL, created boolean NOT NULL, loaded boolean NOT NULL, refreshing integer NOT NULL,
        emptied boolean NOT NULL, existing text NOT NULL, claim text, guarded boolean NOT NULL DEFAULT false,
        PRIMARY KEY (trail, source),
        UNIQUE (trail, schema_name, table_name));
      CREATE TABLE IF NOT EXISTS cairn.pending(schema_name text, table_name text, kind text, name text,
        statement text NOT NULL, needs_schema text NOT NULL, needs_table text NOT NULL, definition text,
        PRIMARY KEY (schema_name, table_name, kind, name));
      """)
    try connection.execute(Self.waitingTable)
    try noteTablesFound()
  }

  /// Adds to the schema `cairn` the tables and columns that an older version of Cairn did not create.
  func upgrade() throws {
    try OwnSchema.check("cairn", connection)
    try MessageKey.install(.own, connection, hadMessages: true)
    if try !hasWaiting() { try connection.execute(Self.waitingTable) }
    try noteTablesFound()
    let hasDefinitions = try connection.first(
      """
      SELECT 1 FROM pg_attribute
      WHERE attrelid = to_regclass('cairn.pending') AND attname = 'definition' AND NOT attisdropped
      """)
    if hasDefinitions == nil { try connection.execute("ALTER TABLE cairn.pending ADD COLUMN definition text") }
    let columns = try connection.query(
      "SELECT attname FROM pg_attribute WHERE attrelid = 'cairn.table_state'::regclass AND NOT attisdropped"
    ).compactMap { $0[0] }
    if !columns.contains("claim") { try connection.execute("ALTER TABLE cairn.table_state ADD COLUMN claim text") }
    if !columns.contains("guarded") {
      try connection.execute("ALTER TABLE cairn.table_state ADD COLUMN guarded boolean NOT NULL DEFAULT false")
    }
    if columns.contains("trail") { return }
    // The state of a table was shared by all trails; without a trail yet, it goes to the first one.
    try connection.executeScript(
      """
      ALTER TABLE cairn.table_state DROP CONSTRAINT table_state_pkey,
        DROP CONSTRAINT table_state_schema_name_table_name_key, ADD COLUMN trail text NOT NULL DEFAULT '';
      INSERT INTO cairn.table_state(trail, source, schema_name, table_name, created, loaded, refreshing, emptied, existing)
        SELECT c.trail, source, schema_name, table_name, created, loaded, refreshing, emptied, existing
        FROM cairn.table_state CROSS JOIN cairn.checkpoint AS c;
      DELETE FROM cairn.table_state WHERE trail = '' AND EXISTS (SELECT 1 FROM cairn.checkpoint);
      ALTER TABLE cairn.table_state ALTER COLUMN trail DROP DEFAULT, ADD PRIMARY KEY (trail, source),
        ADD UNIQUE (trail, schema_name, table_name);
      """)
  }

  package func forgetCheckpoint(of trail: TrailName) throws {
    guard try isInstalled() else { return }
    try checkpoints.forget(trail)
    if try hasWaiting() { try connection.run("DELETE FROM cairn.waiting WHERE trail = $1", [trail.description]) }
    try QuarantineLog(connection).forget(trail)
  }

  /// Makes apply skip the changes of every table of the trail until a refresh of the table begins. Empties the trail's
  /// quarantine log.
  package func expectRefreshOfAll() throws {
    guard try isInstalled() else { return }
    // The copies include the effect of transactions in quarantine.
    try QuarantineLog(connection).forget(trail)
    try connection.run(
      """
      UPDATE cairn.table_state SET refreshing = \(Refresh.awaited), emptied = false, existing = 'overwrite'
      WHERE $1::text IS NULL OR trail IN ($1, '')
      """, [trail?.description])
  }

  /// Makes apply skip the changes of single tables of the trail until the next refresh of each begins.
  ///
  /// - Parameter isMeant: Returns whether a table is meant, from its names at the source and at the target.
  package func expectRefresh(where isMeant: ([String]) -> Bool) throws {
    for (key, _) in try namedTables().filter({ isMeant($0.names) }) {
      try connection.run(
        """
        UPDATE cairn.table_state SET refreshing = \(Refresh.awaited), emptied = false, existing = 'overwrite'
        WHERE source = $1 AND trail IN ($2, '')
        """, [key, owner])
    }
  }

  /// Returns the tables of the trail that are not suspended, with their names at the source and at the target.
  package func namedTables() throws -> [(key: String, names: [String])] {
    guard let trail, try isInstalled() else { return [] }
    try upgrade()
    let suspended = Set(try waiting(of: trail).map(\.source.nameKey))
    return try tables().filter { !suspended.contains($0.key) }.map { key, table in
      (key.text, [key.text, "\(table.schema).\(table.name)"])
    }
  }

  /// Returns whether apply's state in the target has any table of this trail.
  package func knowsTables() throws -> Bool {
    guard try connection.first("SELECT to_regclass('cairn.table_state') IS NOT NULL") == "t" else { return false }
    // An older version's state has no trail.
    return try connection.first(
      "SELECT 1 FROM cairn.table_state AS t WHERE coalesce(to_jsonb(t) ->> 'trail', $1) = $1 LIMIT 1", [owner]) != nil
  }

  /// Returns the names of the trail's tables in apply's state.
  package func tableNames() throws -> [String] {
    guard try isInstalled() else { return [] }
    try upgrade()
    return try tables().keys.map(\.text)
  }

  /// Returns the schemas and names of the target tables of the trail, as in apply's state.
  package func targetNames() throws -> [(schema: String, name: String)] {
    guard try isInstalled() else { return [] }
    try upgrade()
    return try tables().values.map { ($0.schema, $0.name) }
  }

  private var owner: String { trail?.description ?? "" }

  // MARK: Tables

  func tables() throws -> [NameKey: Table] {
    var tables: [NameKey: Table] = [:]
    let rows = try connection.query(
      """
      SELECT source, schema_name, table_name, created, loaded, refreshing, emptied, existing, claim, guarded
      FROM cairn.table_state
      WHERE trail IN ($1, '') ORDER BY trail
      """, [owner])
    for (claim, row) in rows.map({ ($0[8], $0.map { $0 ?? "" }) }) {
      tables[row[0]] = Table(
        schema: row[1], name: row[2], isCreated: row[3] == "t", isLoaded: row[4] == "t",
        refreshing: Refresh.method(UInt8(row[5]) ?? 0), isAwaited: UInt8(row[5]) == Refresh.awaited,
        isEmptied: row[6] == "t", existing: ExistingRows(rawValue: row[7]) ?? .overwrite,
        isGuarded: row[9] == "t", claim: claim.map(TableClaim.init(text:)))
    }
    return tables
  }

  func save(_ source: String, _ table: Table) throws {
    try connection.run(
      """
      INSERT INTO cairn.table_state(source, schema_name, table_name, created, loaded, refreshing, emptied, existing, trail,
        claim, guarded)
      VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11) ON CONFLICT (trail, source) DO UPDATE SET
        schema_name = excluded.schema_name, table_name = excluded.table_name, created = excluded.created,
        loaded = excluded.loaded, refreshing = excluded.refreshing, emptied = excluded.emptied,
        existing = excluded.existing, claim = excluded.claim, guarded = excluded.guarded
      """,
      [
        source, table.schema, table.name, table.isCreated ? "t" : "f", table.isLoaded ? "t" : "f",
        String(Refresh.code(table.refreshing, isAwaited: table.isAwaited)), table.isEmptied ? "t" : "f",
        table.existing.rawValue, owner, table.claim?.text, table.isGuarded ? "t" : "f",
      ])
  }

  /// Returns the trails, except this one, that are applied to a table, with the rows that belong to each.
  package func feeders(of schema: String, _ name: String) throws -> [TableClaim.Feeder] {
    guard try connection.first("SELECT to_regclass('cairn.table_state') IS NOT NULL") == "t" else { return [] }
    // An older version's state has no trail, or does not say which rows belong to the trail.
    return try connection.query(
      """
      SELECT to_jsonb(t) ->> 'trail', to_jsonb(t) ->> 'claim' FROM cairn.table_state AS t
      WHERE schema_name = $1 AND table_name = $2 AND to_jsonb(t) ->> 'trail' NOT IN ($3, '') ORDER BY 1
      """, [schema, name, owner]
    ).map { ($0[0] ?? "", $0[1].map(TableClaim.init(text:))) }
  }

  func isCreatedElsewhere(_ schema: String, _ name: String) throws -> Bool {
    try connection.first(
      """
      SELECT 1 FROM cairn.table_state WHERE schema_name = $1 AND table_name = $2 AND created AND trail NOT IN ($3, '')
      LIMIT 1
      """, [schema, name, owner]) != nil
  }

  func forget(_ source: String) throws {
    try connection.run("DELETE FROM cairn.table_state WHERE source = $1 AND trail IN ($2, '')", [source, owner])
  }

  // MARK: Indexes and foreign keys that wait for rows

  func add(_ pending: Pending) throws {
    try connection.run(
      """
      INSERT INTO cairn.pending(schema_name, table_name, kind, name, statement, needs_schema, needs_table, definition)
      VALUES ($1, $2, $3, $4, '', $5, $6, $7) ON CONFLICT (schema_name, table_name, kind, name)
      DO UPDATE SET statement = '', needs_schema = excluded.needs_schema, needs_table = excluded.needs_table,
        definition = excluded.definition
      """,
      [
        pending.schema, pending.table, pending.kind.rawValue, pending.name, pending.needsSchema, pending.needsTable,
        pending.key?.json,
      ])
  }

  func pending(_ kind: Pending.Kind) throws -> [Pending] {
    let rows = try connection.query(
      """
      SELECT schema_name, table_name, name, needs_schema, needs_table, definition FROM cairn.pending WHERE kind = $1
      ORDER BY schema_name, table_name, name
      """, [kind.rawValue])
    return rows.map { row in
      Pending(
        schema: row[0] ?? "", table: row[1] ?? "", kind: kind, name: row[2] ?? "",
        key: row[5].flatMap(PendingForeignKey.init(json:)), needsSchema: row[3] ?? "", needsTable: row[4] ?? "")
    }
  }

  func remove(_ pending: Pending) throws {
    try connection.run(
      "DELETE FROM cairn.pending WHERE schema_name = $1 AND table_name = $2 AND kind = $3 AND name = $4",
      [pending.schema, pending.table, pending.kind.rawValue, pending.name])
  }

  func removePending(of table: Table) throws {
    try connection.run(
      "DELETE FROM cairn.pending WHERE schema_name = $1 AND table_name = $2", [table.schema, table.name])
  }

  // MARK: Detach

  /// Returns the prefix of the names of this database's replication origins, such as `cairn_16384_`.
  func originPrefix() throws -> String {
    "cairn_" + (try connection.first("SELECT oid FROM pg_database WHERE datname = current_database()") ?? "0") + "_"
  }

  /// Removes the schema `cairn` and the replication origins from this database. Returns false if the database had
  /// neither.
  package func detach() throws -> Bool {
    let prefix = try originPrefix()
    let origins = try connection.query(
      "SELECT roname FROM pg_replication_origin WHERE starts_with(roname, $1)", [prefix])
    for row in origins { try connection.run("SELECT pg_replication_origin_drop($1)", [row.first ?? nil]) }
    let isThere = try connection.first("SELECT 1 FROM pg_namespace WHERE nspname = 'cairn'") != nil
    if isThere { try connection.execute("DROP SCHEMA cairn CASCADE") }
    return isThere || !origins.isEmpty
  }
}

extension TableSchema {
  /// The name under which apply's state lists a table of the source, such as `public.orders`.
  var sourceKey: String {
    switch engine {
    case .sqlite: fullName.asciiLowercased
    case .postgres: "\(namespace).\(name)"
    }
  }
}
