import Changes

/// Rows that the present group wrote to tables with deferrable unique constraints. Apply checks the rows before the
/// group's commit.
struct UncheckedRows {
  struct Row {
    let table: MappedTable
    let values: [String?]
  }
  private static let countMax = 2000
  private(set) var rows: [Row] = []
  /// The tables with more rows to check than this list may have. Apply checks all rows of these tables.
  private(set) var tables: [MappedTable] = []
  private var starts: [(key: String, position: Position)] = []

  mutating func note(_ table: MappedTable, _ row: borrowing RowText, at position: Position) {
    guard !table.uncheckedIndexes.isEmpty, !tables.contains(where: { $0 === table }) else { return }
    add(table, row.strings, position)
  }

  mutating func note(
    _ table: MappedTable, _ row: borrowing RowText, _ before: borrowing RowText, at position: Position
  ) {
    guard !table.uncheckedIndexes.isEmpty, !tables.contains(where: { $0 === table }) else { return }
    var values: [String?] = []
    for column in table.columns.indices {
      values.append(row.gives(column) ? row.string(column) : before.gives(column) ? before.string(column) : nil)
    }
    add(table, values, position)
  }

  private mutating func add(_ table: MappedTable, _ values: [String?], _ position: Position) {
    if start(of: table.stateKey) == nil { starts.append((table.stateKey, position)) }
    guard rows.count < Self.countMax else {
      tables.append(table)
      rows.removeAll { $0.table === table }
      return
    }
    rows.append(Row(table: table, values: values))
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
    rows.removeAll { $0.table.stateKey.hasSameBytes(as: key) }
    tables.removeAll { $0.stateKey.hasSameBytes(as: key) }
  }

  /// Replaces the listed rows of an altered table by the table itself, which is then checked as a whole.
  mutating func move(from key: String, to table: MappedTable) {
    let start = start(of: key)
    forget(key)
    guard !table.uncheckedIndexes.isEmpty else { return }
    tables.append(table)
    if let start { starts.append((table.stateKey, start)) }
  }

  mutating func removeAll() {
    rows.removeAll()
    tables.removeAll()
    starts.removeAll()
  }
}
