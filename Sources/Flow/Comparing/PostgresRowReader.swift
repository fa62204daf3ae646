import Changes
import Mapping
import PostgresKit

/// Reads rows of a PostgreSQL database by COPY. Each slice is one statement with its own snapshot.
final class PostgresRowReader: RowReader {
  /// The longest wait for a lock of another session, in milliseconds.
  static let patienceMilliseconds = 5000

  let engine = Engine.postgres
  let connection: PostgresConnection
  let side: CanonicalColumn.Side
  private let seed: UInt64
  private var fields = CopyFields()
  private var line = UnsafeRawBufferPointer(start: nil, count: 0)

  init(_ connection: PostgresConnection, _ side: CanonicalColumn.Side, seed: UInt64) throws {
    (self.connection, self.side, self.seed) = (connection, side, seed)
    // Make the planner read ranges by index, independent of its statistics.
    try connection.executeScript(
      """
      SET row_security = off; SET statement_timeout = 0; SET lock_timeout = \(Self.patienceMilliseconds);
      SET idle_in_transaction_session_timeout = 0; SET jit = off; SET max_parallel_workers_per_gather = 0;
      SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_sort = off
      """)
  }

  func parts(of table: ComparedTable) throws -> PartSequence {
    let end = table.end(side)
    guard connection.serverVersion >= 140000 else { return .slices([.all]) }
    let leaves = try patiently(end.sqlName) {
      end.isPartitioned
        ? try connection.query(
          """
          SELECT p.relid::regclass::text, pg_relation_size(p.relid) / current_setting('block_size')::bigint, c.relkind
          FROM pg_partition_tree($1::oid::regclass) AS p JOIN pg_class AS c ON c.oid = p.relid WHERE p.isleaf
          """, [String(end.oid)])
        : [
          [
            end.sqlName,
            try connection.first(
              "SELECT pg_relation_size($1::oid::regclass) / current_setting('block_size')::bigint", [String(end.oid)]),
          ]
        ]
    }
    // A foreign table has no pages here, and can only be locked with its root.
    if leaves.contains(where: { $0.last == "f" }) { return .slices([.all]) }
    return .pages(leaves.map { (table: $0[0] ?? "", pages: $0[1].flatMap { UInt32($0) } ?? 0) })
  }

  func scan(
    _ table: ComparedTable, _ slice: Slice, naming: Bool, _ body: (borrowing RowMark) throws -> Void
  ) throws -> SliceEnd {
    let end = table.end(side)
    let (query, limit) = Self.query(table, end, slice)
    var borders: [(String, [String])] = []
    if case .range(let after, let through, _) = slice {
      borders = [("after", after), ("through", through)].compactMap { name, key in
        key.map { (name, $0.map(Self.text).map { $0 ?? "" }) }
      }
    }
    var name = end.sqlName
    if case .pages(let part, _, _) = slice { name = part }
    var hasher = RowHasher(table, side, seed: seed)
    var read = SliceEnd()
    let namesKey = naming && !table.key.isEmpty
    // Without `naming`, only the lines count: equal values give equal lines.
    let isRaw = table.isSame && !naming
    let bind = { for (name, key) in borders { try self.connection.bind(key, as: name) } }
    try copy(query, of: end, from: name, bind) { line in
      self.line = line
      read.rows += 1
      let isLast = read.rows == limit
      if !isRaw || isLast { fields.take(line) }
      let row: UInt64
      if isRaw {
        row = hasher.hash(line)
        read.bytes += line.count
      } else {
        hasher.begin()
        for place in 0..<table.columns.count { hasher.append(place, fields[place]) }
        row = hasher.hash
        read.bytes += hasher.bytes
      }
      let key = namesKey ? hasher.keyHash { self.fields[$0] } : nil
      try body(
        RowMark(
          keyHash: key ?? (naming ? row : 0), rowHash: row, bytes: line.count,
          key: key == nil ? UnsafeRawBufferPointer(rebasing: hasher.key[..<0]) : hasher.key))
      if isLast { read.last = table.key.map { fields[$0].value ?? .null } }
    }
    return read
  }

  func currentRow(_ table: ComparedTable) -> [Value] {
    fields.take(line)
    return table.columns.indices.map { fields[$0].value ?? .null }
  }

  var keysAtOnce: Int { 1000 }

  func rows(_ table: ComparedTable, keys: [[Value]], _ body: (_ index: Int?, [Value]) throws -> Void) throws {
    guard !keys.isEmpty else { return }
    let end = table.end(side)
    let names = table.key.map(end.name)
    let values = table.key.enumerated().map { index, place in
      let column = end.column(place)
      let collation = column.collation.isEmpty ? "" : " COLLATE \(column.collation)"
      return "bound.c\(index)::\(column.castName)\(collation)"
    }
    // The planner would turn a list of rows into one condition for each row.
    let condition =
      "(\(names.joined(separator: ","))) IN (SELECT \(values.joined(separator: ",")) FROM \(PostgresConnection.boundRows("keys", names.count)))"
    let query = "SELECT \(end.columnList) FROM \(end.sqlName) WHERE \(condition)"
    let bind = { try self.connection.bind(rows: keys.map { $0.map(Self.text) }, as: "keys") }
    try copy(query, of: end, from: end.sqlName, bind) { line in
      fields.take(line)
      try body(nil, table.columns.indices.map { fields[$0].value ?? .null })
    }
  }

  // MARK: SQL

  /// Runs a COPY of `query` in a transaction, after `bind` has bound its parameters. The table is locked before the
  /// snapshot is taken.
  ///
  /// Source: https://www.postgresql.org/docs/15/mvcc-caveats.html
  private func copy(
    _ query: String, of end: TableEnd, from name: String, _ bind: () throws -> Void,
    _ line: (UnsafeRawBufferPointer) throws -> Void
  ) throws {
    let isOwn = !connection.isInTransaction
    if isOwn { try connection.execute("BEGIN READ ONLY") }
    do {
      try bind()
      try withForeignPartitions(of: end) {
        try patiently(name) {
          _ = try connection.hold(name, takesTexts: true, as: end.shape)
          try connection.copyOut("COPY (\(query)) TO STDOUT", line)
        }
      }
      if isOwn { try connection.execute("COMMIT") }
    } catch {
      if isOwn { connection.rollback() }
      throw error
    }
  }

  /// Runs `body`, which reads a table and waits for locks of other sessions for a limited time.
  ///
  /// - Throws: `table-refused` if another session keeps the table locked for longer than ``patienceMilliseconds``, or
  ///   if the role may not read the table.
  private func patiently<T>(_ name: String, _ body: () throws -> T) throws -> T {
    do { return try body() } catch let error as PostgresError where error.isLockTimeout {
      throw CairnError(
        .tableRefused,
        "another session keeps table \(name) of \(connection.place) locked for more than \(Self.patienceMilliseconds / 1000) s",
        hint: "look for it in pg_locks, and compare the table again", context: ["table": name])
    } catch let error as PostgresError where error.isPrivilege {
      throw CairnError(
        .tableRefused, "\(connection.place) does not let this role read table \(name): \(error.message)",
        hint: "GRANT SELECT on it, without row-level security for this role; then compare the table again",
        context: ["table": name])
    }
  }

  /// Runs `read`, which reads a table.
  ///
  /// - Throws: `table-refused` if `read` fails and the table has a foreign partition.
  private func withForeignPartitions(of end: TableEnd, _ read: () throws -> Void) throws {
    guard end.isPartitioned, let partition = try connection.foreignPartition(of: end.oid) else { return try read() }
    do { try read() } catch let error as PostgresError where !error.isConnectionLost {
      throw CairnError(
        .tableRefused,
        "table \(end.sqlName) of \(connection.place) cannot be read with its foreign partition \(partition): \(error.message)",
        hint: "see that SELECT FROM \(partition) works, and compare the table again", context: ["table": end.sqlName])
    }
  }

  private static func text(_ value: Value) -> String? {
    if case .exact(let bytes) = value { String(decoding: bytes, as: UTF8.self) } else { nil }
  }

  /// Returns a key as SQL: its bound parameters, each cast to the type of its column.
  ///
  /// - Parameter name: The prefix under which the values were bound.
  private static func bound(_ table: ComparedTable, _ end: TableEnd, _ key: [Value], _ name: String) -> String {
    let values = zip(table.key, key).enumerated().map { index, part in
      text(part.1) == nil
        ? "NULL" : "\(PostgresConnection.bound(name, index))::\(end.column(part.0).castName)"
    }
    return values.count == 1 ? values[0] : "(\(values.joined(separator: ",")))"
  }

  private static func query(_ table: ComparedTable, _ end: TableEnd, _ slice: Slice) -> (String, limit: Int?) {
    let names = table.key.map(end.name)
    let list = names.joined(separator: ",")
    let term = names.count == 1 ? list : "(\(list))"
    let head = "SELECT \(end.columnList) FROM "
    func clause(_ conditions: [String]) -> String {
      conditions.isEmpty ? "" : " WHERE " + conditions.joined(separator: " AND ")
    }
    switch slice {
    case .range(let after, let through, let limit):
      var conditions = table.isNullable ? names.map { "\($0) IS NOT NULL" } : []
      if let after { conditions.append("\(term) > \(bound(table, end, after, "after"))") }
      if let through { conditions.append("\(term) <= \(bound(table, end, through, "through"))") }
      let order = limit.map { " ORDER BY \(list) LIMIT \($0)" } ?? ""
      return ("\(head)\(end.sqlName)\(clause(conditions))\(order)", limit)
    case .nullKeys:
      return ("\(head)\(end.sqlName) WHERE \(names.map { "\($0) IS NULL" }.joined(separator: " OR "))", nil)
    case .pages(let name, let from, let below):
      let upper = below.map { " AND ctid < '(\($0),0)'::tid" } ?? ""
      return ("\(head)\(name) WHERE ctid >= '(\(from),0)'::tid\(upper)", nil)
    case .behind, .all: return ("\(head)\(end.sqlName)", nil)
    }
  }
}

extension TableSchema.Column {
  /// The type name for a cast that keeps the whole value. A cast to `character` would shorten a text.
  var castName: String { undomainedType == "character" ? "bpchar" : undomainedType }
}

/// The unescaped fields of one line of COPY output.
struct CopyFields: ~Copyable {
  private var bytes = ByteWriter()
  private var field = ByteWriter(capacity: 256)
  /// The start and length of each value; length -1 for NULL.
  private var slots: [(start: Int, count: Int)] = []

  mutating func take(_ line: UnsafeRawBufferPointer) {
    bytes.removeAll()
    bytes.reserve(line.count)
    slots.removeAll(keepingCapacity: true)
    CopyText.forEachField(line, field: &field) { text in
      slots.append((bytes.count, text?.count ?? -1))
      if let text { bytes.append(text) }
    }
  }

  subscript(_ place: Int) -> ColumnView {
    guard place < slots.count, slots[place].count >= 0 else { return .null }
    let slot = slots[place]
    return .exact(UnsafeRawBufferPointer(rebasing: bytes.bytes[slot.start..<slot.start + slot.count]))
  }
}
