import Changes
import Mapping
import SQLiteKit

/// Reads rows of an SQLite file. Each slice is one statement with its own snapshot.
final class SQLiteRowReader: RowReader {
  let engine = Engine.sqlite
  let database: Database
  let side: CanonicalColumn.Side
  private let seed: UInt64
  private var statements: [NameKey: Statement] = [:]
  private var current: Statement?
  /// The key or rowid with which the last slice of a table ended, and that table.
  private var ended: (table: String, last: [Value])?

  init(_ database: Database, _ side: CanonicalColumn.Side, seed: UInt64) {
    (self.database, self.side, self.seed) = (database, side, seed)
  }

  private func statement(_ sql: String) throws -> Statement {
    if let known = statements[sql] { return known }
    if statements.count > 100 { statements.removeAll() }
    let made = try database.prepare(sql)
    statements[sql] = made
    return made
  }

  func parts(of table: ComparedTable) throws -> PartSequence {
    table.end(side).rowidName == nil && table.key.isEmpty ? .slices([.all]) : .behind
  }

  func scan(
    _ table: ComparedTable, _ slice: Slice, naming: Bool, _ body: (borrowing RowMark) throws -> Void
  ) throws -> SliceEnd {
    let query = Query(table, table.end(side), slice)
    let statement = try statement(query.sql)
    current = statement
    defer {
      current = nil
      statement.reset()
    }
    try statement.bind(query.parameters)
    var hasher = RowHasher(table, side, seed: seed)
    var end = SliceEnd()
    let count = table.columns.count
    let namesKey = naming && !table.key.isEmpty
    var room: FileRoom?
    while try statement.step() {
      if room == nil { room = try FileRoom(database, table.end(side).schema) }
      try room?.takeRow()
      hasher.begin()
      for place in 0..<count {
        let value = statement.view(place)
        if case .text(let bytes) = value { try room?.take(bytes: bytes.count) }
        if case .blob(let bytes) = value { try room?.take(bytes: bytes.count) }
        hasher.append(place, value)
      }
      let row = hasher.hash
      let key = namesKey ? hasher.keyHash { statement.view($0) } : nil
      end.rows += 1
      end.bytes += hasher.bytes
      try body(
        RowMark(
          keyHash: key ?? (naming ? row : 0), rowHash: row, bytes: hasher.bytes,
          key: key == nil ? UnsafeRawBufferPointer(rebasing: hasher.key[..<0]) : hasher.key))
      if end.rows == query.limit { end.last = query.cursor.map { statement.value($0) } }
    }
    try checkProgress(table, after: slice.after, last: end.last)
    return end
  }

  /// Throws `database-damaged` if a slice does not end after the one before it. The pages of a damaged file may lead back
  /// to earlier rows.
  private func checkProgress(_ table: ComparedTable, after: [Value]?, last: [Value]?) throws {
    let end = table.end(side)
    defer { ended = last.map { (end.sqlName, $0) } }
    guard let last, let after, let ended, ended.table.hasSameBytes(as: end.sqlName), ended.last == after else { return }
    let terms = table.key.count == last.count ? table.key.map { end.collation($0) } : last.map { _ in "" }
    let (left, right) = (terms.map { "?\($0)" }.joined(separator: ","), terms.map { _ in "?" }.joined(separator: ","))
    let sql = terms.count == 1 ? "SELECT \(left) > \(right)" : "SELECT (\(left)) > (\(right))"
    guard try database.first(sql, last + after) != .integer(0) else {
      throw CairnError(
        .databaseDamaged, "table \(end.schema.name) of \(database.path) leads from a row back to an earlier one",
        hint: "check the file with 'PRAGMA integrity_check'", context: ["table": end.schema.name])
    }
  }

  func currentRow(_ table: ComparedTable) -> [Value] {
    table.columns.indices.map { current?.value($0) ?? .null }
  }

  var keysAtOnce: Int { 100 }

  func rows(_ table: ComparedTable, keys: [[Value]], _ body: (_ index: Int?, [Value]) throws -> Void) throws {
    // Use one snapshot for all keys, since opening one takes longer than finding a row.
    guard database.isInTransaction else {
      return try database.transaction("BEGIN") { try rows(table, keys: keys, body) }
    }
    let end = table.end(side)
    let condition = table.key.map { "\(end.collated($0)) = ?" }.joined(separator: " AND ")
    let statement = try statement("SELECT \(end.columnList) FROM \(end.sqlName) WHERE \(condition)")
    defer { statement.reset() }
    for (index, key) in keys.enumerated() {
      statement.reset()
      try statement.bind(key)
      while try statement.step() { try body(index, table.columns.indices.map { statement.value($0) }) }
    }
  }

  private struct Query {
    let sql: String
    var parameters: [Value] = []
    var limit: Int?
    /// The indexes of the result columns that have the key or rowid. The next slice starts after their last values.
    var cursor: [Int] = []

    init(_ table: ComparedTable, _ end: TableEnd, _ slice: Slice) {
      let terms = table.key.map(end.collated)
      func bound(_ sign: String) -> String {
        terms.count == 1
          ? "\(terms[0]) \(sign) ?"
          : "(\(terms.joined(separator: ","))) \(sign) (\(terms.map { _ in "?" }.joined(separator: ",")))"
      }
      let head = "SELECT \(end.columnList)"
      let notNull = table.isNullable ? table.key.map { "\(end.name($0)) IS NOT NULL" } : []
      func clause(_ conditions: [String]) -> String {
        conditions.isEmpty ? "" : " WHERE " + conditions.joined(separator: " AND ")
      }
      switch slice {
      case .range(let after, let through, let limit):
        let conditions = notNull + (after == nil ? [] : [bound(">")]) + (through == nil ? [] : [bound("<=")])
        parameters = (after ?? []) + (through ?? [])
        self.limit = limit
        cursor = table.key
        let order = limit.map { " ORDER BY \(terms.joined(separator: ",")) LIMIT \($0)" } ?? ""
        sql = "\(head) FROM \(end.sqlName)\(clause(conditions))\(order)"
      case .nullKeys:
        let condition = table.key.map { "\(end.name($0)) IS NULL" }.joined(separator: " OR ")
        sql = "\(head) FROM \(end.sqlName) WHERE \(condition)"
      case .behind(let after, let limit):
        self.limit = limit
        parameters = after ?? []
        if let rowid = end.rowidName {
          cursor = [table.columns.count]
          let condition = after == nil ? "" : " WHERE \(rowid) > ?"
          sql = "\(head),\(rowid) FROM \(end.sqlName)\(condition) ORDER BY \(rowid) LIMIT \(limit)"
        } else {
          cursor = table.key
          sql =
            "\(head) FROM \(end.sqlName)\(clause(after == nil ? [] : [bound(">")])) "
            + "ORDER BY \(terms.joined(separator: ",")) LIMIT \(limit)"
        }
      case .pages, .all: sql = "\(head) FROM \(end.sqlName)"
      }
    }
  }
}
