import Changes
import PostgresKit

/// The tables that a capture knows, and the server's descriptions of tables in the stream. Methods that change a table
/// return records for the trail. ``settle()`` makes changes final; ``abandon()`` undoes them.
struct KnownTables {
  /// The effects of a schema change of a table: records for the trail, and the tables whose refresh begins again.
  struct Change: Equatable {
    var records: [ShapeChange] = []
    var restarted: [UInt32] = []
  }

  enum Lookup {
    case captured(Captured)
    case leftOut
    /// The server has described the table, but capture has not yet compared this description with the trail.
    case new(PgOutput.Relation)
    case undescribed
  }

  private(set) var registry: PostgresRegistry
  private var committed: PostgresRegistry
  private(set) var isSaved = true
  private var relations: [UInt32: PgOutput.Relation] = [:]
  private var forms: [UInt32: Captured] = [:]
  /// The partitioned tables with a partition that logs less of an old row than the table's replica identity promises.
  private var unsure: Set<UInt32> = []
  /// The partitions that log too little of an old row by the server's last descriptions, each with its table.
  private var weak: [UInt32: UInt32] = [:]
  /// The known table that the server described last. PostgreSQL describes a partition right after its table.
  private var described: UInt32?

  init(_ registry: PostgresRegistry) { (self.registry, committed) = (registry, registry) }

  subscript(relation: UInt32) -> PostgresRegistry.Table? { registry.tables[relation] }

  var all: some Collection<PostgresRegistry.Table> { registry.tables.values }

  func table(named name: PostgresRequests.Name) -> PostgresRegistry.Table? {
    all.first {
      $0.schema.namespace.hasSameBytes(as: name.namespace) && $0.schema.name.hasSameBytes(as: name.table)
    }
  }

  var hasReadable: Bool { all.contains { $0.refresh != nil && $0.copyNotBefore != PostgresRegistry.Table.unpublished } }

  /// Leaves the changes of a table out of the trail until the table is published again and a refresh of it has begun.
  mutating func suspend(_ relation: UInt32) {
    guard var table = self[relation] else { return }
    if table.refresh == nil || table.passesChanges { table.refresh = .lostChanges }
    table.copyNotBefore = PostgresRegistry.Table.unpublished
    set(table)
  }

  func waitingCount(besides others: Set<UInt32> = []) -> Int {
    all.count { $0.refresh != nil && !others.contains($0.relation) }
  }

  var sequenceNames: Set<NameKey> {
    Set(all.flatMap { $0.sequences.map { "\($0.namespace).\($0.name)".nameKey } })
  }

  // MARK: Transactions

  mutating func noteSaved() { isSaved = true }

  /// Makes the changes to the known tables final. Before this call, ``abandon()`` undoes them.
  mutating func settle() { committed = registry }

  mutating func abandon() {
    registry = committed
    isSaved = false
    forms = [:]
  }

  mutating func set(_ table: PostgresRegistry.Table) {
    registry.set(table)
    isSaved = false
    forms[table.relation] = nil
  }

  // MARK: The stream

  /// Drops the server's descriptions of tables, because a new stream describes each table again.
  mutating func beginStream() { (relations, forms, weak, described) = ([:], [:], [:], nil) }

  /// Keeps the server's description of a table or a partition, as it is at this point of the stream.
  ///
  /// - Returns: Whether it is a partition that logs less of an old row than its table's replica identity promises.
  @discardableResult
  mutating func describe(_ relation: PgOutput.Relation) -> Bool {
    relations[relation.id] = relation
    forms[relation.id] = nil
    weak[relation.id] = nil
    guard self[relation.id] == nil else {
      described = relation.id
      return false
    }
    guard let root = described, let table = relations[root], !relation.logsEnough(for: table),
      self[root]?.partitions.contains(where: { $0.utf8.starts(with: "\(relation.id):".utf8) }) == true
    else { return false }
    weak[relation.id] = root
    return true
  }

  func lookup(_ id: UInt32) -> Lookup {
    if let known = forms[id] { return known.isWanted ? .captured(known) : .leftOut }
    return relations[id].map { .new($0) } ?? .undescribed
  }

  mutating func keep(_ form: Captured) { forms[form.relation] = form }

  mutating func forgetForm(of relation: UInt32) { forms[relation] = nil }

  /// Returns the description for decoding rows of a table from the stream; nil if the table is not known.
  ///
  /// - Parameter isBeingCopied: Whether the trail has chunks of the table's running refresh.
  func form(of relation: PgOutput.Relation, isBeingCopied: Bool) -> Captured? {
    guard let table = self[relation.id] else { return nil }
    let key = Set(table.schema.key)
    return Captured(
      relation: relation.id, epoch: table.epoch, schema: table.schema,
      isKey: table.schema.columns.indices.map { key.isEmpty || key.contains($0) }, isKeyed: table.isKeyed,
      isWanted: table.refresh == nil || table.passesChanges || isBeingCopied,
      isFull: relation.identity == UInt8(ascii: "f"))
  }

  /// Notes whether a partition logs too little of an old row, as a definition of the table shows it.
  mutating func note(_ relation: UInt32, isUnsure: Bool) {
    if isUnsure { unsure.insert(relation) } else { unsure.remove(relation) }
    if !isUnsure, !weak.isEmpty { weak = weak.filter { $0.value != relation } }
  }

  /// Returns false if a partition logged less of an old row than the table's replica identity promises. PostgreSQL then
  /// sends NULL in place of the missing values.
  func logsEnough(_ old: PgOutput.OldTuple?, of table: Captured) throws -> Bool {
    guard let givenAlways = table.givenAlways else { return true }
    guard !unsure.contains(table.relation), !weak.values.contains(table.relation) else { return false }
    guard let old else { return !table.isFull }
    return try !old.tuple.hasNull(among: givenAlways)
  }

  // MARK: Changes of shape

  mutating func drop(_ table: PostgresRegistry.Table, _ text: String) -> Change {
    let record = ShapeChange(action: .drop, before: table.shape, text: text)
    registry.remove(table.relation)
    isSaved = false
    forms[table.relation] = nil
    return Change(records: [record], restarted: [table.relation])
  }

  /// Adds a table, and returns the record of its creation for the trail.
  ///
  /// - Parameter refresh: The reason for a refresh of the table; nil if it needs none.
  /// - Parameter isPublished: Whether the publication has the table.
  mutating func introduce(
    _ table: PostgresRegistry.Table, _ refresh: Refresh.Reason?, _ text: String, isPublished: Bool
  ) -> Change {
    var change = free(table.schema, for: table.relation)
    var entry = table
    entry.refresh = refresh
    if !isPublished { entry.copyNotBefore = PostgresRegistry.Table.unpublished }
    renumber(&entry)
    set(entry)
    change.records.append(
      ShapeChange(action: .create, after: entry.shape, text: text, isRefreshed: refresh != nil))
    change.restarted.append(entry.relation)
    return change
  }

  mutating func alter(_ alteration: Alteration) -> Change {
    let known = alteration.known
    var fresh = alteration.fresh
    var change = free(fresh.schema, for: fresh.relation)
    renumber(&fresh)
    set(fresh)
    let origins = RowFate.origins(known, fresh)
    var before = known.shape
    if !fresh.schema.fullName.hasSameBytes(as: known.schema.fullName) {
      guard !alteration.isOnlyRenamed else {
        change.records.append(
          ShapeChange(action: .rename, before: before, after: fresh.shape, text: alteration.text, origins: origins))
        return change
      }
      var renamed = known.schema
      (renamed.name, renamed.namespace, renamed.epoch) = (fresh.schema.name, fresh.schema.namespace, fresh.epoch)
      // The statement still has the old name.
      renamed.createText = ""
      let middle = TableShape(schema: renamed, token: fresh.epoch | 1 << 62)
      change.records.append(
        ShapeChange(
          action: .rename, before: before, after: middle, text: alteration.text,
          origins: renamed.columns.indices.map { $0 }))
      before = middle
    }
    change.records.append(
      ShapeChange(
        action: .reshape, before: before, after: fresh.shape, text: alteration.text,
        isRefreshed: alteration.isRefreshed, origins: origins))
    return change
  }

  /// Gives another table that has this name in the trail a temporary name, and returns the rename for the trail.
  /// Without such a table, returns no record.
  private mutating func free(_ name: TableSchema, for relation: UInt32) -> Change {
    let holder = all.first {
      $0.relation != relation && $0.schema.namespace.hasSameBytes(as: name.namespace)
        && $0.schema.name.hasSameBytes(as: name.name)
    }
    guard var holder else { return Change() }
    let before = holder.shape
    renumber(&holder)
    holder.schema.name = "moving_\(holder.relation)_cairn"
    holder.schema.createText = ""
    set(holder)
    let record = ShapeChange(
      action: .rename, before: before, after: holder.shape, origins: holder.schema.columns.indices.map { $0 })
    return Change(records: [record], restarted: [holder.relation])
  }

  private mutating func renumber(_ table: inout PostgresRegistry.Table) {
    table.epoch = registry.nextEpoch()
    table.schema.epoch = table.epoch
  }
}

extension KnownTables {
  struct Alteration {
    let known: PostgresRegistry.Table
    let fresh: PostgresRegistry.Table
    let text: String
    let hasOtherShape: Bool
    /// Whether the table must be refreshed, because a target cannot derive the new rows from its old rows.
    let isRefreshed: Bool
    let restartsRefresh: Bool

    /// Compares the known shape of a table with a new one; nil if they are equal and no rows were rewritten.
    init?(
      _ known: PostgresRegistry.Table, to given: PostgresRegistry.Table, _ details: [PostgresTable.Detail],
      _ word: RowFate.Word
    ) {
      var fresh = given
      fresh.epoch = known.epoch
      fresh.schema.epoch = known.epoch
      fresh.refresh = known.refresh
      fresh.copyNotBefore = known.copyNotBefore
      guard fresh != known || word.rewrites != 0 else { return nil }
      let fate = RowFate(before: known, after: fresh, details: details, word: word)
      // A column may be new although it has the name and the type of a dropped one.
      let hasOtherColumns = !known.numbers.isEmpty && fresh.numbers != known.numbers
      hasOtherShape = fresh.schema != known.schema || fresh.types != known.types || hasOtherColumns
      isRefreshed = !fate.keepsRows && !word.isApplied
      if fresh.refresh == nil {
        // The stream does not report rows that came or went with a partition, or with the TRUNCATE of a partition.
        if !fate.keepsPartitions, !word.isApplied { fresh.refresh = .lostChanges }
        if isRefreshed { fresh.refresh = .schemaChange }
      }
      restartsRefresh = fresh.refresh != known.refresh || !fate.keepsCopy || !fate.keepsPartitions
      (self.known, self.fresh, text) = (known, fresh, word.text)
    }

    var isOnlyRenamed: Bool {
      let (was, now) = (known.schema, fresh.schema)
      return was.columns == now.columns && known.types == fresh.types && known.numbers == fresh.numbers
        && was.uniques == now.uniques && was.flags == now.flags
        && was.objects.map(\.name).hasSameBytes(as: now.objects.map(\.name))
        && was.foreignKeys.count == now.foreignKeys.count
    }
  }
}

extension PostgresRegistry.Table {
  var shape: TableShape { .init(schema: schema, token: epoch) }

  init(_ table: PostgresTable) {
    self.init(
      relation: table.oid, epoch: 0, schema: table.schema,
      types: table.details.map { .init(oid: $0.type, modifier: $0.modifier) }, numbers: table.details.map(\.number),
      forms: table.forms, isPartitioned: table.isPartitioned, partitions: table.partitions,
      sequences: table.sequences.map { .init(namespace: $0.namespace, name: $0.name) })
  }

  func isDescribed(by relation: PgOutput.Relation) -> Bool {
    guard relation.namespace.hasSameBytes(as: schema.namespace),
      relation.name.hasSameBytes(as: schema.name), relation.columns.count == schema.columns.count
    else { return false }
    for (index, column) in relation.columns.enumerated() {
      guard column.name.hasSameBytes(as: schema.columns[index].name), column.type == types[index].oid,
        column.modifier == types[index].modifier
      else { return false }
    }
    // With FULL, every column is marked as part of the key.
    if relation.identity == UInt8(ascii: "f") { return true }
    let marked = relation.columns.indices.filter { relation.columns[$0].isKey }
    return Set(marked) == Set(schema.key)
  }
}

extension PgOutput.Relation {
  /// Returns whether a partition of this description logs each column of an old row that its table's description names.
  fileprivate func logsEnough(for table: PgOutput.Relation) -> Bool {
    let full = UInt8(ascii: "f")
    if identity == full { return true }
    return table.identity != full
      && table.columns.allSatisfy { column in
        !column.isKey || columns.contains { $0.isKey && $0.name.hasSameBytes(as: column.name) }
      }
  }
}
