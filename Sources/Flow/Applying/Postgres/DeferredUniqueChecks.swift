import Changes

/// Rows that the present group wrote to tables with deferrable unique constraints. Apply checks the rows before the
/// group's commit.
struct DeferredUniqueChecks {
  struct Row {
    let table: PostgresApplyTable
    /// The values of the columns with a deferrable unique constraint; nil for the other columns.
    let values: [String?]

    fileprivate var bytes: Int { values.reduce(0) { $0 + ($1?.utf8.count ?? 0) + 16 } }
  }
  private var budget: RowBudget
  private(set) var rows: [Row] = []
  /// The tables with more rows to check than this list may have. Apply checks all rows of these tables.
  private(set) var tables: [PostgresApplyTable] = []
  private var starts: [(key: String, position: Position)] = []

  init(_ budget: RowBudget = RowBudget(rows: 2000)) { self.budget = budget }

  mutating func note(_ table: PostgresApplyTable, _ row: borrowing RowText, at position: Position) {
    guard !table.uncheckedIndexes.isEmpty, !tables.contains(where: { $0 === table }) else { return }
    let checked = table.uncheckedColumns
    add(table, table.columns.indices.map { checked.contains($0) ? row.string($0) : nil }, position)
  }

  mutating func note(
    _ table: PostgresApplyTable, _ row: borrowing RowText, _ before: borrowing RowText, at position: Position
  ) {
    guard !table.uncheckedIndexes.isEmpty, !tables.contains(where: { $0 === table }) else { return }
    let checked = table.uncheckedColumns
    var values: [String?] = []
    for column in table.columns.indices {
      guard checked.contains(column) else {
        values.append(nil)
        continue
      }
      values.append(row.gives(column) ? row.string(column) : before.gives(column) ? before.string(column) : nil)
    }
    add(table, values, position)
  }

  private mutating func add(_ table: PostgresApplyTable, _ values: [String?], _ position: Position) {
    if start(of: table.stateKey) == nil { starts.append((table.stateKey, position)) }
    let row = Row(table: table, values: values)
    guard budget.take(row.bytes) else {
      tables.append(table)
      drop { $0.table === table }
      return
    }
    rows.append(row)
  }

  private mutating func drop(_ isDropped: (Row) -> Bool) {
    for row in rows where isDropped(row) { budget.giveBack(row.bytes) }
    rows.removeAll(where: isDropped)
  }

  var isEmpty: Bool { rows.isEmpty && tables.isEmpty }

  func hasRows(of key: String) -> Bool {
    rows.contains { $0.table.stateKey.hasSameBytes(as: key) }
      || tables.contains { $0.stateKey.hasSameBytes(as: key) }
  }

  /// The position of the record that wrote the first unchecked row of a table; nil if the table has none.
  func start(of key: String) -> Position? { starts.first { $0.key.hasSameBytes(as: key) }?.position }

  mutating func forget(_ key: String) {
    starts.removeAll { $0.key.hasSameBytes(as: key) }
    drop { $0.table.stateKey.hasSameBytes(as: key) }
    tables.removeAll { $0.stateKey.hasSameBytes(as: key) }
  }

  /// Replaces the listed rows of an altered table by the table itself, which is then checked as a whole.
  mutating func move(from key: String, to table: PostgresApplyTable) {
    let start = start(of: key)
    forget(key)
    guard !table.uncheckedIndexes.isEmpty else { return }
    tables.append(table)
    if let start { starts.append((table.stateKey, start)) }
  }

  mutating func removeAll() {
    rows.removeAll()
    budget.clear()
    tables.removeAll()
    starts.removeAll()
  }
}
