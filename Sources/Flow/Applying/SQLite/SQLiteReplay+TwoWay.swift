import Changes
import Conflicts
import Mapping
import SQLiteKit
import SystemKit
import Trails
import Versions

// Two-way: rows that applications have written at the target too.
extension SQLiteReplay {
  private static let keysMax = 1000
  private static let keyBytesMax = 16 << 20

  /// Reads which rows applications have changed: from this database's own trail, and from the journal. Runs in the
  /// group's transaction.
  ///
  /// - Throws: ``LocalAhead`` if the journal has too many rows that the trail lacks.
  func inform(_ desk: Desk) throws {
    let window = desk.shared.window
    try desk.lookAtKeys { try SQLiteApplyTable.foreignKeys(database) }
    _ = try window.catchUp(rowNames: desk.ownNames, learn: desk.names.learn)
    if desk.learnColumns() { forgetShapes() }
    guard case .journal(let rows) = desk.shared.local else { return desk.inform() }
    var uncaptured: Set<RowName> = []
    let isShown = try rows(database, window.ownReach.sourcePosition) { schema, values in
      if let name = desk.names.name(schema, values) { uncaptured.insert(name) }
      uncaptured.formUnion(desk.names.parents(schema, values, from: nil).map(\.name.reference))
      uncaptured.formUnion(desk.names.alternates(schema, values))
    }
    guard isShown else { throw LocalAhead() }
    if uncaptured.isEmpty {
      if let number = desk.shared.noteCaptured() { try storedReturns.close(by: number) }
      desk.shared.noteOwnRead(about: name)
    }
    desk.inform(uncaptured: uncaptured)
  }

  /// Returns whether a change is resolved as a possible conflict at the end of its transaction.
  func defers(_ change: ChangeView, _ table: SQLiteApplyTable) throws -> Bool {
    guard let resolver, let schema = reader.given(change.schemaID) else { return false }
    do { return try resolver.defers(change, schema, table) } catch let error as CairnError
      where error.code == .tableRefused
    { throw Refusal(position: reader.position, error: error) }
  }

  /// Returns whether apply skips a row of a refresh because the target's own version of the row must stay.
  func keepsOwn(_ id: UInt64, _ image: ImageView, _ table: SQLiteApplyTable) throws -> Bool {
    guard let resolver, let schema = reader.given(id) else { return false }
    return try resolver.keepsOwn(image, schema, table)
  }

  /// Deletes this trail's rows of a key range, for a refresh or TRUNCATE; all of its rows if `range` is nil.
  ///
  /// Keeps rows with changes that the author of the refresh or TRUNCATE did not know.
  func removeKnown(_ range: Refresh.Range?, _ table: SQLiteApplyTable, _ resolver: RowResolver<SQLiteReplay>) throws {
    var last: [Value]?
    while true {
      let keys = try table.keys(in: range, after: last, limit: Self.keysMax, bytesMax: Self.keyBytesMax)
      for key in keys {
        var row = [Value](repeating: .null, count: table.schema.columns.count)
        for (index, value) in zip(table.schema.key, key) { row[index] = value }
        if try resolver.mayRemove(row, of: table) { try table.put(nil, key) }
      }
      guard let end = keys.last else { return }
      last = end
    }
  }
}

// The parts of conflict resolution that depend on SQLite.
extension SQLiteReplay: ApplyTarget {
  var progress: ApplyProgress { target.progress }

  func flush() {}

  func attempt<Result>(_ body: () throws -> Result) throws -> Result { try body() }

  func table(like schema: TableSchema) throws -> SQLiteApplyTable? {
    let mapping = try TableMapping(schema, to: .sqlite)
    guard try target.shape.exists(mapping.target.name) else { return nil }
    return SQLiteApplyTable(mapping, state: .init(), database: database)
  }

  func wide(_ table: SQLiteApplyTable) throws -> SQLiteApplyTable? { try table.wide() }

  func form(of table: SQLiteApplyTable) -> SQLiteForm { SQLiteForm(table) }

  func hasReferrers(_ table: SQLiteApplyTable) -> Bool { !table.referrers.isEmpty }

  func mergesCopies(at row: ContestedRow) -> Bool {
    target.tables[row.table.sqliteKey].map { $0.existing != .overwrite } ?? false
  }

  func row(_ key: [Value], of table: SQLiteApplyTable) throws -> [Value]? { try table.row(key) }

  func put(_ row: RowVersion.Row?, _ key: [Value], in table: SQLiteApplyTable) throws -> Bool {
    do { try table.put(row, key) } catch let error as SQLiteError where error.isUniqueness {
      return false
    } catch let error as SQLiteError where error.isOfRow { throw refused(table, error) }
    return true
  }

  func isReferred(_ row: [Value], key: [Value], of table: SQLiteApplyTable) throws -> Bool { try table.isReferred(row) }

  func takeParked(_ key: [Value], of table: SQLiteApplyTable) -> [Value]? { parked.take(key: key, of: table)?.values }

  func settle(_ rows: MetRows, by function: String, in table: SQLiteApplyTable) throws -> RowVersion.Row? {
    try ResolvedRow.noFunction(function, rows)
  }

  var candidates: SQLiteDisplacedRows { SQLiteDisplacedRows(database: database) }
  var decisions: Decisions { Decisions(database) }
  var storedReturns: StoredReturns { StoredReturns(database) }

  func log(_ record: ConflictRecord) throws {
    try ConflictLog(database).append(record)
    conflicts += 1
  }
}

extension SQLiteApplyTable: ApplyTable, ParkingTable {
  var stateName: String { schema.name }
  var rowKey: [Int] { schema.key }
  var columnCount: Int { schema.columns.count }
  var shape: TableSchema { schema }
  var refreshing: Refresh.Method? { state.refreshing }
  var isAwaited: Bool { state.isAwaited }
  var isPartitioned: Bool { schema.flags.contains(.partitioned) }
  var isContested: Bool { mayCollide }
}
