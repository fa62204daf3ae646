import Changes
import Conflicts
import Mapping
import PostgresKit

// The tables of records: how they are opened, named, and suspended.
extension PostgresSchema {
  func table(_ id: UInt64) throws -> PostgresApplyTable? {
    if let table = tables.openTables.find(id, in: reader.position.segment) {
      if let watch = table?.watch { try copy.look(watch) }
      return table
    }
    let schema = try schema(id)
    let table = try tables.scope.key(schema.sourceKey).flatMap { try self.table(for: schema, $0, id) }
    tables.openTables.note(table, id)
    if let watch = table?.watch { try copy.look(watch) }
    return table
  }

  private func table(for schema: TableSchema, _ key: String, _ id: UInt64) throws -> PostgresApplyTable? {
    if let table = tables.openTable(key, given: schema) { return table }
    try sink.settle()
    guard let part = try part(of: schema, key) else { return nil }
    let source = part.schema
    try source.checkHasColumns()
    let mapped = try TableMapping(source, to: .postgres, names: options.names).target
    try meet(source, mapped, key)
    try adopt(id, source, mapped, key)
    let claim = try tables.claimRows(of: source, as: mapped, key)
    var known =
      try tables.tables[key] ?? tables.register(key, source, mapped, .init(schema: mapped.namespace, name: mapped.name))
    if let move = desk?.move(of: schema) {
      try checkFormerName(move, of: schema)
      (known.schema, known.name) = (move.now.namespace, move.now.name)
    }
    try options.checkAllowed(known.schema, known.name, in: .postgres)
    try progress.snapshot.guards.check(known.schema, known.name, of: source.fullName)
    // In a history, a copy replaces nothing, so the changes before it are applied too.
    let isAwaited = known.isAwaited && source.treatment?.isHistory != true
    if known.claim != claim || known.isAwaited != isAwaited {
      if !isAwaited, known.isAwaited { (known.refreshing, known.isAwaited) = (nil, false) }
      known.claim = claim
      try tables.save(key, known)
    }
    let kept: [Int]?
    if options.policy(isCreated: known.isCreated) == .ignore {
      kept = try tables.shape.columnsThere(source, mapped, known)
    } else {
      kept = Array(source.columns.indices)
    }
    guard let kept else { return nil }
    let narrow = NextFittingSchema.Part(source.keeping(kept), kept.map { part.positions[$0] })
    let target = try tables.shape.checked(
      narrow.schema, mapped.keeping(kept), known, goesBothWays: options.goesBothWays(known.schema, known.name))
    let number = tables.nextNumber()
    let writes = try tables.localWrites(of: mapped.keeping(kept), from: narrow.schema)
    let table = try PostgresApplyTable(
      key: key, given: schema, part: narrow, mapped: mapped.keeping(kept), target: target, state: known,
      number: number, localWrites: writes, goesBothWays: options.goesBothWays(known.schema, known.name))
    if table.goesBothWays {
      try KeyCheck.check(source, mapped, in: .postgres(connection), includes: options.goesBothWays)
      try options.twoWay?.limits.movedKeys.check(source, mapped, from: session.name)
    }
    if table.isWholeRow, writes.areSettled { throw LocalWritesPlan.keyless(source.fullName, writes) }
    try tables.checkOwners(table)
    tables.note(table, key)
    if !table.goesBothWays { session.sequences.note(table) }
    return table
  }

  private func part(of schema: TableSchema, _ key: String) throws -> NextFittingSchema.Part? {
    if let part = desk?.part(of: schema) { return part }
    guard tables.scope.isCatchUp, !tables.fits(schema, key), let later = try nextFittingSchema(of: schema, key) else {
      return .init(schema)
    }
    if later.schema == nil { return nil }
    return later.part(of: schema) ?? .init(schema)
  }

  func nextFittingSchema(of schema: TableSchema, _ key: String) throws -> NextFittingSchema? {
    try ahead.nextFittingSchema(of: schema) { tables.fits($0, key) }
  }

  // MARK: Tables that other nodes know by other names

  /// Throws `schema-stopped` if this database has given a table another name, and a second table now has the former
  /// name.
  func checkFormerName(_ move: ColumnsNow.Move, of schema: TableSchema) throws {
    let former = "\(move.former.namespace.quotedName).\(move.former.name.quotedName)"
    let found = try connection.first(
      "SELECT 1 FROM pg_class WHERE oid = to_regclass($1) AND relkind IN ('r', 'p', 'f')", [former])
    if found != nil { throw move.taken(schema, at: connection.place) }
  }

  /// Replaces, in a schema change from the trail, a table's former name by the name that the table has here now.
  ///
  /// - Returns: False if the change is the same rename, so that nothing is left to do; true otherwise.
  func nameAsNow(_ made: inout ShapeChange, _ move: ColumnsNow.Move, _ desk: Desk, _ key: String) throws -> Bool {
    guard let before = made.before, let after = made.after, var known = tables.tables[key] else { return true }
    let place = TableMapping.targetPlace(of: after, in: .postgres, names: options.names)
    if place.namespace.hasSameBytes(as: move.now.namespace), place.name.hasSameBytes(as: move.now.name) { return false }
    let named = desk.named(after, move)
    let now = TableMapping.targetPlace(of: named, in: .postgres, names: options.names)
    guard before.fullName.hasSameBytes(as: after.fullName), now.namespace.hasSameBytes(as: move.now.namespace),
      now.name.hasSameBytes(as: move.now.name)
    else { throw move.unmade(before, at: connection.place) }
    try checkFormerName(move, of: before)
    (known.schema, known.name) = (move.now.namespace, move.now.name)
    try tables.save(key, known)
    (made.before, made.after) = (desk.named(before, move), named)
    return true
  }

  // MARK: Tables that must wait

  /// Runs a body that applies a record of a table. Throws ``SchemaStop`` if the table must be suspended at this record.
  func onTable(_ id: UInt64, _ body: () throws -> Void) throws {
    if refusals[reader.position] != nil || overtaken[reader.position] != nil {
      try refresh.endChunk()
      try leaveRefused(try schema(id))
    }
    do { try body() } catch let error as CairnError where error.suspendsTable {
      let schema = try schema(id)
      let names = [schema.fullName, TableMapping.targetName(of: schema, in: .postgres, names: options.names)]
      guard let table = error.context["table"], names.contains(table), let key = tables.scope.key(schema.sourceKey)
      else {
        throw error
      }
      throw SchemaStop(key: key, position: reader.position, error: error)
    } catch {
      // Only a careful replay gets the answer to each statement at once.
      let refused = error as? PostgresError ?? (isCareful ? (error as? PostgresSink.Fault)?.error : nil)
      guard let refused, refused.isPrivilege else { throw error }
      let schema = try schema(id)
      guard let key = tables.scope.key(schema.sourceKey) else { throw error }
      let name = TableMapping.targetName(of: schema, in: .postgres, names: options.names)
      throw SchemaStop(key: key, position: reader.position, error: refused.unentitled(schema, at: name))
    }
  }

  /// Suspends the present record's table if the target has refused the record. If the trail has a later refresh with
  /// which the table can continue, continues it with that refresh. Otherwise does nothing.
  func leaveRefused(_ schema: TableSchema) throws {
    let name = schema.sourceKey
    if let copy = overtaken[reader.position], let key = tables.scope.key(name) {
      return try goOn(with: copy, name, key)
    }
    guard let error = refusals[reader.position], let key = tables.scope.key(name) else { return }
    try sink.settle()
    try rows.leaveOpenRows(key, error)
    try tables.suspend(key, schema, error)
  }

  // MARK: Columns that become text

  /// Runs a body, again after each column that it needs as text.
  func again(_ body: () throws -> Void) throws {
    while true {
      do { return try body() } catch let widening as Widening {
        guard let table = tables.openTable(widening.table) else { throw widening }
        try widen(widening.index, table)
      }
    }
  }

  func widen(_ index: Int, _ table: PostgresApplyTable) throws {
    try copy.endPiece()
    try sink.settle()
    try session.proof.checkChange(of: table.target, table.mapped.fullName, isAltered: true, isRetyped: true)
    let column = table.columns[index]
    let name = column.name.quotedName
    // The values in the source's spelling.
    let text = column.type.kind == .bool ? "\(name)::integer::text" : "\(name)::text"
    do {
      _ = try sink.attempt {
        try connection.execute(
          """
          ALTER TABLE \(table.target.qualifiedName) ALTER COLUMN \(name) DROP DEFAULT,
            ALTER COLUMN \(name) TYPE text USING \(text)
          """)
      }
    } catch let error as PostgresError where !error.isServerGone && !error.isTransient {
      throw CairnError(
        .valueMisfit,
        "column \(column.name) of \(table.target.qualifiedName) cannot become text for a value that does not fit \(column.type.name): \(error.message)",
        hint:
          "drop the objects at the target that depend on the column, or set it to null: misfits = [\"\(table.source.name).\(column.name)=null\"] (--misfit)",
        context: ["table": table.source.fullName])
    }
    progress.note(
      "column \(column.name) of \(table.target.qualifiedName) became text for a value that is not \(column.type.name); present rows have PostgreSQL's spelling until the table is copied again"
    )
    tables.forgetShape(table.stateKey)
    if refresh.tracker.table === table { refresh.tracker.forgetTable() }
  }
}
