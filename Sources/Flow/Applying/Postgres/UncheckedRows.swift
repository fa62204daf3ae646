/// Rows that apply wrote to tables with deferrable unique constraints. Apply checks the rows before the commit.
///
/// PostgreSQL checks such constraints by triggers, which do not fire in apply's session.
struct UncheckedRows {
  struct Row {
    let table: MappedTable
    let values: [String?]
  }
  private static let countMax = 2000
  private(set) var rows: [Row] = []
  /// The tables for which too many rows were written to list them. They are checked as a whole.
  private(set) var tables: [MappedTable] = []

  mutating func note(_ table: MappedTable, _ row: borrowing RowText) {
    guard !table.uncheckedIndexes.isEmpty, !tables.contains(where: { $0 === table }) else { return }
    add(table, row.strings)
  }

  mutating func note(_ table: MappedTable, _ row: borrowing RowText, _ before: borrowing RowText) {
    guard !table.uncheckedIndexes.isEmpty, !tables.contains(where: { $0 === table }) else { return }
    var values: [String?] = []
    for column in table.columns.indices {
      values.append(row.gives(column) ? row.string(column) : before.gives(column) ? before.string(column) : nil)
    }
    add(table, values)
  }

  private mutating func add(_ table: MappedTable, _ values: [String?]) {
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

  mutating func forget(_ key: String) {
    rows.removeAll { $0.table.stateKey.hasSameBytes(as: key) }
    tables.removeAll { $0.stateKey.hasSameBytes(as: key) }
  }

  /// Replaces the listed rows of an altered table by the table itself, which is then checked as a whole.
  mutating func move(from key: String, to table: MappedTable) {
    forget(key)
    if !table.uncheckedIndexes.isEmpty { tables.append(table) }
  }

  mutating func removeAll() {
    rows.removeAll()
    tables.removeAll()
  }
}
