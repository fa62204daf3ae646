import Changes

/// Rows that a unique key of the target does not let in yet.
///
/// A deferrable constraint of PostgreSQL looks at its rows at the end of the transaction, SQLite at each statement: two
/// rows that swap a unique value stand in each other's way for a moment. The row that cannot be written is taken out of
/// the target and waits here, until the end of its transaction at the latest. What cannot be written then is a row that
/// exists already.
struct HeldRows {
  struct Row {
    let table: TargetTable
    let values: [Value]
    let error: CairnError

    /// Whether `image` names this row by its key.
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

  /// The row that `image` names by its key; it is taken out.
  mutating func take(_ image: [ColumnView], of table: TargetTable) -> Row? {
    guard let index = rows.firstIndex(where: { $0.isNamed(by: image, of: table) }) else { return nil }
    bytes -= rows[index].bytes
    return rows.remove(at: index)
  }

  /// The row that has a key; it is taken out.
  mutating func take(key: [Value], of table: TargetTable) -> Row? {
    guard
      let index = rows.firstIndex(where: { row in
        row.table.schema.name.hasSameBytes(as: table.schema.name) && row.table.schema.key.map { row.values[$0] } == key
      })
    else { return nil }
    bytes -= rows[index].bytes
    return rows.remove(at: index)
  }

  /// Writes what can be written; `insert` says whether it could.
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

  /// What is left at the end of a transaction.
  mutating func takeAll() -> [Row] {
    defer { removeAll() }
    return rows
  }

  /// The table is emptied.
  mutating func forget(_ table: TargetTable) {
    rows.removeAll { $0.table.schema.name.hasSameBytes(as: table.schema.name) }
    bytes = rows.reduce(0) { $0 + $1.bytes }
  }

  mutating func removeAll() {
    rows.removeAll()
    bytes = 0
  }
}
