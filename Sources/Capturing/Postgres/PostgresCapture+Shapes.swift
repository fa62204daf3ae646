import Changes
import PostgresKit
import SystemKit
import Trails

// The shapes of tables, as records of the trail.
extension PostgresCapture {
  /// Writes every difference between the tables that the trail knows and `tables`. New tables, and tables whose rows
  /// may have changed unseen, are to be copied for `reason`.
  func announce(_ tables: [PostgresTable], _ reason: Refresh.Reason?, copiesAll: Bool = true) throws {
    let present = Set(tables.map(\.oid))
    for gone in registry.tables.values.sorted(by: { $0.epoch < $1.epoch }) where !present.contains(gone.relation) {
      try drop(gone)
    }
    for table in tables {
      guard let known = registry.tables[table.oid] else {
        try introduce(table, reason)
        continue
      }
      try update(known, to: shape(of: table), table.details, .found)
      guard copiesAll, var known = registry.tables[table.oid] else { continue }
      known.refresh = reason
      registry.set(known)
    }
    tellWaiting()
  }

  func tellWaiting() {
    let waiting = registry.tables.values.filter { $0.refresh != nil }.count
    progress.update { $0.tablesToCopy = waiting }
  }

  func drop(_ table: PostgresRegistry.Table, _ text: String = "") throws {
    try openTransaction()
    try append(DDL(action: .drop, before: try id(of: table), after: 0, text: text))
    registry.remove(table.relation)
    relationChanged(table.relation)
  }

  func introduce(
    _ table: PostgresTable, _ reason: Refresh.Reason?, _ text: String = "", isPublished: Bool = true
  ) throws {
    try openTransaction()
    try free(table.schema, for: table.oid)
    var entry = shape(of: table)
    entry.refresh = reason
    if !isPublished { entry.copyNotBefore = PostgresRegistry.Table.unpublished }
    entry.epoch = registry.nextEpoch()
    entry.schema.epoch = entry.epoch
    registry.set(entry)
    try append(
      DDL(action: .create, before: 0, after: try id(of: entry), text: text, isRefreshed: reason != nil))
    relationChanged(table.oid)
  }

  /// Renames another table that has this name in the trail: its own rename has not been reported yet.
  private func free(_ name: TableSchema, for relation: UInt32) throws {
    let holder = registry.tables.values.first {
      $0.relation != relation && $0.schema.namespace.hasSameBytes(as: name.namespace)
        && $0.schema.name.hasSameBytes(as: name.name)
    }
    guard var holder else { return }
    let before = try id(of: holder)
    holder.epoch = registry.nextEpoch()
    holder.schema.epoch = holder.epoch
    holder.schema.name = "moving_\(holder.relation)_cairn"
    holder.schema.createText = ""
    registry.set(holder)
    try append(
      DDL(
        action: .rename, before: before, after: try id(of: holder),
        origins: holder.schema.columns.indices.map { $0 }))
    relationChanged(holder.relation)
  }

  func shape(of table: PostgresTable) -> PostgresRegistry.Table {
    PostgresRegistry.Table(
      relation: table.oid, epoch: 0, schema: table.schema,
      types: table.details.map { .init(oid: $0.type, modifier: $0.modifier) }, numbers: table.details.map(\.number),
      forms: table.forms, isPartitioned: table.isPartitioned, partitions: table.partitions,
      sequences: table.sequences.map { .init(namespace: $0.namespace, name: $0.name) })
  }

  /// Records a table in another shape than before: renamed, reshaped, or both. If the reader cannot derive the new rows
  /// from the rows that it has, the table is copied again.
  func update(
    _ known: PostgresRegistry.Table, to given: PostgresRegistry.Table, _ details: [PostgresTable.Detail],
    _ word: RowFate.Word
  ) throws {
    var fresh = given
    fresh.epoch = known.epoch
    fresh.schema.epoch = known.epoch
    fresh.refresh = known.refresh
    fresh.copyNotBefore = known.copyNotBefore
    guard fresh != known || word.rewrites != 0 else { return }
    let fate = RowFate(before: known, after: fresh, details: details, word: word)
    // A column may be new although it has the name and the type of a dropped one.
    let hasOtherColumns = !known.numbers.isEmpty && fresh.numbers != known.numbers
    let hasOtherShape = fresh.schema != known.schema || fresh.types != known.types || hasOtherColumns
    let isCopied = !fate.keepsRows && !word.isApplied
    if fresh.refresh == nil {
      // The stream does not report rows that came or went with a partition, or with the TRUNCATE of a partition.
      if !fate.keepsPartitions, !word.isApplied { fresh.refresh = .lostChanges }
      if isCopied { fresh.refresh = .schemaChange }
    }
    if fresh.refresh != known.refresh || !fate.keepsCopy || !fate.keepsPartitions {
      relationChanged(fresh.relation)
    } else {
      captured[fresh.relation] = nil
    }
    guard hasOtherShape else { return registry.set(fresh) }
    try openTransaction()
    try free(fresh.schema, for: fresh.relation)
    fresh.epoch = registry.nextEpoch()
    fresh.schema.epoch = fresh.epoch
    if position.refresh?.relation == fresh.relation { position.refresh?.epoch = fresh.epoch }
    var before = try id(of: known)
    registry.set(fresh)
    let origins = RowFate.origins(known, fresh)
    if !fresh.schema.fullName.hasSameBytes(as: known.schema.fullName) {
      var renamed = known.schema
      (renamed.name, renamed.namespace, renamed.epoch) = (fresh.schema.name, fresh.schema.namespace, fresh.epoch)
      guard !isOnlyRenamed(known, fresh) else {
        let after = try id(of: fresh)
        return try append(DDL(action: .rename, before: before, after: after, text: word.text, origins: origins))
      }
      // The statement still has the old name.
      renamed.createText = ""
      let middle = try trail.schemaID(renamed, token: fresh.epoch | 1 << 62)
      try append(
        DDL(
          action: .rename, before: before, after: middle, text: word.text,
          origins: renamed.columns.indices.map { $0 }))
      before = middle
    }
    try append(
      DDL(
        action: .reshape, before: before, after: try id(of: fresh), text: word.text, isRefreshed: isCopied,
        origins: origins))
  }

  /// Returns whether only the name changed, with everything that depends on it.
  private func isOnlyRenamed(_ known: PostgresRegistry.Table, _ fresh: PostgresRegistry.Table) -> Bool {
    let (was, now) = (known.schema, fresh.schema)
    return was.columns == now.columns && known.types == fresh.types && known.numbers == fresh.numbers
      && was.uniques == now.uniques && was.flags == now.flags
      && was.objects.map(\.name).hasSameBytes(as: now.objects.map(\.name))
      && was.foreignKeys.count == now.foreignKeys.count
  }

  func id(of table: PostgresRegistry.Table) throws -> UInt64 {
    try trail.schemaID(table.schema, token: table.epoch)
  }

  private func append(_ ddl: DDL) throws {
    var ddl = ddl
    ddl.applied = incoming?.applier ?? ""
    var writer = ByteWriter(capacity: 64)
    writer.append(ddl)
    try trail.append(kind: RecordKind.ddl, writer.bytes)
  }

  func relationChanged(_ relation: UInt32) {
    captured[relation] = nil
    if position.refresh?.relation == relation { position.refresh = nil }
  }
}
