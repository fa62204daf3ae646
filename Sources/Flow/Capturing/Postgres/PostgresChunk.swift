import Changes
import PostgresKit
import SystemKit
import Trails

/// A part of a table, read in one snapshot. The chunk belongs in the trail right before the first transaction that its
/// snapshot does not show. If a transaction that the snapshot shows comes after that place in the stream, the chunk is
/// *raced*: its rows are read again.
struct PostgresChunk {
  enum Part {
    case next
    /// The row with this key, because an update of the row in the stream lacks some values.
    case row([String])
    case asked([[String]])

    var isNext: Bool { if case .next = self { true } else { false } }
  }

  enum Obstacle: Error {
    case isLocked
    /// The table differs from the one in the snapshot or in the trail.
    case hasChanged
  }

  let table: PostgresRegistry.Table
  let part: Part
  let snapshot: PostgresSnapshot
  let stored: StoredTable?
  /// The LSN before which all transactions that the snapshot shows were committed.
  let end: LSN
  /// The key of the last row of the chunk; nil if the chunk reaches the end of the table.
  var through: [String]?
  var rows: UInt64 = 0
}

struct PostgresCopier {
  private static let chunkMillisecondsGoal: Int64 = 200
  static let patience = "SET LOCAL lock_timeout = 100"
  /// The smallest number of rows in a chunk if no index has the order of the chunks, so that each chunk sorts the whole
  /// table.
  private static let sortedRowsMin = 100_000
  private var rowsGoal = 5000
  let connection: PostgresConnection
  /// Whether the database has collation `C` and encoding UTF-8.
  private let isC: Bool
  /// Whether the database has encoding UTF-8. If not, capture converts text to sort it by the bytes of UTF-8.
  private let isUTF8: Bool

  init(_ connection: PostgresConnection) throws {
    self.connection = connection
    isUTF8 = ["UTF8", "SQL_ASCII"].contains(try connection.first("SELECT current_setting('server_encoding')") ?? "")
    isC =
      try isUTF8
      && connection.first(
        "SELECT datcollate IN ('C', 'POSIX') AND datlocprovider = 'c' FROM pg_database WHERE datname = current_database()"
      )
        == "t"
    try connection.executeScript("SET row_security = off; SET statement_timeout = 0; SET lock_timeout = 0")
    try connection.execute("SET idle_in_transaction_session_timeout = 0")
  }

  /// Opens a snapshot, which stays open until ``close()``, and returns a chunk of the table with it.
  func open(_ table: PostgresRegistry.Table, _ part: PostgresChunk.Part) throws -> PostgresChunk {
    try connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
    let (snapshot, end) = try PostgresSnapshot.current(connection)
    return PostgresChunk(
      table: table, part: part, snapshot: snapshot, stored: try StoredTable(table.relation, on: connection), end: end)
  }

  /// Keeps the table's columns from changing until ``close()``.
  ///
  /// - Throws: ``PostgresChunk/Obstacle`` if another session keeps the table locked, or has altered the table.
  func lock(_ chunk: PostgresChunk) throws {
    guard chunk.stored?.isKnown(as: chunk.table) == true else { throw PostgresChunk.Obstacle.hasChanged }
    do {
      try connection.execute(Self.patience)
      // The wait for the lock may have ended with another table, or other columns. The snapshot does not show them.
      let table = chunk.table
      try connection.hold(
        table.sqlName,
        as: HeldShape(table: table.relation, columns: table.schema.columns.map(\.name), types: table.types.map(\.oid)))
    } catch let error as PostgresError where error.isLockTimeout {
      throw PostgresChunk.Obstacle.isLocked
    } catch let error as CairnError where error.code == .tableRefused {
      throw PostgresChunk.Obstacle.hasChanged
    }
  }

  /// Checks that the table and its types have not changed since the snapshot.
  ///
  /// - Parameter other: A connection outside of the snapshot, which reads the present types.
  /// - Throws: ``PostgresChunk/Obstacle`` if they have changed.
  func prove(_ chunk: PostgresChunk, by other: PostgresConnection) throws {
    let table = chunk.table
    do {
      // A session that waits for the end of this snapshot may have locked a catalog, or may be queued for the table.
      let (now, forms) = try other.catalog(patience: Self.patience) {
        let now = try StoredTable(table.relation, on: other)
        return (now, table.forms.isEmpty ? [:] : try other.table(table.relation)?.forms)
      }
      guard now == chunk.stored, Optional.areSame(forms, table.forms) else { throw PostgresChunk.Obstacle.hasChanged }
    } catch let error as PostgresError where error.isLockTimeout { throw PostgresChunk.Obstacle.isLocked }
  }

  func close() { connection.rollback() }

  func estimate(_ table: PostgresRegistry.Table) throws -> UInt64 {
    let rows = try connection.first(
      "SELECT greatest(sum(c.reltuples), 0)::bigint FROM pg_class AS c WHERE c.oid = $1::oid OR c.oid IN (SELECT relid FROM pg_partition_tree($1::oid::regclass) WHERE isleaf)",
      [String(table.relation)])
    return rows.flatMap { UInt64($0) } ?? 0
  }

  // MARK: Keyed tables

  /// Appends a chunk record and the chunk's rows to the open transaction of the trail.
  ///
  /// - Parameter paused: Is called after every 1,000 rows.
  mutating func append(
    _ chunk: inout PostgresChunk, after cursor: [String]?, schemaID id: UInt64, to trail: TrailWriter,
    paused: () throws -> Void
  ) throws {
    let begun = Clock.monotonicMilliseconds
    let schema = chunk.table.schema
    let key = schema.key.map { schema.columns[$0] }
    let terms = key.map(term)
    let names = key.map(\.name.quotedName).joined(separator: ",")
    let from = chunk.table.sqlName
    let order = " ORDER BY " + terms.joined(separator: ",")
    var conditions: [String] = []
    var after = cursor
    switch chunk.part {
    case .next:
      if cursor != nil { conditions.append(comparison(key, terms, ">", { "$\($0 + 1)" })) }
      let isSorted = key.contains { ChunkOrder($0) == .printed || (ChunkOrder($0) == .text && !isC) }
      let limit = isSorted ? max(rowsGoal, Self.sortedRowsMin) : rowsGoal
      chunk.through = try keyRow(
        "SELECT \(names) FROM \(from)\(clause(conditions))\(order) LIMIT 1 OFFSET \(limit - 1)", cursor ?? [])
    case .row(let wanted):
      let backwards = " ORDER BY " + terms.map { $0 + " DESC" }.joined(separator: ",")
      let below = comparison(key, terms, "<", { "$\($0 + 1)" })
      after = try keyRow("SELECT \(names) FROM \(from)\(clause([below]))\(backwards) LIMIT 1", wanted)
      chunk.through = wanted
    case .asked: return
    }
    conditions = []
    for (name, sign, border) in [("after", ">", after), ("through", "<=", chunk.through)] {
      guard let border else { continue }
      try connection.bind(border, as: name)
      conditions.append(comparison(key, terms, sign, { PostgresConnection.bound(name, $0) }))
    }
    try Self.append(
      Refresh(
        schemaID: id,
        event: .chunk(.keys(after: after.map { image($0, schema) }, through: chunk.through.map { image($0, schema) }))),
      trail)
    let columns = schema.columns.map(\.name.quotedName).joined(separator: ",")
    chunk.rows = try copyRows(
      "COPY (SELECT \(columns) FROM \(from)\(clause(conditions))\(order)) TO STDOUT", of: chunk.table, id, trail, paused
    )
    try appendWaiting(schema, id, after: after?.first, through: chunk.through?.first, to: trail)
    let took = Clock.monotonicMilliseconds - begun
    guard chunk.part.isNext else { return }
    if took < Self.chunkMillisecondsGoal / 2 { rowsGoal = min(rowsGoal * 2, 100_000) }
    if took > Self.chunkMillisecondsGoal * 2 { rowsGoal = max(rowsGoal / 2, 100) }
  }

  private func term(_ column: TableSchema.Column) -> String {
    let order = ChunkOrder(column)
    if order == .text, isC, column.collation.isEmpty { return column.name.quotedName }
    let name = column.name.quotedName
    guard !isUTF8, order != .native else { return order.postgresTerm(name) }
    return bytes(order == .printed ? "concat(\(name))" : name)
  }

  private func bytes(_ text: String) -> String {
    isUTF8 ? "\(text) COLLATE \"C\"" : "convert_to(\(text), 'UTF8')"
  }

  /// Returns an SQL condition that compares the key with given values.
  ///
  /// - Parameter value: Returns the SQL expression of the value for a key column, by the column's place in the key.
  private func comparison(
    _ key: [TableSchema.Column], _ terms: [String], _ sign: String, _ value: (Int) -> String
  ) -> String {
    let values = key.enumerated().map { place, column in
      // The cast is to one of PostgreSQL's own types; a cast to a domain would run its CHECK.
      ChunkOrder(column) == .native
        ? "\(value(place))::\(column.undomainedType)" : bytes("\(value(place))::text")
    }
    return terms.count == 1
      ? "\(terms[0]) \(sign) \(values[0])"
      : "(\(terms.joined(separator: ","))) \(sign) (\(values.joined(separator: ",")))"
  }

  private func clause(_ conditions: [String]) -> String {
    conditions.isEmpty ? "" : " WHERE " + conditions.joined(separator: " AND ")
  }

  /// Returns the first row of a query as pgoutput prints it; nil if there is no row.
  private func keyRow(_ sql: String, _ values: [String]) throws -> [String]? {
    try connection.query(sql, values).first.map { $0.map { $0 ?? "" } }
  }

  func image(_ key: [String], _ schema: TableSchema) -> [Value?] {
    var image: [Value?] = schema.columns.map { _ in nil }
    for (index, value) in zip(schema.key, key) { image[index] = .exact(Array(value.utf8)) }
    return image
  }

  // MARK: Tables without key

  /// Appends one chunk record and all rows of a table without a key to the open transaction of the trail.
  func appendWhole(
    _ chunk: inout PostgresChunk, schemaID id: UInt64, to trail: TrailWriter, paused: () throws -> Void
  ) throws {
    try Self.append(Refresh(schemaID: id, event: .chunk(.unkeyed)), trail)
    let columns = chunk.table.schema.columns.map(\.name.quotedName).joined(separator: ",")
    chunk.rows = try copyRows(
      "COPY (SELECT \(columns) FROM \(chunk.table.sqlName)) TO STDOUT", of: chunk.table, id, trail, paused)
  }

  func copyRows(
    _ sql: String, of table: PostgresRegistry.Table, _ id: UInt64, _ trail: TrailWriter, _ paused: () throws -> Void
  ) throws -> UInt64 {
    var record = ByteWriter()
    var scratch = ByteWriter()
    var field = ByteWriter()
    var rows: UInt64 = 0
    do {
      try connection.copyOut(sql) { line in
        if rows % 1000 == 999 { try paused() }
        record.removeAll()
        record.appendVarint(id)
        CopyText.appendImage(line, to: &record, scratch: &scratch, field: &field)
        try trail.append(kind: RecordKind.refreshRow, record.bytes)
        rows += 1
      }
    } catch var error as PostgresError where error.isOversized {
      error.table = table.schema.fullName
      throw error
    }
    return rows
  }

  static func append(_ refresh: Refresh, _ trail: TrailWriter) throws {
    var writer = ByteWriter(capacity: 256)
    writer.append(refresh)
    try trail.append(kind: RecordKind.refresh, writer.bytes)
  }
}

extension PostgresRegistry.Table {
  /// The table's name in a query, with `ONLY` unless the table is partitioned.
  var sqlName: String { (isPartitioned ? "" : "ONLY ") + schema.qualifiedName }
}
