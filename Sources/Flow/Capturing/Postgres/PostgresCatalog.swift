import Changes
import PostgresKit

extension PostgresSource {
  var catalog: PostgresCatalog { PostgresCatalog(connection: connection, publication: name) }
}

/// Queries for tables in the catalog of a captured database.
struct PostgresCatalog {
  let connection: PostgresConnection
  let publication: String

  /// Returns the present definition of a table; nil if the table does not exist.
  ///
  /// - Throws: A ``PostgresError`` with `isLockTimeout` if another session keeps the table locked.
  func table(_ relation: UInt32) throws -> PostgresTable? {
    try connection.catalog(patience: PostgresCopier.patience) { try connection.table(relation) }
  }

  /// Returns the given tables without those that capture cannot follow.
  ///
  /// - Throws: `table-refused` for a table whose capture would harm the application or lose rows.
  func capturable(_ meant: [PostgresTable]) throws -> [PostgresTable] {
    let harmed = meant.filter { $0.refusal?.isHarmless == false }
    guard let first = harmed.first, let reason = first.refusal?.reason else {
      return meant.filter { $0.refusal == nil }
    }
    let others = harmed.dropFirst().map { "; table \($0.displayName): \($0.refusal?.reason ?? "")" }.joined()
    let script = harmed.compactMap(\.refusal?.mend).filter { !$0.isEmpty }.joined(separator: "; ")
    // No pattern excludes only one of two names that differ in the case of their letters.
    let leaveOut =
      harmed.contains { $0.refusal?.isOfName == true }
      ? "" : "leave \(harmed.count == 1 ? "the table" : "these tables") out: \(harmed.map(\.displayName).leftOut)"
    throw CairnError(
      .tableRefused,
      "\(connection.place): table \(first.displayName) cannot be captured: \(reason)\(others)",
      hint: [script.isEmpty ? "" : "run: \(script)", leaveOut].filter { !$0.isEmpty }.joined(separator: "; or "),
      context: ["table": first.displayName])
  }

  /// Returns a digest of everything in the catalog that capture depends on, without a lock on any table.
  func fingerprint() throws -> String {
    try connection.first(
      """
      WITH t AS (SELECT c.oid, c.relname, n.nspname, c.relreplident, c.relpersistence, c.relkind, c.relrowsecurity
        FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace WHERE c.relkind IN ('r', 'p', 'f')
          AND n.nspname NOT IN ('pg_catalog', 'information_schema', 'cairn', 'cairn_ddl') AND n.nspname NOT LIKE 'pg\\_%')
      SELECT md5(string_agg(x, ',' ORDER BY x)) FROM (
        SELECT t::text FROM t
        UNION ALL SELECT concat_ws(' ', a.attrelid, a.attnum, a.attname, a.atttypid, a.atttypmod, a.attnotnull,
          a.attidentity, a.attgenerated, a.atthasdef) FROM pg_attribute AS a JOIN t ON t.oid = a.attrelid
          WHERE a.attnum > 0 AND NOT a.attisdropped
        UNION ALL SELECT concat_ws(' ', 'm', a.attrelid, a.attnum, a.attname, a.atttypid, a.atttypmod)
          FROM pg_attribute AS a JOIN pg_class AS c ON c.oid = a.attrelid
          WHERE c.relkind = 'c' AND a.attnum > 0 AND NOT a.attisdropped
        UNION ALL SELECT concat_ws(' ', 'p', i.inhparent, i.inhrelid, to_jsonb(i) ->> 'inhdetachpending',
          pg_relation_filenode(i.inhrelid)) FROM pg_inherits AS i JOIN pg_class AS c ON c.oid = i.inhrelid
          WHERE c.relispartition AND c.relkind IN ('r', 'p', 'f')
        UNION ALL SELECT concat_ws(' ', 'r', r.prrelid, to_jsonb(r) ->> 'prqual', to_jsonb(r) ->> 'prattrs')
          FROM pg_publication_rel AS r JOIN pg_publication AS p ON p.oid = r.prpubid WHERE p.pubname = $1
        UNION ALL SELECT concat_ws(' ', 'o', pubinsert, pubupdate, pubdelete, pubtruncate, pubviaroot)
          FROM pg_publication WHERE pubname = $1
        UNION ALL SELECT 'i' || i.indexrelid || i.indisvalid FROM pg_index AS i JOIN t ON t.oid = i.indrelid
        UNION ALL SELECT 'l' || l.oid || l.enumlabel FROM pg_enum AS l
        UNION ALL SELECT 'e' || e.evtname || e.evtenabled::text FROM pg_event_trigger AS e WHERE e.evtname ~ '^cairn_'
        UNION ALL SELECT 'd' || d.oid || d.xmin FROM pg_attrdef AS d JOIN t ON t.oid = d.adrelid
        UNION ALL SELECT 'c' || c.oid || c.conname FROM pg_constraint AS c JOIN t ON t.oid = c.conrelid) AS all_of_it(x)
      """, [publication]) ?? ""
  }

  /// Returns the shape of a table as a relation message of the stream describes it.
  func shape(of relation: PgOutput.Relation) throws -> PostgresRegistry.Table {
    var schema = TableSchema(
      epoch: 0, engine: .postgres, namespace: relation.namespace, name: relation.name, columns: [])
    var ordinal = 0
    for column in relation.columns {
      let type = try connection.first(
        "SELECT format_type($1::oid, $2::int)", [String(column.type), String(column.modifier)])
      let isKey = column.isKey && relation.identity != UInt8(ascii: "f")
      if isKey { ordinal += 1 }
      schema.columns.append(
        .init(name: column.name, declaredType: type ?? "text", isNotNull: isKey, keyOrdinal: isKey ? ordinal : 0))
    }
    if ordinal == 0 { schema.flags.insert(.wholeRow) }
    let lines = schema.columns.map { "\($0.name.quotedName) \($0.declaredType)" }
    let key = schema.key.map { schema.columns[$0].name.quotedName }.joined(separator: ", ")
    let parts = lines + (key.isEmpty ? [] : ["PRIMARY KEY (\(key))"])
    schema.createText = "CREATE TABLE IF NOT EXISTS \(schema.qualifiedName) (\(parts.joined(separator: ", ")));"
    return PostgresRegistry.Table(
      relation: relation.id, epoch: 0, schema: schema,
      types: relation.columns.map { .init(oid: $0.type, modifier: $0.modifier) })
  }

  /// Returns, for each of these tables, the session that locks the table or waits to lock it. A lock on a partition
  /// or an index of the table counts too.
  func lockHolders(of relations: some Sequence<UInt32>) throws -> [UInt32: LockHolder] {
    let rows = try connection.query(
      """
      WITH RECURSIVE tree(root, oid) AS (
        SELECT o, o FROM unnest($1::oid[]) AS o
        UNION SELECT tree.root, i.inhrelid FROM tree JOIN pg_inherits AS i ON i.inhparent = tree.oid
      ), part(root, oid) AS (
        SELECT root, oid FROM tree UNION SELECT tree.root, x.indexrelid FROM tree JOIN pg_index AS x ON x.indrelid = tree.oid)
      SELECT DISTINCT ON (part.root) part.root, l.pid, coalesce(a.usename, ''), coalesce(a.application_name, '')
      FROM part JOIN pg_locks AS l ON l.relation = part.oid AND l.mode = ANY ($2)
        AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
      LEFT JOIN pg_stat_activity AS a ON a.pid = l.pid
      WHERE l.pid IS DISTINCT FROM pg_backend_pid() ORDER BY part.root, l.granted DESC, l.mode, l.pid
      """,
      [
        "{\(relations.map(String.init).joined(separator: ","))}",
        "{AccessExclusiveLock,ExclusiveLock,ShareRowExclusiveLock,ShareLock,ShareUpdateExclusiveLock}",
      ])
    return Dictionary(
      rows.compactMap { row in
        row[0].flatMap { UInt32($0) }.map {
          ($0, LockHolder(process: row[1], role: row[2] ?? "", application: row[3] ?? ""))
        }
      }, uniquingKeysWith: { first, _ in first })
  }

  struct LockHolder: CustomStringConvertible {
    let process: String?
    let role, application: String

    var description: String {
      guard let process else { return "a prepared transaction" }
      if role.isEmpty { return "process \(process) of the server, such as autovacuum," }
      return "process \(process) of \(role) (\(application))"
    }

    var hint: String {
      process.map { "to end that session run: SELECT pg_terminate_backend(\($0))" }
        ?? "see pg_prepared_xacts, and end it: COMMIT PREPARED or ROLLBACK PREPARED"
    }
  }

  /// Returns the present values of the named sequences (`SCHEMA.NAME`). A sequence that was never used is left out.
  ///
  /// - Returns: `isWhole` is false if another session is altering one of the sequences.
  func sequences(_ wanted: Set<NameKey>) throws -> (found: [SequenceState], isWhole: Bool) {
    let listed = try connection.query(
      """
      SELECT c.oid, n.nspname, c.relname, s.seqincrement, EXISTS (SELECT FROM pg_locks AS l
        WHERE l.relation = c.oid AND l.granted AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
          AND l.mode IN ('ShareLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock'))
      FROM pg_sequence AS s JOIN pg_class AS c ON c.oid = s.seqrelid JOIN pg_namespace AS n ON n.oid = c.relnamespace
      WHERE has_sequence_privilege(s.seqrelid, 'SELECT, USAGE')
      """
    ).filter { wanted.contains("\($0[1] ?? "").\($0[2] ?? "")".nameKey) }
    let free = listed.filter { $0[4] == "f" }
    let values = try connection.transaction("BEGIN READ ONLY") {
      try connection.execute(PostgresCopier.patience)
      return try connection.query(
        "SELECT o.oid, pg_sequence_last_value(o.oid::regclass) FROM unnest($1::oid[]) AS o(oid)",
        ["{\(free.compactMap { $0[0] }.joined(separator: ","))}"])
    }
    let last = Dictionary(values.map { ($0[0] ?? "", Int64($0[1] ?? "")) }) { $1 }
    let found = free.compactMap { row -> SequenceState? in
      guard let namespace = row[1], let name = row[2], let last = last[row[0] ?? ""] ?? nil else { return nil }
      return SequenceState(namespace: namespace, name: name, last: last, increment: Int64(row[3] ?? "") ?? 1)
    }
    return (found, free.count == listed.count)
  }
}
