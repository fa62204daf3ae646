import Changes

/// Rows that cannot be written yet because another row has the same unique value.
///
/// SQLite checks unique values at each statement, PostgreSQL perhaps only at the end of the transaction. So if two rows
/// swap their values, one of them waits here, at most until the end of the transaction.
struct HeldRows {
  struct Row {
    var table: TargetTable
    let values: [Value]
    /// The position in the trail of the record that should have written the row.
    let position: Position
    let error: CairnError

    func isNamed(by image: [ColumnView], of other: TargetTable) -> Bool {
      table.schema.name.hasSameBytes(as: other.schema.name) && !other.schema.key.isEmpty
        && other.schema.key.allSatisfy { image[$0].value == values[$0] }
    }

    var bytes: Int {
      values.reduce(0) { sum, value in
        switch value {
        case .text(let bytes), .blob(let bytes), .exact(let bytes): sum + bytes.count + 32
        default: sum + 16
        }
      }
    }
  }
  private static let countMax = 10_000
  private static let bytesMax = 64 << 20
  private var rows: [Row] = []
  private var bytes = 0

  var isEmpty: Bool { rows.isEmpty }
  var isFull: Bool { rows.count >= Self.countMax || bytes >= Self.bytesMax }

  mutating func add(_ row: Row) throws {
    guard !isFull else { throw row.error }
    rows.append(row)
    bytes += row.bytes
  }

  mutating func take(_ image: [ColumnView], of table: TargetTable) -> Row? {
    guard let index = rows.firstIndex(where: { $0.isNamed(by: image, of: table) }) else { return nil }
    bytes -= rows[index].bytes
    return rows.remove(at: index)
  }

  mutating func take(key: [Value], of table: TargetTable) -> Row? {
    guard
      let index = rows.firstIndex(where: { row in
        row.table.schema.name.hasSameBytes(as: table.schema.name) && row.table.schema.key.map { row.values[$0] } == key
      })
    else { return nil }
    bytes -= rows[index].bytes
    return rows.remove(at: index)
  }

  /// Writes the rows whose unique values are free by now, and removes them from this list.
  ///
  /// - Parameter insert: Writes a row. Returns false if another row still has the same unique value.
  mutating func settle(_ insert: (Row) throws -> Bool) throws {
    var isMoving = true
    while isMoving, !rows.isEmpty {
      var left: [Row] = []
      for row in rows where try !insert(row) { left.append(row) }
      isMoving = left.count < rows.count
      rows = left
      bytes = left.reduce(0) { $0 + $1.bytes }
    }
  }

  mutating func takeAll() -> [Row] {
    defer { removeAll() }
    return rows
  }

  func hasRows(of name: String) -> Bool { rows.contains { $0.table.schema.name.hasSameBytes(as: name) } }

  /// Returns the position of the first record whose row waits in this list, for one table. Nil if the list has no row
  /// of the table.
  func start(of name: String) -> Position? {
    rows.filter { $0.table.schema.name.hasSameBytes(as: name) }.map(\.position).min()
  }

  /// Removes a table's rows from this list, when the table is emptied or dropped.
  mutating func forget(_ name: String) {
    rows.removeAll { $0.table.schema.name.hasSameBytes(as: name) }
    bytes = rows.reduce(0) { $0 + $1.bytes }
  }

  /// Assigns the listed rows of a table to `table`, which is the same table after a schema change.
  ///
  /// - Throws: The error for which a row was added to this list, if the number of columns has changed.
  mutating func move(from name: String, to table: TargetTable) throws {
    for index in rows.indices where rows[index].table.schema.name.hasSameBytes(as: name) {
      guard rows[index].values.count == table.schema.columns.count else { throw rows[index].error }
      rows[index].table = table
    }
  }

  mutating func removeAll() {
    rows.removeAll()
    bytes = 0
  }
}
