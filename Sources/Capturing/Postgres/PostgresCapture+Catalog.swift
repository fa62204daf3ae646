import Changes
import PostgresKit
import SystemKit
import Trails

// The tables that the catalog describes.
extension PostgresCapture {
  // MARK: Which tables

  /// Returns the tables to capture. Throws `table-refused` for a table whose capture would harm the application or lose
  /// rows. Other tables that cannot be captured are left out.
  func wantedTables() throws -> [PostgresTable] {
    let meant = try meantTables()
    let harmed = meant.filter { $0.refusal?.isHarmless == false }
    for table in harmed where registry.tables[table.oid] != nil {
      if let refusal = table.refusal { throw refused(table, refusal) }
    }
    guard let first = harmed.first, let reason = first.refusal?.reason else {
      return meant.filter { $0.refusal == nil }
    }
    let others = harmed.dropFirst().map { "; table \($0.displayName): \($0.refusal?.reason ?? "")" }.joined()
    let script = harmed.compactMap(\.refusal?.mend).filter { !$0.isEmpty }.joined(separator: "; ")
    throw CairnError(
      .tableRefused,
      "\(source.connection.place): table \(first.displayName) cannot be captured: \(reason)\(others)",
      hint:
        "\(script.isEmpty ? "" : "run: \(script); or ")leave \(harmed.count == 1 ? "the table" : "these tables") out: --tables \(("*" + harmed.map { ",!\($0.displayName)" }.joined()).shellWord)",
      context: ["table": first.displayName])
  }

  private func meantTables() throws -> [PostgresTable] {
    try source.connection.catalog { try source.connection.userTables().filter(options.tables.includes) }
  }

  func tellOfRefusals() throws {
    for table in try meantTables() {
      if let refusal = table.refusal, refusal.isHarmless {
        progress.tell("table \(table.displayName) is not captured: \(refusal.reason)")
      }
    }
    _ = try wantedTables()
  }

  /// Unpublishes a table that lost its replica identity, and returns the error. As long as the table is published, the
  /// server refuses the application's own updates.
  func refused(_ table: PostgresTable, _ refusal: PostgresTable.Refusal) -> CairnError {
    let name = table.schema.qualifiedName
    _ = try? source.connection.execute("ALTER PUBLICATION \(slotName.quotedName) DROP TABLE \(name)")
    return CairnError(
      .tableRefused,
      "\(source.connection.place): table \(table.displayName) can no longer be captured: \(refusal.reason)",
      hint: "run: \(refusal.mend); then run again with --existing overwrite, as its changes since then are not known",
      context: ["table": table.displayName])
  }

  // MARK: Looking

  /// Takes one step of comparing the catalog; returns whether it adopted something.
  func lookAtCatalog() throws -> Bool {
    let now = Clock.monotonicMilliseconds
    do { return try takeLook(now) } catch let error as PostgresError where error.isLockTimeout {
      // The stream continues meanwhile.
      look.postpone(now: now)
      return false
    }
  }

  private func takeLook(_ now: Int64) throws -> Bool {
    switch look.next(now: now) {
    case .nothing: return false
    case .compare:
      let found = try source.connection.catalog(patience: PostgresCopier.patience) { try fingerprint() }
      look.compare(found, now: now, took: Clock.monotonicMilliseconds - now)
      return false
    case .read:
      let catalog = try source.connection.catalog(patience: PostgresCopier.patience) {
        SchemaLook.Catalog(
          fingerprint: try fingerprint(), tables: try source.connection.userTables().filter(options.tables.includes))
      }
      look.wait(for: try emitBarrier(), catalog)
      return true
    case .adopt(let catalog):
      do { try adopt(catalog.tables) } catch let error as PostgresError
        where error.sqlState.hasPrefix("42") && !error.isPrivilege
      {
        // A table has changed since the catalog was read.
        try abandon()
        look.told()
        return true
      }
      look.adopted(now: now)
      return true
    }
  }

  private func fingerprint() throws -> String {
    try source.connection.first(
      """
      WITH t AS (SELECT c.oid, c.relname, n.nspname, c.relreplident, c.relpersistence, c.relkind, c.relrowsecurity
        FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace WHERE c.relkind IN ('r', 'p', 'f')
          AND n.nspname NOT IN ('pg_catalog', 'information_schema', 'cairn', 'cairn_ddl') AND n.nspname NOT LIKE 'pg\\_%')
      SELECT md5(string_agg(x, ',' ORDER BY x)) FROM (
        SELECT t::text FROM t
        UNION ALL SELECT concat_ws(' ', a.attrelid, a.attnum, a.attname, a.atttypid, a.atttypmod, a.attnotnull,
          a.attidentity, a.attgenerated, a.atthasdef) FROM pg_attribute AS a JOIN t ON t.oid = a.attrelid
          WHERE a.attnum > 0 AND NOT a.attisdropped
        UNION ALL SELECT 'p' || p.relid || ':' || pg_relation_filenode(p.relid) FROM t,
          pg_partition_tree(t.oid::regclass) AS p WHERE t.relkind = 'p' AND p.isleaf
        UNION ALL SELECT concat_ws(' ', 'r', r.prrelid, to_jsonb(r) ->> 'prqual', to_jsonb(r) ->> 'prattrs')
          FROM pg_publication_rel AS r JOIN pg_publication AS p ON p.oid = r.prpubid WHERE p.pubname = $1
        UNION ALL SELECT concat_ws(' ', 'o', pubinsert, pubupdate, pubdelete, pubtruncate, pubviaroot)
          FROM pg_publication WHERE pubname = $1
        UNION ALL SELECT 'i' || i.indexrelid || i.indisvalid FROM pg_index AS i JOIN t ON t.oid = i.indrelid
        UNION ALL SELECT 'l' || l.oid || l.enumlabel FROM pg_enum AS l
        UNION ALL SELECT 'e' || e.evtname || e.evtenabled::text FROM pg_event_trigger AS e WHERE e.evtname ~ '^cairn_'
        UNION ALL SELECT 'd' || d.oid || d.xmin FROM pg_attrdef AS d JOIN t ON t.oid = d.adrelid
        UNION ALL SELECT 'c' || c.oid || c.conname FROM pg_constraint AS c JOIN t ON t.oid = c.conrelid) AS all_of_it(x)
      """, [slotName]) ?? ""
  }

  /// Marks tables that are captured but not completely published, and throws: this role may not fix the publication.
  /// After another role has fixed it, the tables are copied again.
  private func waitForPublication(_ tables: [PostgresRegistry.Table], _ error: CairnError) throws {
    guard let first = tables.first else { return }
    for var table in tables {
      table.refresh = table.refresh ?? .lostChanges
      table.copyNotBefore = PostgresRegistry.Table.unpublished
      registry.set(table)
    }
    try saveRegistry()
    throw CairnError(
      .privilegeMissing,
      "not every change of table \(first.schema.fullName) is published any more\(tables.count > 1 ? ", nor of \(tables.count - 1) others" : ""), and that cannot be mended: \(error.message)",
      hint: error.hint, context: ["table": first.schema.fullName])
  }

  /// Brings publication and trail in step with the existing tables.
  private func adopt(_ found: [PostgresTable]) throws {
    try lookAtTriggers()
    var tables: [PostgresTable] = []
    for table in found {
      if let refusal = table.refusal {
        guard !refusal.isHarmless else { continue }
        if registry.tables[table.oid] != nil,
          let now = try source.connection.catalog({ try source.connection.table(table.oid) })?.refusal,
          !now.isHarmless
        {
          throw refused(table, now)
        }
        if toldOf.insert("\(table.oid) \(refusal.reason)").inserted {
          progress.tell("table \(table.displayName) is not captured: \(refusal.reason); run: \(refusal.mend)")
        }
      } else {
        tables.append(table)
      }
    }
    var published = try source.published() ?? []
    // New tables, and tables that another role took out: the changes to them since then are unknown.
    let missing = Set(tables.map(\.oid)).subtracting(published)
    if !missing.isEmpty {
      do {
        _ = try source.publish(tables)
        published.formUnion(missing)
      } catch let error as CairnError where error.code == .privilegeMissing {
        try waitForPublication(registry.tables.values.filter { missing.contains($0.relation) }, error)
        progress.tell("\(error.message); \(error.hint)")
        tables.removeAll { missing.contains($0.oid) }
      }
    }
    // If an apply created a table and published it at once, the stream has all its changes. A copy would send the other
    // nodes rows that they have, and rows that this node did not have yet.
    for table in tables where registry.tables[table.oid] == nil && !missing.contains(table.oid) {
      if try source.isPublishedByApply(table.oid) { try introduce(table, nil) }
    }
    let known = Set(registry.tables.keys)
    try announce(tables, .firstCopy, copiesAll: false)
    let late = registry.tables.values.filter { table in
      published.contains(table.relation)
        && (missing.contains(table.relation) || table.copyNotBefore == PostgresRegistry.Table.unpublished
          || table.refresh != nil && !known.contains(table.relation))
    }
    if !late.isEmpty {
      // Open transactions may have written to the tables before these were published. All of them have a smaller number
      // than one assigned now. The end of a snapshot would not do: it is the number after the last ended transaction,
      // and larger ones may be running (procarray.c, GetSnapshotData).
      let xid = try source.connection.first("SELECT pg_current_xact_id()")
      for var table in late {
        table.copyNotBefore = xid.flatMap { UInt64($0) } ?? 0
        if table.refresh == nil {
          table.refresh = .lostChanges
          progress.tell("not every change of table \(table.schema.fullName) was published any more: copying it again")
          relationChanged(table.relation)
        } else if !known.contains(table.relation) {
          relationChanged(table.relation)
        }
        registry.set(table)
      }
    }
    try endAnnouncement()
  }
}
