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
protocol ParkedValue {
  associatedtype Identity: Hashable
  /// The value as part of a key. Texts are compared by their bytes.
  var identity: Identity { get }
  /// The memory that the value takes, in bytes.
  var memoryBytes: Int { get }
}

/// Rows of a transaction that the target refuses for now, because another row has the same unique value.
///
/// The target checks unique values at each statement, the source perhaps only at the end of the transaction. So if two
/// rows swap their values, apply parks one of them, at most until the end of the transaction.
///
///     let row = Row(table: table, values: values, position: position, error: error)
///     try parked.add(row) { try insert($0) }
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
  private struct Key: Hashable {
    let table: NameKey
    let values: [Field.Identity]
  }
  /// The rows by a number that grows with each row that is added.
  private var rows: [Int: Row] = [:]
  private var added = 0
  /// The numbers of the rows with a key, in ascending order.
  private var numbers: [Key: [Int]] = [:]
  private var budget: RowBudget

  init(_ budget: RowBudget = RowBudget(rows: 10_000)) { self.budget = budget }

  var isEmpty: Bool { rows.isEmpty }

  /// Adds a row. If the list is full, first writes the rows whose unique values are free by now.
  ///
  /// - Parameter write: Writes a row. Returns false if another row still has the same unique value.
  /// - Throws: The row's error, if the list has no room for the row, or if writing freed less than a tenth of a full list.
  ///   Otherwise each further row could cost an attempt to write all rows.
  mutating func add(_ row: Row, settling write: (Row) throws -> Bool) throws {
    if !budget.hasRoom(for: row.bytes) {
      let count = rows.count
      try settle(write)
      guard rows.count <= count - count / 10 else { throw row.error }
    }
    guard budget.take(row.bytes) else { throw row.error }
    insert(row, as: added)
    added += 1
  }

  private func key(of row: Row) -> Key { key(row.table.rowKey.map { row.values[$0] }, of: row.table) }

  private func key(_ values: [Field], of table: Table) -> Key {
    Key(table: table.stateName.nameKey, values: values.map(\.identity))
  }

  private mutating func insert(_ row: Row, as number: Int) {
    rows[number] = row
    let key = key(of: row)
    guard !key.values.isEmpty else { return }
    let place = numbers[key]?.lastIndex { $0 < number }.map { $0 + 1 } ?? 0
    numbers[key, default: []].insert(number, at: place)
  }

  /// Removes and returns the last row with a key; nil if none is parked.
  private mutating func remove(_ key: [Field], of table: Table) -> (number: Int, row: Row)? {
    let key = self.key(key, of: table)
    guard let number = numbers[key]?.popLast(), let row = rows.removeValue(forKey: number) else { return nil }
    if numbers[key]?.isEmpty == true { numbers[key] = nil }
    budget.giveBack(row.bytes)
    return (number, row)
  }

  /// Removes and returns the row with a key; nil if it is not parked.
  mutating func take(key: [Field], of table: Table) -> Row? { remove(key, of: table)?.row }

  /// Changes values of the row with a key. Returns false if it is not parked.
  ///
  /// - Parameter values: The new values, by column.
  /// - Throws: The row's error, if the list has no room for the new values.
  mutating func update(key: [Field], of table: Table, _ values: [Int: Field]) throws -> Bool {
    guard let (number, found) = remove(key, of: table) else { return false }
    var row = found
    for (column, value) in values { row.values[column] = value }
    guard budget.take(row.bytes) else { throw row.error }
    insert(row, as: number)
    return true
  }

  func hasRows(of name: String) -> Bool { rows.values.contains { $0.isOf(name) } }

  /// Returns the position of the earliest record whose row is parked, for one table; nil if the table has none.
  func start(of name: String) -> Position? { rows.values.filter { $0.isOf(name) }.map(\.position).min() }

  /// Removes a table's rows from this list, when the table is emptied or dropped.
  mutating func forget(_ name: String) { keep(rows.filter { !$0.value.isOf(name) }) }

  /// Assigns the parked rows of a table to `table`, which is the same table after a schema change.
  ///
  /// - Parameter name: The table's former name in apply's state.
  /// - Throws: The error for which a row was parked, if the number of columns has changed.
  mutating func move(from name: String, to table: Table) throws {
    var moved = rows
    for (number, row) in rows where row.isOf(name) {
      guard row.values.count == table.columnCount else { throw row.error }
      moved[number]?.table = table
    }
    keep(moved)
  }

  /// Writes the rows whose unique values are free by now, and removes them from this list.
  ///
  /// - Parameter name: The table whose rows are written; nil: all tables.
  /// - Parameter write: Writes a row. Returns false if another row still has the same unique value.
  mutating func settle(of name: String? = nil, _ write: (Row) throws -> Bool) throws {
    var isMoving = true
    while isMoving, !rows.isEmpty {
      var left = rows
      for (number, row) in rows.sorted(by: { $0.key < $1.key }) where name.map(row.isOf) ?? true {
        if try write(row) { left[number] = nil }
      }
      isMoving = left.count < rows.count
      if isMoving { keep(left) }
    }
  }

  /// Removes and returns all rows, in the order in which they were added. Called at the end of the transaction.
  mutating func takeAll() -> [Row] {
    defer { keep([:]) }
    return rows.sorted { $0.key < $1.key }.map(\.value)
  }

  private mutating func keep(_ left: [Int: Row]) {
    (rows, numbers) = ([:], [:])
    budget.clear()
    for (number, row) in left {
      _ = budget.take(row.bytes)
      insert(row, as: number)
    }
  }
}

extension Value: ParkedValue { var identity: Value { self } }

/// A value as PostgreSQL's text; nil: NULL.
extension Optional: ParkedValue where Wrapped == String {
  var identity: NameKey? { map(\.nameKey) }
  var memoryBytes: Int { 16 + (self?.utf8.count ?? 0) }
}
