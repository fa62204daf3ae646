import Changes
import PostgresKit
import SystemKit
import Trails

/// A table as the stream speaks of it now.
struct Captured {
  let relation: UInt32
  let epoch: UInt64
  let schema: TableSchema
  /// Which columns an old row that names only its key gives.
  let isKey: [Bool]
  let isKeyed: Bool
  /// False: its changes are left out, because it is not ours, or because its copy, still to come, will show them.
  let isWanted: Bool
}

/// When the catalog is looked at, to find tables that came, went and changed without a word in the stream.
///
/// What the catalog says is true now, the stream tells of before. So a difference counts only when the stream has
/// reached a barrier behind the look that found it.
struct SchemaLook {
  private static let intervalMilliseconds: Int64 = 2000
  var isWanted = true
  /// Looked at since the connection was made, and found as the trail was told.
  private(set) var isDone = false
  private var fingerprint: String?
  private var barrier: String?
  private var isReached = false
  private var dueAt: Int64 = 0

  /// Something is to be done as soon as the stream rests.
  var isPending: Bool { isReached || (isWanted && barrier == nil) }

  enum Step { case nothing, compare, emitBarrier, adopt }

  mutating func next(now: Int64) -> Step {
    if barrier != nil { return isReached ? .adopt : .nothing }
    if isWanted { return .emitBarrier }
    return now >= dueAt ? .compare : .nothing
  }

  /// True when the catalog is not as it was.
  mutating func compare(_ found: String, now: Int64, took: Int64) {
    dueAt = now + max(Self.intervalMilliseconds, took * 20)
    if found != fingerprint { isWanted = true }
  }

  mutating func wait(for barrier: String) {
    (self.barrier, isReached, isWanted) = (barrier, false, false)
  }

  mutating func reached(_ barrier: String) { if barrier == self.barrier { isReached = true } }

  mutating func adopted(_ found: String, now: Int64) {
    (fingerprint, barrier, isReached, isDone) = (found, nil, false, true)
    dueAt = now + Self.intervalMilliseconds
  }
}

extension PostgresCapture {
  // MARK: Which tables

  /// The tables that are to be captured. Throws `table-refused` for one whose capture would harm the program or lose
  /// rows; others that cannot be captured are left out.
  func wantedTables() throws -> [PostgresTable] {
    try meantTables().filter { table in
      guard let refusal = table.refusal else { return true }
      guard !refusal.isHarmless else { return false }
      if registry.tables[table.oid] != nil { throw refused(table, refusal) }
      throw CairnError(
        .tableRefused, "\(source.connection.place): table \(table.displayName) cannot be captured: \(refusal.reason)",
        hint: "run: \(refusal.mend); or leave the table out: --tables '*,!\(table.displayName)'",
        context: ["table": table.displayName])
    }
  }

  private func meantTables() throws -> [PostgresTable] {
    let connection = source.connection
    return try connection.transaction("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY") {
      try connection.userTables().filter(options.tables.includes)
    }
  }

  func tellOfRefusals() throws {
    for table in try meantTables() {
      if let refusal = table.refusal, refusal.isHarmless {
        progress.tell("table \(table.displayName) is not captured: \(refusal.reason)")
      }
    }
    _ = try wantedTables()
  }

  // MARK: Telling the trail

  /// Tells of every difference between the tables that the trail knows and `tables`. Tables that are new, or whose rows
  /// may have changed without a word, are to be copied for `reason`.
  func announce(_ tables: [PostgresTable], _ reason: Refresh.Reason, copiesAll: Bool = true) throws {
    let present = Set(tables.map(\.oid))
    for gone in registry.tables.values.sorted(by: { $0.epoch < $1.epoch }) where !present.contains(gone.relation) {
      try openTransaction()
      try append(DDL(action: .drop, before: try id(of: gone), after: 0))
      registry.remove(gone.relation)
      relationChanged(gone.relation)
    }
    for table in tables {
      guard let known = registry.tables[table.oid] else {
        try introduce(table, reason)
        continue
      }
      try update(known, to: shape(of: table), isPartitioned: table.isPartitioned)
      guard copiesAll, var known = registry.tables[table.oid] else { continue }
      known.refresh = reason
      registry.set(known)
    }
    registryChanged()
    let waiting = registry.tables.values.filter { $0.refresh != nil }.count
    progress.update { $0.tablesToCopy = waiting }
  }

  private func introduce(_ table: PostgresTable, _ reason: Refresh.Reason) throws {
    try openTransaction()
    try free(table.schema, for: table.oid)
    var entry = shape(of: table)
    entry.refresh = reason
    entry.epoch = registry.nextEpoch()
    entry.schema.epoch = entry.epoch
    registry.set(entry)
    try append(DDL(action: .create, before: 0, after: try id(of: entry), isRefreshed: true))
    relationChanged(table.oid)
  }

  /// Another table that had this name has not yet been told to have a new one: it steps aside.
  private func free(_ name: TableSchema, for relation: UInt32) throws {
    let holder = registry.tables.values.first {
      $0.relation != relation && $0.schema.namespace == name.namespace && $0.schema.name == name.name
    }
    guard var holder else { return }
    let before = try id(of: holder)
    holder.epoch = registry.nextEpoch()
    holder.schema.epoch = holder.epoch
    holder.schema.name = "moving_\(holder.relation)_cairn"
    holder.schema.createText = ""
    registry.set(holder)
    try append(DDL(action: .rename, before: before, after: try id(of: holder)))
    relationChanged(holder.relation)
  }

  private func shape(of table: PostgresTable) -> PostgresRegistry.Table {
    PostgresRegistry.Table(
      relation: table.oid, epoch: 0, schema: table.schema,
      types: table.types.map { .init(oid: $0.oid, modifier: $0.modifier) }, isPartitioned: table.isPartitioned,
      partitions: table.partitions,
      sequences: table.sequences.map { .init(namespace: $0.namespace, name: $0.name) })
  }

  /// A table in another shape than before: renamed, reshaped, or both. Where its columns are others, it is copied again.
  private func update(
    _ known: PostgresRegistry.Table, to given: PostgresRegistry.Table, isPartitioned: Bool
  ) throws {
    var fresh = given
    fresh.epoch = known.epoch
    fresh.schema.epoch = known.epoch
    fresh.refresh = known.refresh
    fresh.copyNotBefore = known.copyNotBefore
    guard fresh != known else { return }
    // Rows came or went with a partition, or with its TRUNCATE, of which the stream says nothing.
    if fresh.partitions != known.partitions, fresh.refresh == nil {
      fresh.refresh = .lostChanges
      relationChanged(fresh.relation)
    }
    guard fresh.schema != known.schema || fresh.types != known.types else {
      registryChanged()
      return registry.set(fresh)
    }
    try openTransaction()
    try free(fresh.schema, for: fresh.relation)
    fresh.epoch = registry.nextEpoch()
    fresh.schema.epoch = fresh.epoch
    var before = try id(of: known)
    if fresh.schema.name != known.schema.name || fresh.schema.namespace != known.schema.namespace {
      var renamed = known.schema
      (renamed.name, renamed.namespace) = (fresh.schema.name, fresh.schema.namespace)
      // The statement still has the old name.
      renamed.createText = ""
      renamed.epoch = fresh.epoch
      let middle = try trail.schemaID(renamed, token: fresh.epoch | 1 << 62)
      try append(DDL(action: .rename, before: before, after: middle))
      before = middle
    }
    let hasOtherColumns = fresh.types != known.types || fresh.schema.columnShape != known.schema.columnShape
    if hasOtherColumns, fresh.refresh == nil { fresh.refresh = .schemaChange }
    registry.set(fresh)
    try append(DDL(action: .reshape, before: before, after: try id(of: fresh), isRefreshed: hasOtherColumns))
    relationChanged(fresh.relation)
  }

  private func id(of table: PostgresRegistry.Table) throws -> UInt64 {
    try trail.schemaID(table.schema, token: table.epoch)
  }

  private func append(_ ddl: DDL) throws {
    var writer = ByteWriter(capacity: 64)
    writer.append(ddl)
    try trail.append(kind: RecordKind.ddl, writer.bytes)
    registryChanged()
  }

  private func relationChanged(_ relation: UInt32) {
    captured[relation] = nil
    if position.refresh?.relation == relation { position.refresh = nil }
  }

  // MARK: What the stream says

  /// The table that a relation message describes; a shape that the trail does not know is told to it first.
  func capture(_ relation: PgOutput.Relation) throws -> Captured {
    guard let known = registry.tables[relation.id] else { return ignored(relation) }
    if !Self.describes(relation, known) {
      let table = try source.connection.userTables().first { $0.oid == relation.id }
      let current = table.map(shape)
      var shape = try current ?? Self.shape(of: relation, source.connection)
      if !Self.describes(relation, shape) { shape = try Self.shape(of: relation, source.connection) }
      if let table, let refusal = table.refusal, !refusal.isHarmless { throw refused(table, refusal) }
      try update(known, to: shape, isPartitioned: table?.isPartitioned ?? known.isPartitioned)
    }
    guard let table = registry.tables[relation.id] else { return ignored(relation) }
    let key = Set(table.schema.key)
    return Captured(
      relation: relation.id, epoch: table.epoch, schema: table.schema,
      isKey: table.schema.columns.indices.map { key.isEmpty || key.contains($0) }, isKeyed: table.isKeyed,
      isWanted: table.refresh == nil || position.refresh?.relation == relation.id)
  }

  private func ignored(_ relation: PgOutput.Relation) -> Captured {
    Captured(
      relation: relation.id, epoch: 0, schema: TableSchema(epoch: 0, engine: .postgres, name: "", columns: []),
      isKey: [], isKeyed: false, isWanted: false)
  }

  /// Whether a relation message tells the shape that is known.
  private static func describes(_ relation: PgOutput.Relation, _ table: PostgresRegistry.Table) -> Bool {
    let schema = table.schema
    guard relation.namespace == schema.namespace, relation.name == schema.name,
      relation.columns.count == schema.columns.count
    else { return false }
    for (index, column) in relation.columns.enumerated() {
      guard column.name == schema.columns[index].name, column.type == table.types[index].oid,
        column.modifier == table.types[index].modifier
      else { return false }
    }
    // With FULL, every column is marked as part of the key.
    if relation.identity == UInt8(ascii: "f") { return true }
    let marked = relation.columns.indices.filter { relation.columns[$0].isKey }
    return Set(marked) == Set(schema.key)
  }

  /// The shape of a relation message alone: of a moment that the catalog has left behind.
  private static func shape(
    of relation: PgOutput.Relation, _ connection: PostgresConnection
  ) throws -> PostgresRegistry.Table {
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

  /// A table that lost its identity: as long as it is published, the server refuses the program's own updates.
  private func refused(_ table: PostgresTable, _ refusal: PostgresTable.Refusal) -> CairnError {
    let name = table.schema.qualifiedName
    _ = try? source.connection.execute("ALTER PUBLICATION \(slotName.quotedName) DROP TABLE \(name)")
    return CairnError(
      .tableRefused,
      "\(source.connection.place): table \(table.displayName) can no longer be captured: \(refusal.reason)",
      hint: "run: \(refusal.mend); then run again with --existing overwrite, as its changes since then are not known",
      context: ["table": table.displayName])
  }

  // MARK: What the catalog says

  /// One step of looking at the catalog; true when there was something to do.
  func lookAtCatalog() throws -> Bool {
    let now = Clock.monotonicMilliseconds
    switch look.next(now: now) {
    case .nothing: return false
    case .compare:
      let found = try fingerprint()
      look.compare(found, now: now, took: Clock.monotonicMilliseconds - now)
      return false
    case .emitBarrier:
      look.wait(for: try emitBarrier())
      return true
    case .adopt:
      let found = try fingerprint()
      try adopt()
      look.adopted(found, now: now)
      return true
    }
  }

  private func fingerprint() throws -> String {
    try source.connection.first(
      """
      WITH t AS (SELECT c.oid, c.relname, n.nspname, c.relreplident, c.relpersistence, c.relkind, c.relrowsecurity
        FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace WHERE c.relkind IN ('r', 'p', 'f')
          AND n.nspname NOT IN ('pg_catalog', 'information_schema', 'cairn') AND n.nspname NOT LIKE 'pg\\_%')
      SELECT md5(string_agg(x, ',' ORDER BY x)) FROM (
        SELECT t::text FROM t
        UNION ALL SELECT concat_ws(' ', a.attrelid, a.attnum, a.attname, a.atttypid, a.atttypmod, a.attnotnull,
          a.attidentity, a.attgenerated, a.atthasdef) FROM pg_attribute AS a JOIN t ON t.oid = a.attrelid
          WHERE a.attnum > 0 AND NOT a.attisdropped
        UNION ALL SELECT 'p' || p.relid || ':' || pg_relation_filenode(p.relid) FROM t,
          pg_partition_tree(t.oid::regclass) AS p WHERE t.relkind = 'p' AND p.isleaf
        UNION ALL SELECT 'r' || r.prrelid FROM pg_publication_rel AS r JOIN pg_publication AS p ON p.oid = r.prpubid
          WHERE p.pubname = $1
        UNION ALL SELECT 'i' || i.indexrelid || i.indisvalid FROM pg_index AS i JOIN t ON t.oid = i.indrelid
        UNION ALL SELECT 'd' || d.oid || d.xmin FROM pg_attrdef AS d JOIN t ON t.oid = d.adrelid
        UNION ALL SELECT 'c' || c.oid || c.conname FROM pg_constraint AS c JOIN t ON t.oid = c.conrelid) AS all_of_it(x)
      """, [slotName]) ?? ""
  }

  /// Brings publication and trail in step with the tables that are there.
  private func adopt() throws {
    var tables: [PostgresTable] = []
    for table in try meantTables() {
      if let refusal = table.refusal {
        guard !refusal.isHarmless else { continue }
        if registry.tables[table.oid] != nil { throw refused(table, refusal) }
        progress.tell("table \(table.displayName) is not captured: \(refusal.reason); run: \(refusal.mend)")
      } else {
        tables.append(table)
      }
    }
    let published = try source.published() ?? []
    let fresh = tables.filter { registry.tables[$0.oid] == nil }
    // Somebody took them out: what was written to them since is not known.
    let missed = tables.filter { registry.tables[$0.oid] != nil && !published.contains($0.oid) }
    var notBefore: UInt64 = 0
    if !fresh.isEmpty || !missed.isEmpty {
      do { _ = try source.publish(tables) } catch let error as CairnError where error.code == .privilegeMissing {
        progress.tell("\(error.message); \(error.hint)")
        tables.removeAll { table in fresh.contains { $0.oid == table.oid } }
      }
      // Transactions that are open now may have written to them before they were published.
      notBefore =
        try source.connection.first("SELECT pg_snapshot_xmax(pg_current_snapshot())").flatMap { UInt64($0) } ?? 0
    }
    try announce(tables, .firstCopy, copiesAll: false)
    for table in fresh + missed {
      guard var entry = registry.tables[table.oid] else { continue }
      entry.copyNotBefore = notBefore
      if entry.refresh == nil {
        entry.refresh = .lostChanges
        progress.tell("table \(table.displayName) was not in the publication any more: copying it again")
        relationChanged(table.oid)
        registryChanged()
      }
      registry.set(entry)
    }
    try endAnnouncement()
  }
}

extension TableSchema {
  /// What decides whether rows are the same in two shapes.
  fileprivate var columnShape: [String] {
    columns.map { "\($0.name)\u{1f}\($0.declaredType)\u{1f}\($0.keyOrdinal)" } + [
      flags.contains(.wholeRow) ? "" : "key"
    ]
  }
}
