import Changes
import PostgresKit

extension PostgresSource {
  var catalog: PostgresCatalog { PostgresCatalog(connection: connection, publication: name) }
}

/// What the catalog of a captured database says about its tables.
struct PostgresCatalog {
  let connection: PostgresConnection
  /// The name of the publication, and of the slot.
  let publication: String

  /// Returns the tables that the patterns select.
  func tables(_ patterns: TablePatterns) throws -> [PostgresTable] {
    try connection.catalog { try connection.userTables(patterns.includes) }
  }

  /// Returns a table as it now is; nil if it does not exist.
  func table(_ relation: UInt32) throws -> PostgresTable? {
    try connection.catalog { try connection.table(relation) }
  }

  /// Returns the tables to capture. Throws `table-refused` for a table whose capture would harm the application or lose
  /// rows. Other tables that cannot be captured are left out.
  ///
  /// - Parameter known: The tables that are captured already.
  func capturableTables(_ patterns: TablePatterns, known: KnownTables) throws -> [PostgresTable] {
    let meant = try tables(patterns)
    // A new table that takes the name of a captured one is left out; the captured one stays.
    let taken = Set(meant.filter { known[$0.oid] != nil }.map(\.schema.fullName.nameKey))
    let harmed = meant.filter { table in
      guard let refusal = table.refusal, !refusal.isHarmless else { return false }
      return !refusal.isOfName || !taken.contains(table.schema.fullName.nameKey)
    }
    for table in harmed where known[table.oid] != nil {
      if let refusal = table.refusal { throw refuse(table, refusal) }
    }
    guard let first = harmed.first, let reason = first.refusal?.reason else {
      return meant.filter { $0.refusal == nil || $0.refusal?.isOfName == true && known[$0.oid] != nil }
    }
    let others = harmed.dropFirst().map { "; table \($0.displayName): \($0.refusal?.reason ?? "")" }.joined()
    let script = harmed.compactMap(\.refusal?.mend).filter { !$0.isEmpty }.joined(separator: "; ")
    throw CairnError(
      .tableRefused,
      "\(connection.place): table \(first.displayName) cannot be captured: \(reason)\(others)",
      hint:
        "\(script.isEmpty ? "" : "run: \(script); or ")leave \(harmed.count == 1 ? "the table" : "these tables") out: --tables \(("*" + harmed.map { ",!\($0.displayName)" }.joined()).shellWord)",
      context: ["table": first.displayName])
  }

  /// Unpublishes a table that lost its replica identity, and returns the error. As long as the table is published, the
  /// server refuses the application's own updates.
  func refuse(_ table: PostgresTable, _ refusal: PostgresTable.Refusal) -> CairnError {
    _ = try? connection.execute("ALTER PUBLICATION \(publication.quotedName) DROP TABLE \(table.schema.qualifiedName)")
    return CairnError(
      .tableRefused,
      "\(connection.place): table \(table.displayName) can no longer be captured: \(refusal.reason)",
      hint: "run: \(refusal.mend); then run again with --existing overwrite, as its changes since then are not known",
      context: ["table": table.displayName])
  }

  /// Returns a digest of everything in the catalog that capture depends on. It takes no lock on a table.
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

  /// Returns the shape that a relation message alone gives. The catalog has changed since then.
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

  /// Returns the session that holds, or waits for, the lock that keeps readers off a table; nil if there is none.
  func lockHolder(of relation: UInt32) throws -> (process: String, role: String, application: String)? {
    let holders = try connection.query(
      """
      SELECT a.pid, coalesce(a.usename, ''), coalesce(a.application_name, '') FROM pg_locks AS l
      JOIN pg_stat_activity AS a ON a.pid = l.pid
      WHERE l.relation = $1::oid AND l.mode = 'AccessExclusiveLock'
        AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database()) ORDER BY l.granted DESC LIMIT 1
      """, [String(relation)])
    return holders.first.map { ($0[0] ?? "?", $0[1] ?? "?", $0[2] ?? "") }
  }

  /// Returns the present values of the named sequences, `SCHEMA.NAME`, that have given out one, and whether none of them
  /// was left out because another session is altering it.
  ///
  /// To read a sequence takes a lock, which its owner can hold for as long as he likes. So no other sequence is read.
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
