import Changes
import SQLiteKit
import SystemKit
import Trails

/// Sends the rows of a table into the trail in key order, a chunk at a time. A chunk holds its snapshot for some 50 ms.
struct TableRefresher {
  private static let chunkMillisecondsGoal: Int64 = 50
  private static let sortedRowsMin = 100_000
  /// The most bytes of rows in a chunk, by the size of the rows in the chunk before it.
  private static let chunkBytesGoal: Int64 = 16 << 20
  private var chunkRows = 1000
  private var sent: (rows: Int64, bytes: Int64) = (0, 0)
  /// Is called with each column whose text cannot be sent unchanged.
  var tellIllFormed: (TableSchema, Int) -> Void = { _, _ in }

  /// Appends one chunk of a table's refresh.
  ///
  /// A record before the first chunk begins the refresh, and a record after the last chunk ends the refresh.
  mutating func appendChunk(
    of layout: CaptureInstance, reason: Refresh.Reason, state: SourcePosition.RefreshState?, from source: Database,
    to trail: TrailWriter
  ) throws -> SourcePosition.RefreshState {
    let (begun, before) = (Clock.monotonicMilliseconds, sent)
    let id = try trail.schemaID(layout.schema, token: layout.token)
    var state = state ?? .init(layout: layout.id, rows: 0, cursor: nil, isDone: false, isPartial: layout.isPartial)
    if state.cursor == nil, state.rows == 0 {
      let estimate =
        layout.isPartial ? 0 : try Self.count(layout.schema.name, source)
      if estimate > 0 {
        let rowBytes = try FileRoom.size(of: source) / estimate
        chunkRows = min(chunkRows, max(Int(Self.chunkBytesGoal / max(rowBytes, 1)), 50))
      }
      try Self.append(
        Refresh(schemaID: id, event: .start(reason, layout.refreshMethod, estimatedRows: UInt64(estimate))), trail)
    }
    switch layout.refreshMethod {
    case .rows: try appendSome(layout, id, &state, source, trail)
    case .byKey: try appendByKey(layout, id, &state, source, trail)
    case .whole: try appendWhole(layout, id, &state, source, trail)
    }
    if state.isDone { try Self.append(Refresh(schemaID: id, event: .end(rows: state.rows)), trail) }
    let took = Clock.monotonicMilliseconds - begun
    if took < Self.chunkMillisecondsGoal / 2 { chunkRows = min(chunkRows * 2, 50_000) }
    if took > Self.chunkMillisecondsGoal * 2 { chunkRows = max(chunkRows / 2, 50) }
    let rowBytes = (sent.bytes - before.bytes) / max(sent.rows - before.rows, 1)
    chunkRows = min(chunkRows, max(Int(Self.chunkBytesGoal / max(rowBytes, 1)), 1))
    return state
  }

  /// Returns the number of rows in a chunk. Without a suitable index the number is larger, because each chunk then
  /// sorts the whole table.
  private func rows(of schema: TableSchema, _ source: Database) -> Int {
    let isSorted = schema.key.contains { schema.columns[$0].affinity != "INTEGER" }
    return isSorted && source.binaryCollation != Database.binary ? max(chunkRows, Self.sortedRowsMin) : chunkRows
  }

  mutating func takeSent() -> (rows: Int64, bytes: Int64) {
    defer { sent = (0, 0) }
    return sent
  }

  private static func count(_ table: String, _ source: Database) throws -> Int64 {
    do { return try source.integer("SELECT count(*) FROM \(table.quotedName)") ?? 0 } catch let error as SQLiteError
      where error.primary == 1
    { return 0 }
  }

  /// Appends the record that begins a refresh of only some rows. The record must come before journal rows that were
  /// written after the schema change.
  func begin(_ layout: CaptureInstance, _ trail: TrailWriter) throws {
    let id = try trail.schemaID(layout.schema, token: layout.token)
    try Self.append(
      Refresh(schemaID: id, event: .start(layout.refresh ?? .schemaChange, .rows, estimatedRows: 0)), trail)
  }

  /// Appends the record that begins a requested refresh, whose first chunk follows later.
  func beginWait(for layout: CaptureInstance, _ trail: TrailWriter) throws {
    let id = try trail.schemaID(layout.schema, token: layout.token)
    try Self.append(Refresh(schemaID: id, event: .start(.repair, .rows, estimatedRows: 0)), trail)
  }

  private static func append(_ refresh: Refresh, _ trail: TrailWriter) throws {
    var writer = ByteWriter(capacity: 256)
    writer.append(refresh)
    try trail.append(kind: RecordKind.refresh, writer.bytes)
  }

  private mutating func appendByKey(
    _ layout: CaptureInstance, _ id: UInt64, _ state: inout SourcePosition.RefreshState, _ source: Database,
    _ trail: TrailWriter
  ) throws {
    let schema = layout.schema
    let table = schema.name.quotedName
    let isNullable = schema.flags.contains(.nullableKey)
    let columns = schema.columns.map(\.name.quotedName).joined(separator: ",")
    if isNullable, state.cursor == nil {
      // Rows with NULL in the key are few: they form one chunk.
      try Self.append(Refresh(schemaID: id, event: .chunk(.nullKeys)), trail)
      let condition = schema.key.map { "\(schema.columns[$0].name.quotedName) IS NULL" }.joined(separator: " OR ")
      state.rows += try appendRows(
        "SELECT \(columns) FROM \(table) WHERE \(condition)", [], id, schema, source, trail)
    }
    let range = KeyRange(schema, after: state.cursor, binary: source.binaryCollation)
    let count = rows(of: schema, source)
    let through = try source.query(
      "SELECT \(range.names) FROM \(table)\(range.clause())\(range.order) LIMIT 1 OFFSET \(count - 1)",
      range.parameters()
    ).first
    try Self.append(
      Refresh(
        schemaID: id,
        event: .chunk(.keys(after: range.after.map(spread(schema)), through: through.map(spread(schema))))),
      trail)
    state.rows += try appendRows(
      "SELECT \(columns) FROM \(table)\(range.clause(through: through))\(range.order)",
      range.parameters(through: through), id, schema, source, trail)
    try WaitingRecords(schema, id).append(
      within: .init(from: range.after?.first, through: through?.first), from: source, to: trail)
    state.cursor = through ?? range.after ?? []
    state.isDone = through == nil
  }

  /// Appends the next rows, in key order, whose added columns differ from their defaults.
  private mutating func appendSome(
    _ layout: CaptureInstance, _ id: UInt64, _ state: inout SourcePosition.RefreshState, _ source: Database,
    _ trail: TrailWriter
  ) throws {
    let schema = layout.schema
    let added = layout.firstNew.flatMap { AddedColumns(schema, from: $0) }
    let wanted = added?.condition ?? (sql: "1", parameters: [])
    let range = KeyRange(schema, after: state.cursor, binary: source.binaryCollation)
    let columns = schema.columns.map(\.name.quotedName).joined(separator: ",")
    let table = schema.name.quotedName
    let count = rows(of: schema, source)
    let through = try source.query(
      "SELECT \(range.names) FROM \(table)\(range.clause())\(range.order) LIMIT 1 OFFSET \(count - 1)",
      range.parameters()
    ).first
    var isBegun = false
    state.rows += try appendRows(
      "SELECT \(columns) FROM \(table)\(range.clause(through: through, and: wanted.sql))\(range.order)",
      range.parameters(through: through) + wanted.parameters, id, schema, source, trail
    ) { row in
      guard added?.isOther(row) ?? true else { return false }
      if !isBegun { try Self.append(Refresh(schemaID: id, event: .chunk(.some)), trail) }
      isBegun = true
      return true
    }
    state.cursor = through ?? state.cursor ?? []
    state.isDone = through == nil
  }

  private func spread(_ schema: TableSchema) -> ([Value]) -> [Value?] {
    { key in
      var image: [Value?] = schema.columns.map { _ in nil }
      for (index, value) in zip(schema.key, key) { image[index] = value }
      return image
    }
  }

  private mutating func appendWhole(
    _ layout: CaptureInstance, _ id: UInt64, _ state: inout SourcePosition.RefreshState, _ source: Database,
    _ trail: TrailWriter
  ) throws {
    let schema = layout.schema
    try Self.append(Refresh(schemaID: id, event: .chunk(.unkeyed)), trail)
    let columns = schema.columns.map(\.name.quotedName).joined(separator: ",")
    let table = schema.name.quotedName
    guard let rowid = layout.rowidName else { return }
    let after = state.cursor?.first ?? .integer(.min)
    let lower = "\(rowid) \(state.cursor == nil ? ">=" : ">") ?"
    let through = try source.first(
      "SELECT \(rowid) FROM \(table) WHERE \(lower) ORDER BY \(rowid) LIMIT 1 OFFSET \(chunkRows - 1)", [after])
    state.rows += try appendRows(
      "SELECT \(columns) FROM \(table) WHERE \(lower) AND \(rowid) <= ? ORDER BY \(rowid)",
      [after, through ?? .integer(.max)], id, schema, source, trail)
    state.cursor = [through ?? .integer(.max)]
    state.isDone = through == nil
  }

  private mutating func appendRows(
    _ sql: String, _ parameters: [Value], _ id: UInt64, _ schema: TableSchema, _ source: Database, _ trail: TrailWriter,
    isWanted: (Statement) throws -> Bool = { _ in true }
  ) throws -> UInt64 {
    let statement = try source.prepare(sql)
    try statement.bind(parameters)
    var image = ByteWriter()
    var record = ByteWriter()
    var rows: UInt64 = 0
    var room = try FileRoom(source, schema)
    while try statement.step() {
      try room.takeRow()
      guard try isWanted(statement) else { continue }
      image.removeAll()
      for index in schema.columns.indices { statement.encode(index, into: &image) }
      if let column = source.takeIllFormedColumn() { tellIllFormed(schema, column) }
      sent = (sent.rows + 1, sent.bytes + Int64(image.count))
      try room.take(bytes: image.count)
      record.removeAll()
      record.appendVarint(id)
      record.appendCounted(image.bytes)
      try trail.append(kind: RecordKind.refreshRow, record.bytes)
      rows += 1
    }
    return rows
  }
}

/// The rows of a table after a key, in key order, without NULL in the key.
private struct KeyRange {
  let names: String
  let order: String
  let after: [Value]?
  private let isNullable: Bool
  private let key: [String]
  private let sorted: [String]

  /// Creates the range of rows after the key `cursor`.
  ///
  /// - Parameter collation: The collation for comparisons in place of BINARY.
  init(_ schema: TableSchema, after cursor: [Value]?, binary collation: String) {
    key = schema.key.map { schema.columns[$0].name.quotedName }
    sorted = schema.key.map { index in
      let column = schema.columns[index]
      let isBinary = column.collation.isSameInSQLite(as: Database.binary)
      return column.name.quotedName + " COLLATE " + (isBinary ? collation : column.collation).quotedName
    }
    names = key.joined(separator: ",")
    order = " ORDER BY " + sorted.joined(separator: ",")
    after = cursor.flatMap { $0.isEmpty ? nil : $0 }
    isNullable = schema.flags.contains(.nullableKey)
  }

  func clause(through: [Value]? = nil, and more: String? = nil) -> String {
    var terms = isNullable ? key.map { "\($0) IS NOT NULL" } : []
    if after != nil { terms.append(bound(">")) }
    if through != nil { terms.append(bound("<=")) }
    if let more { terms.append(more) }
    return terms.isEmpty ? "" : " WHERE " + terms.joined(separator: " AND ")
  }

  func parameters(through: [Value]? = nil) -> [Value] { (after ?? []) + (through ?? []) }

  private func bound(_ sign: String) -> String {
    sorted.count == 1
      ? "\(sorted[0]) \(sign) ?"
      : "(\(sorted.joined(separator: ","))) \(sign) (\(sorted.map { _ in "?" }.joined(separator: ",")))"
  }
}
