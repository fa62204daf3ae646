import Changes

/// A table whose rows apply may write later in the transaction.
protocol ParkingTable {
  /// The table's name in apply's state.
  var stateName: String { get }
  /// The indexes of the columns that identify a row; empty if only all columns do.
  var rowKey: [Int] { get }
  var columnCount: Int { get }
}

/// A value of a parked row, in the form in which the engine writes it.
protocol ParkedValue: ByteComparable {
  /// The memory that the value takes, in bytes.
  var memoryBytes: Int { get }
}

/// Rows of a transaction that the target refuses for now, because another row has the same unique value.
///
/// The target checks unique values at each statement, the source perhaps only at the end of the transaction. So if two
/// rows swap their values, apply parks one of them, at most until the end of the transaction.
///
///     try parked.add(.init(table: table, values: row, position: position, error: error))
///     try parked.settle { try insert($0) }          // writes those that fit by now
struct ParkedRows<Table: ParkingTable, Field: ParkedValue> {
  struct Row {
    var table: Table
    var values: [Field]
    /// The position in the trail of the record that has the row.
    let position: Position
    /// The error to throw if the row still cannot be written at the end of its transaction.
    let error: CairnError

    fileprivate func isOf(_ name: String) -> Bool { table.stateName.hasSameBytes(as: name) }
    fileprivate var bytes: Int { values.reduce(0) { $0 + $1.memoryBytes } }
  }
  private var rows: [Row] = []
  private var budget: RowBudget

  init(_ budget: RowBudget = RowBudget(rows: 10_000)) { self.budget = budget }

  var isEmpty: Bool { rows.isEmpty }

  /// Returns whether the list has room for a row.
  func hasRoom(for row: Row) -> Bool { budget.hasRoom(for: row.bytes) }

  /// Adds a row.
  ///
  /// - Throws: The row's error, if the list has no room for the row.
  mutating func add(_ row: Row) throws {
    guard budget.take(row.bytes) else { throw row.error }
    rows.append(row)
  }

  private func index(_ key: [Field], of table: Table) -> Int? {
    guard !key.isEmpty else { return nil }
    return rows.lastIndex { row in
      row.isOf(table.stateName) && [Field].areSame(row.table.rowKey.map { row.values[$0] }, key)
    }
  }

  /// Removes and returns the row with a key; nil if it is not parked.
  mutating func take(key: [Field], of table: Table) -> Row? {
    guard let index = index(key, of: table) else { return nil }
    budget.giveBack(rows[index].bytes)
    return rows.remove(at: index)
  }

  /// Changes values of the row with a key. Returns false if it is not parked.
  ///
  /// - Parameter values: The new values, by column.
  /// - Throws: The row's error, if the list has no room for the new values.
  mutating func update(key: [Field], of table: Table, _ values: [Int: Field]) throws -> Bool {
    guard let index = index(key, of: table) else { return false }
    var row = rows[index]
    budget.giveBack(row.bytes)
    for (column, value) in values { row.values[column] = value }
    guard budget.take(row.bytes) else { throw row.error }
    rows[index] = row
    return true
  }

  func hasRows(of name: String) -> Bool { rows.contains { $0.isOf(name) } }

  /// Returns the position of the earliest record whose row is parked, for one table; nil if the table has none.
  func start(of name: String) -> Position? { rows.filter { $0.isOf(name) }.map(\.position).min() }

  /// Removes a table's rows from this list, when the table is emptied or dropped.
  mutating func forget(_ name: String) { keep(rows.filter { !$0.isOf(name) }) }

  /// Assigns the parked rows of a table to `table`, which is the same table after a schema change.
  ///
  /// - Parameter name: The table's former name in apply's state.
  /// - Throws: The error for which a row was parked, if the number of columns has changed.
  mutating func move(from name: String, to table: Table) throws {
    for index in rows.indices where rows[index].isOf(name) {
      guard rows[index].values.count == table.columnCount else { throw rows[index].error }
      rows[index].table = table
    }
  }

  /// Writes the rows whose unique values are free by now, and removes them from this list.
  ///
  /// - Parameter name: The table whose rows are written; nil: all tables.
  /// - Parameter write: Writes a row. Returns false if another row still has the same unique value.
  mutating func settle(of name: String? = nil, _ write: (Row) throws -> Bool) throws {
    var isMoving = true
    while isMoving, !rows.isEmpty {
      var left: [Row] = []
      for row in rows where try !(name.map(row.isOf) ?? true) || !write(row) { left.append(row) }
      isMoving = left.count < rows.count
      keep(left)
    }
  }

  /// Removes and returns all rows, at the end of the transaction.
  mutating func takeAll() -> [Row] {
    defer { keep([]) }
    return rows
  }

  private mutating func keep(_ left: [Row]) {
    rows = left
    budget.clear()
    for row in left { _ = budget.take(row.bytes) }
  }
}

extension Value: ParkedValue {}

/// A value as PostgreSQL's text; nil: NULL.
extension Optional: ParkedValue where Wrapped == String {
  var memoryBytes: Int { 16 + (self?.utf8.count ?? 0) }
}
