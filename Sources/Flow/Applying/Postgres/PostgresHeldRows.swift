import Changes

/// Rows that cannot be written until another row with the same unique value changes later in the transaction.
///
/// The rows are kept here and inserted at the end of the transaction. The source checked the constraint there, but the
/// target checks at once.
struct PostgresHeldRows {
  struct Row {
    let table: MappedTable
    var values: [String?]
    /// The error to throw if the row still cannot be inserted at the end of its transaction.
    let error: CairnError

    var bytes: Int { values.reduce(0) { $0 + ($1?.utf8.count ?? 0) } }
  }
  private static let countMax = 10_000
  private static let bytesMax = 64 << 20
  private var bytes = 0
  private(set) var rows: [Row] = []

  mutating func add(_ table: MappedTable, _ values: [String?], _ error: CairnError) throws {
    guard rows.count < Self.countMax, bytes < Self.bytesMax else { throw error }
    let row = Row(table: table, values: values, error: error)
    bytes += row.bytes
    rows.append(row)
  }

  private func index(_ table: MappedTable, _ key: [String?]) -> Int? {
    guard !key.isEmpty else { return nil }
    return rows.lastIndex { row in row.table === table && table.key.map { row.values[$0] } == key }
  }

  mutating func remove(_ table: MappedTable, _ key: [String?]) -> Bool {
    guard let index = index(table, key) else { return false }
    bytes -= rows.remove(at: index).bytes
    return true
  }

  mutating func take(key: [String?], of table: MappedTable) -> Row? {
    guard
      let index = rows.lastIndex(where: { row in
        row.table.stateKey == table.stateKey && row.table.key.map { row.values[$0] } == key
      })
    else { return nil }
    bytes -= rows[index].bytes
    return rows.remove(at: index)
  }

  mutating func update(_ table: MappedTable, _ key: [String?], _ values: [Int: String?]) -> Bool {
    guard let index = index(table, key) else { return false }
    bytes -= rows[index].bytes
    for (column, value) in values { rows[index].values[column] = value }
    bytes += rows[index].bytes
    return true
  }

  mutating func forget(_ table: MappedTable) {
    rows.removeAll { $0.table.stateKey == table.stateKey }
    bytes = rows.reduce(0) { $0 + $1.bytes }
  }

  mutating func takeAll() -> [Row] {
    defer { (rows, bytes) = ([], 0) }
    return rows
  }
}
