import Changes
import Mapping
import SQLiteKit
import TestServers

@testable import Applying

/// A database in memory: tables with keys, unique constraints and foreign keys, commit and rollback. It has no
/// triggers, as apply fires none.
///
/// Apply checks unique constraints at each write, and no foreign key. An application's commit checks both.
final class MemoryDatabase {
  struct State: TableState {
    var isCreated = true
    var refreshing: Refresh.Method?
    var isAwaited = false
    var existing = ExistingRows.overwrite
  }

  struct Table {
    var schema: TableSchema
    var state = State()
    /// The rows by their keys.
    var rows: [[Value]: [Value]] = [:]

    func key(of row: [Value]) -> [Value] { schema.key.map { row[$0] } }
    func column(_ name: String) -> Int? { schema.columns.firstIndex { $0.name.sqliteKey == name.sqliteKey } }
  }

  /// Another row has a unique value of the row that was written.
  struct Taken: Error {}

  private struct Content {
    var tables: [NameKey: Table] = [:]
    var checkpoints: [NameKey: (checkpoint: Checkpoint, number: UInt64)] = [:]
  }

  private var content = Content()
  private var saved: Content?
  /// Cairn's own tables.
  let books: Database

  init() throws {
    books = try Database(path: ":memory:", mode: .create)
    try ConflictLog(books).install()
    try Decisions(books).install()
    try StoredReturns(books).install()
    try MemoryDisplacedRows(database: self).install()
  }

  var tables: [NameKey: Table] {
    get { content.tables }
    set { content.tables = newValue }
  }

  var checkpoints: [NameKey: (checkpoint: Checkpoint, number: UInt64)] {
    get { content.checkpoints }
    set { content.checkpoints = newValue }
  }

  // MARK: Transactions

  func begin() throws {
    try books.execute("BEGIN")
    saved = content
  }

  func commit() throws {
    try books.execute("COMMIT")
    saved = nil
  }

  func rollback() {
    guard let saved else { return }
    content = saved
    self.saved = nil
    try? books.execute("ROLLBACK")
  }

  // MARK: Rows

  /// Returns the rows with a unique value of `row`, except the row with the key `key`.
  func rivals(of row: [Value], key: [Value], in name: NameKey) -> [[Value]] {
    guard let table = tables[name] else { return [] }
    let uniques = [table.schema.key] + table.schema.uniques
    return table.rows.filter { other in
      other.key != key
        && uniques.contains { columns in
          !columns.isEmpty && columns.allSatisfy { row[$0] != .null && row[$0] == other.value[$0] }
        }
    }.map(\.value)
  }

  /// Replaces the row with the key `key` by `row`; nil deletes it.
  func put(_ row: [Value]?, _ key: [Value], in name: NameKey) throws(Taken) {
    if let row, !rivals(of: row, key: key, in: name).isEmpty { throw Taken() }
    tables[name]?.rows[key] = nil
    if let row, let table = tables[name] { tables[name]?.rows[table.key(of: row)] = row }
  }

  // MARK: Foreign keys

  /// The foreign keys of all tables, with the names of the referenced columns.
  var references: [Reference] {
    tables.values.flatMap { child in
      child.schema.foreignKeys.compactMap { key -> Reference? in
        guard let parent = tables[key.table.sqliteKey]?.schema else { return nil }
        let names = key.references.isEmpty ? parent.key.map { parent.columns[$0].name } : key.references
        return Reference(
          child: child.schema.name, columns: key.columns.map { child.schema.columns[$0].name }, parent: parent.name,
          references: names)
      }
    }
  }

  /// Returns the rows of the referencing table that refer to a row.
  func children(of row: [Value], in parent: Table, _ reference: Reference) -> [[Value]] {
    guard let child = tables[reference.child.sqliteKey] else { return [] }
    let values = reference.references.compactMap { parent.column($0).map { row[$0] } }
    let columns = reference.columns.compactMap(child.column)
    guard values.count == columns.count, !values.contains(.null) else { return [] }
    return child.rows.values.filter { other in columns.map { other[$0] } == values }
  }

  /// The rows whose foreign keys refer to no row.
  var orphans: [[Value]] {
    references.flatMap { reference -> [[Value]] in
      guard let child = tables[reference.child.sqliteKey], let parent = tables[reference.parent.sqliteKey] else {
        return []
      }
      let columns = reference.columns.compactMap(child.column)
      let whole = child.rows.values.filter { row in columns.allSatisfy { row[$0] != .null } }
      let referred = Set(parent.rows.values.flatMap { children(of: $0, in: parent, reference) })
      return whole.filter { !referred.contains($0) }
    }
  }
}

/// The waiting rows of a database in memory.
struct MemoryDisplacedRows: DisplacedRowStore {
  unowned let database: MemoryDatabase

  var state: any StateDatabase { SQLiteStateDatabase(database: database.books) }

  private func key(_ row: ContestedRow) -> [Value] { row.key.columns.map(\.value) }

  private func rivals(_ row: ContestedRow) -> [[Value]] {
    guard let table = database.tables[row.table.sqliteKey] else { return [] }
    return database.rivals(of: values(row, table), key: key(row), in: row.table.sqliteKey)
  }

  private func values(_ row: ContestedRow, _ table: MemoryDatabase.Table) -> [Value] {
    table.schema.columns.map { row.row[$0.name] ?? .null }
  }

  func holders(of row: ContestedRow) -> [WaitingRows.Holder] {
    rows(inTheWayOf: row).map { WaitingRows.Holder(values: $0.row, key: $0.key) }
  }

  func hasTable(of row: ContestedRow) -> Bool { database.tables[row.table.sqliteKey] != nil }

  func mayWrite(_ row: ContestedRow) -> Bool { true }

  func isThere(_ row: ContestedRow) -> Bool { database.tables[row.table.sqliteKey]?.rows[key(row)] != nil }

  func rows(inTheWayOf row: ContestedRow) -> [ContestedRow] {
    guard let schema = database.tables[row.table.sqliteKey]?.schema else { return [] }
    let names = schema.columns.map(\.name)
    return rivals(row).map { other in
      ContestedRow(
        namespace: "", table: schema.name, key: ConflictRow(schema.key.map { names[$0] }, schema.key.map { other[$0] }),
        row: ConflictRow(names, other))
    }
  }

  func put(_ row: ContestedRow, insteadOf others: [ContestedRow]) -> Bool {
    let (name, before) = (row.table.sqliteKey, database.tables)
    guard let table = before[name] else { return false }
    do {
      for other in others { try database.put(nil, key(other), in: name) }
      try database.put(values(row, table), key(row), in: name)
      return true
    } catch {
      database.tables = before
      return false
    }
  }
}
