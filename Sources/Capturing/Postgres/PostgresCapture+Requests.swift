import Changes
import PostgresKit
import SystemKit
import Trails

// Requested rows. They are read by their keys, several in one snapshot, and placed like the chunk of a copy.
extension PostgresCapture {
  private static let keysPerSnapshot = 500

  /// Takes a message of the stream that may be a request. The request is durable before the trail can pass it. From
  /// here on, changes to the table may concern rows that the reader does not have.
  func takeRequest(_ content: UnsafeRawBufferPointer) throws {
    var reader = ByteReader(content)
    let message: RequestMessage
    do { message = try RequestMessage(&reader) } catch let error as DecodingError {
      return progress.tell("a request for rows was not understood: \(error.problem)")
    }
    guard message.slot == slotName else { return }
    requests.add(message)
    try requests.save()
    let name = PostgresRequests.Name(namespace: message.namespace, table: message.table)
    guard let table = capturedTable(name), table.refresh == nil, table.isKeyed,
      requests.keys[name] != nil || isCopyAsked(of: table)
    else { return }
    try openTransaction()
    try beginRepair(of: table, rows: message.keys.count)
  }

  /// Begins the refresh of tables whose copies an earlier run was asked for. Changes to them may concern rows that the
  /// reader does not have.
  func beginAwaitedCopies() throws {
    let tables = registry.tables.values.filter { $0.passesChanges && $0.relation != position.refresh?.relation }
    guard !tables.isEmpty else { return }
    try openTransaction()
    for table in tables.sorted(by: { $0.epoch < $1.epoch }) { try appendRepairStart(of: table, rows: 0) }
    try endTransaction()
    try sync()
  }

  private func beginRepair(of table: PostgresRegistry.Table, rows: Int) throws {
    guard repairing.insert(table.relation).inserted else { return }
    try appendRepairStart(of: table, rows: rows)
  }

  private func appendRepairStart(of table: PostgresRegistry.Table, rows: Int) throws {
    let id = try trail.schemaID(table.schema, token: table.epoch)
    try PostgresCopier.append(Refresh(schemaID: id, event: .start(.repair, .rows, estimatedRows: UInt64(rows))), trail)
  }

  /// Begins to read requested rows; returns false if there are none.
  func beginRequested() throws -> Bool {
    guard !requests.isEmpty, !isTrailOpen else { return false }
    try beginRequestedCopies()
    guard let (table, keys) = try nextRequested() else { return false }
    let copier = try self.copier ?? openCopier()
    try open(.asked(keys), of: table, copier)
    return true
  }

  private func beginRequestedCopies() throws {
    guard !requests.copies.isEmpty else { return }
    for name in requests.copies {
      if let table = capturedTable(name) { askForCopy(of: table) } else { tellMissing(name) }
    }
    try saveRegistry()
    for name in requests.copies { requests.forgetCopy(name) }
    try requests.save()
  }

  private func askForCopy(of table: PostgresRegistry.Table) {
    guard table.refresh == nil else { return }
    var table = table
    table.refresh = .asked
    registry.set(table)
    captured[table.relation] = nil
    repairing.remove(table.relation)
    if position.refresh?.relation == table.relation { position.refresh = nil }
    let waiting = registry.tables.values.filter { $0.refresh != nil }.count
    progress.update { $0.tablesToCopy = waiting }
  }

  private func isCopyAsked(of table: PostgresRegistry.Table) -> Bool {
    requests.copies.contains(.init(namespace: table.schema.namespace, table: table.schema.name))
  }

  private func capturedTable(_ name: PostgresRequests.Name) -> PostgresRegistry.Table? {
    registry.tables.values.first {
      $0.schema.namespace.hasSameBytes(as: name.namespace) && $0.schema.name.hasSameBytes(as: name.table)
    }
  }

  private func tellMissing(_ name: PostgresRequests.Name) {
    progress.tell(
      "rows of table \(name.namespace).\(name.table) were asked for, which is not captured: they are not sent")
  }

  /// Returns the table whose rows are sent next, with their keys. Requests that cannot be answered are dropped.
  private func nextRequested() throws -> (PostgresRegistry.Table, [[String]])? {
    var hasDropped = false
    for name in requests.keys.keys.sorted(by: { ($0.namespace, $0.table) < ($1.namespace, $1.table) }) {
      guard let table = capturedTable(name) else {
        tellMissing(name)
        requests.forget(name)
        hasDropped = true
        continue
      }
      if table.refresh == nil, !table.isKeyed { askForCopy(of: table) }
      guard registry.tables[table.relation]?.refresh == nil else {
        // The copy brings the rows.
        repairing.remove(table.relation)
        requests.forget(name)
        hasDropped = true
        continue
      }
      let count = table.schema.key.count
      let unfit = requests.keys[name]?.filter { $0.count != count }.map { $0.map(\.text) } ?? []
      if !unfit.isEmpty {
        progress.tell(
          "rows of table \(table.schema.fullName) were asked for by a key that it has no more: they are not sent")
        requests.remove(unfit, of: name)
        hasDropped = true
      }
      let keys = requests.keys[name]?.prefix(Self.keysPerSnapshot).map { $0.map(\.text) } ?? []
      guard keys.isEmpty else {
        if hasDropped { try saveRequests() }
        return (table, keys)
      }
      try endRepair(of: table.relation)
    }
    if hasDropped { try saveRequests() }
    return nil
  }

  private func saveRequests() throws {
    try saveRegistry()
    try requests.save()
  }

  /// Reads the rows into the trail at the present place, where their snapshot is true.
  func placeRequested(_ keys: [[String]]) throws {
    guard var chunk, let copier, let table = registry.tables[chunk.table.relation], table.epoch == chunk.table.epoch,
      table.refresh == nil
    else { return dropChunk() }
    if hasUnsynced { try sync() }
    var sent = 0
    do {
      try copier.lock(chunk)
      try openTransaction()
      let id = try trail.schemaID(table.schema, token: table.epoch)
      try beginRepair(of: table, rows: keys.count)
      sent = try copier.append(keys, of: &chunk, schemaID: id, to: trail, paused: keepStream)
      try copier.prove(chunk, by: source.connection)
    } catch let error as UnfitKey {
      return try refuse(
        [error.key], of: table,
        "a row of table \(table.schema.fullName) was asked for by a key that is none: \(error.cause.message)")
    } catch let error as CairnError where error.code == .tableRefused {
      return try refuse(keys, of: table, "rows were asked for that are not sent: \(error.message)")
    } catch {
      return try putOff(error)
    }
    try endTransaction()
    copier.close()
    self.chunk = PostgresChunk(
      table: table, part: .asked(Array(keys.prefix(sent))), snapshot: chunk.snapshot, stored: chunk.stored,
      end: chunk.end, isPlaced: true, rows: chunk.rows)
  }

  /// Forgets keys that were asked for, while their rows are being read.
  private func refuse(_ keys: [[String]], of table: PostgresRegistry.Table, _ text: String) throws {
    try abandon()
    dropChunk()
    let name = PostgresRequests.Name(namespace: table.schema.namespace, table: table.schema.name)
    progress.tell(text)
    requests.remove(keys, of: name)
    // An earlier run may have begun.
    if requests.keys[name] == nil { try endRepair(of: table.relation) }
    try requests.save()
  }

  /// The stream has passed the snapshot: either the rows stand right, or they are read again.
  func endRequested(_ chunk: PostgresChunk, _ keys: [[String]]) throws {
    guard !chunk.isRaced, let table = registry.tables[chunk.table.relation], table.refresh == nil,
      table.epoch == chunk.table.epoch
    else { return }
    let name = PostgresRequests.Name(namespace: table.schema.namespace, table: table.schema.name)
    requests.remove(keys, of: name)
    guard requests.keys[name] == nil else { return }
    try endRepair(of: table.relation)
    try sync()
    try requests.save()
    if !hasCopies { copier = nil }
  }

  /// Ends the refresh of a table's rows, even if an earlier run may have begun it.
  private func endRepair(of relation: UInt32) throws {
    guard let table = registry.tables[relation], table.refresh == nil, !isCopyAsked(of: table) else {
      repairing.remove(relation)
      return
    }
    try openTransaction()
    try beginRepair(of: table, rows: 0)
    let id = try trail.schemaID(table.schema, token: table.epoch)
    try PostgresCopier.append(Refresh(schemaID: id, event: .end(rows: 0)), trail)
    repairing.remove(relation)
    try endTransaction()
  }

  /// Requests a row that an update has moved without its unchanged values, while rows are sent again. The reader may
  /// not have that row.
  func wantRepaired(_ table: Captured, _ key: [String]) throws {
    requests.add(key, of: .init(namespace: table.schema.namespace, table: table.schema.name))
    try requests.save()
  }
}

/// The error for a key whose text the server does not accept.
struct UnfitKey: Error {
  let key: [String]
  let cause: PostgresError
}

extension PostgresCopier {
  private static let askedMillisecondsMax: Int64 = 200

  /// Appends, for each key, a chunk record and the row if it exists; stops after a limited time. Returns the number of
  /// keys done.
  func append(
    _ keys: [[String]], of chunk: inout PostgresChunk, schemaID id: UInt64, to trail: TrailWriter,
    paused: () throws -> Void
  ) throws -> Int {
    let begun = Clock.monotonicMilliseconds
    let schema = chunk.table.schema
    let key = schema.key.map { schema.columns[$0] }
    let signs = try key.map(equality)
    try connection.checkCasts(of: schema.qualifiedName)
    let columns = schema.columns.map(\.name.quotedName).joined(separator: ",")
    let terms = key.indices.map {
      "\(key[$0].name.quotedName) \(signs[$0]) \(PostgresConnection.bound("asked", $0))::\(key[$0].undomainedType)"
    }
    for (index, values) in keys.enumerated() {
      if index > 0, Clock.monotonicMilliseconds - begun > Self.askedMillisecondsMax { return index }
      try Self.append(Refresh(schemaID: id, event: .chunk(.row(image(values, schema)))), trail)
      do {
        try connection.bind(values, as: "asked")
        chunk.rows += try copyRows(
          "COPY (SELECT \(columns) FROM \(chunk.table.sqlName) WHERE \(terms.joined(separator: " AND "))) TO STDOUT",
          of: chunk.table, id, trail, paused)
      } catch let error as PostgresError where ["22", "23"].contains(error.sqlState.prefix(2)) {
        throw UnfitKey(key: values, cause: error)
      }
    }
    return keys.count
  }

  /// Returns the operator by which the key's index finds a value. The operator of an extension's type is not in the
  /// search path.
  private func equality(_ column: TableSchema.Column) throws -> String {
    let found = try connection.first(
      """
      WITH RECURSIVE base(id, type) AS (SELECT $1::regtype::oid, $1::regtype::oid
        UNION ALL SELECT base.id, t.typbasetype FROM base JOIN pg_type AS t ON t.oid = base.type WHERE t.typtype = 'd')
      SELECT format('OPERATOR(%I.%s)', n.nspname, o.oprname) FROM base
      JOIN pg_opclass AS c ON c.opcintype = base.type AND c.opcdefault
      JOIN pg_am AS m ON m.oid = c.opcmethod AND m.amname = 'btree'
      JOIN pg_amop AS a ON a.amopfamily = c.opcfamily AND a.amopstrategy = 3
        AND a.amoplefttype = c.opcintype AND a.amoprighttype = c.opcintype
      JOIN pg_operator AS o ON o.oid = a.amopopr JOIN pg_namespace AS n ON n.oid = o.oprnamespace LIMIT 1
      """, [column.declaredType])
    return found ?? "="
  }
}
