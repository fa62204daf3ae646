import Changes

/// Rows of a transaction that the target refuses for now, because another row has the same unique value.
///
/// The rows are inserted at the end of the transaction. By then, a later change has freed the value.
struct PostgresHeldRows {
  struct Row {
    var table: MappedTable
    var values: [String?]
    /// The position in the trail of the record that has the row.
    let position: Position
    /// The error to throw if the row still cannot be inserted at the end of its transaction.
    let error: CairnError

    var bytes: Int { values.reduce(0) { $0 + ($1?.utf8.count ?? 0) } }
  }
  private static let countMax = 10_000
  private static let bytesMax = 64 << 20
  private var bytes = 0
  private(set) var rows: [Row] = []

  mutating func add(_ table: MappedTable, _ values: [String?], at position: Position, _ error: CairnError) throws {
    guard rows.count < Self.countMax, bytes < Self.bytesMax else { throw error }
    let row = Row(table: table, values: values, position: position, error: error)
    bytes += row.bytes
    rows.append(row)
  }

  private func index(_ table: MappedTable, _ key: [String?]) -> Int? {
    guard !key.isEmpty else { return nil }
    return rows.lastIndex { row in
      row.table.stateKey.hasSameBytes(as: table.stateKey) && row.table.key.map { row.values[$0] } == key
    }
  }

  mutating func remove(_ table: MappedTable, _ key: [String?]) -> Bool {
    guard let index = index(table, key) else { return false }
    bytes -= rows.remove(at: index).bytes
    return true
  }

  mutating func take(key: [String?], of table: MappedTable) -> Row? {
    guard let index = index(table, key) else { return nil }
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

  func hasRows(of key: String) -> Bool { rows.contains { $0.table.stateKey.hasSameBytes(as: key) } }

  /// Returns the position of the earliest record that made apply hold a row of the table. Nil if no row of the table is
  /// held.
  ///
  /// - Parameter key: The table's name in apply's state.
  func start(of key: String) -> Position? {
    rows.filter { $0.table.stateKey.hasSameBytes(as: key) }.map(\.position).min()
  }

  /// Removes a table's rows from this list, when the table is emptied or dropped. `key` is the table's name in apply's
  /// state.
  mutating func forget(_ key: String) {
    rows.removeAll { $0.table.stateKey.hasSameBytes(as: key) }
    bytes = rows.reduce(0) { $0 + $1.bytes }
  }

  /// Assigns the held rows of a table to `table`: the same table after a rename of the table or of a column.
  ///
  /// - Parameter key: The table's former name in apply's state.
  mutating func move(from key: String, to table: MappedTable) throws {
    for index in rows.indices where rows[index].table.stateKey.hasSameBytes(as: key) {
      guard rows[index].values.count == table.columns.count else { throw rows[index].error }
      rows[index].table = table
    }
  }

  /// Passes each held row of a table to `write`, and removes the rows for which `write` returns true. The other rows
  /// stay held.
  mutating func settle(_ key: String, _ write: (Row) throws -> Bool) throws {
    guard hasRows(of: key) else { return }
    var left: [Row] = []
    for row in rows where try !row.table.stateKey.hasSameBytes(as: key) || !write(row) { left.append(row) }
    rows = left
    bytes = left.reduce(0) { $0 + $1.bytes }
  }

  mutating func takeAll() -> [Row] {
    defer { (rows, bytes) = ([], 0) }
    return rows
  }
}
