import Changes
import Conflicts
import Mapping
import SQLiteKit
import Versions

/// Writes rows to an SQLite target for the resolution of conflicts.
final class SQLiteConflictTarget: ApplyTarget {
  private let target: SQLiteTarget
  private let rows: SQLiteRows

  init(_ rows: SQLiteRows) { (target, self.rows) = (rows.target, rows) }

  var progress: ApplyProgress { target.progress }

  func flush() {}

  func attempt<Result>(_ body: () throws -> Result) throws -> Result { try body() }

  func table(like schema: TableSchema) throws -> SQLiteApplyTable? {
    let name = TableMapping.targetName(of: schema, in: .sqlite)
    guard try target.shape.exists(name) else { return nil }
    var own = TableSchema(epoch: 0, engine: .sqlite, name: name, columns: [])
    let there = try target.database.query(
      "SELECT name, type FROM pragma_table_xinfo(?) WHERE hidden = 0", [.text(name)])
    own.columns = there.map { column in
      let key = column[0].string.sqliteKey
      let spelling = schema.columns.first { $0.name.sqliteKey == key }?.name ?? column[0].string
      return TableSchema.Column(name: spelling, declaredType: column[1].string)
    }
    own.setKey(try KeyCheck.key(of: name, target.database), like: schema, .sqlite) { $0 }
    guard !own.key.isEmpty else { return nil }
    return SQLiteApplyTable(try TableMapping(own, to: .sqlite), state: .init(), database: target.database)
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
    } catch let error as SQLiteError where error.isOfRow {
      throw rows.errors.refused(table, error, rows.before, rows.after)
    }
    return true
  }

  func isReferred(_ row: [Value], key: [Value], of table: SQLiteApplyTable) throws -> Bool { try table.isReferred(row) }

  func takeParked(_ key: [Value], of table: SQLiteApplyTable) -> [Value]? {
    rows.parked.take(key: key, of: table)?.values
  }

  func settle(_ rows: MetRows, by function: String, in table: SQLiteApplyTable) throws -> RowVersion.Row? {
    try ResolvedRow.noFunction(function, rows)
  }

  var candidates: SQLiteDisplacedRows { SQLiteDisplacedRows(database: target.database) }
  var decisions: Decisions { Decisions(target.database) }
  var storedReturns: StoredReturns { StoredReturns(target.database) }

  func log(_ record: ConflictRecord) throws { try rows.log(record) }
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
