import Changes
import Trails

/// A change of a table of the own database by which a column lost its name: the column was renamed or dropped.
///
/// Rows that another node wrote before it knew of the change still have the column under the old name.
///
///     ALTER TABLE item RENAME COLUMN name TO title   ->   names: ["name": "title"]
///     ALTER TABLE item DROP COLUMN name              ->   names: ["name": nil]
package struct ColumnStep: Equatable, Sendable {
  /// The transaction of the own trail that made the change.
  package var number: UInt64
  /// The trail, `NODE.NAME`, whose apply made the change; empty if an application made it.
  @ByBytes package var applied: String
  /// The table before the change.
  package var table: TableSchema
  /// For each column that lost its name: the new name, nil if the column is gone.
  @ByBytes package var names: [NameKey: String?]

  /// Returns nil if every column keeps its name.
  init?(_ ddl: DDL, _ before: TableSchema, _ after: TableSchema, number: UInt64) {
    let origins = TableDifference(before, after, origins: ddl.origins(from: before, to: after)).origins
    var names: [NameKey: String?] = [:]
    for (index, column) in before.columns.enumerated() {
      let now = origins.firstIndex(of: index).map { after.columns[$0].name }
      if now.map(column.name.hasSameBytes) != true { names.updateValue(now, forKey: column.name.nameKey) }
    }
    guard !names.isEmpty else { return nil }
    (self.number, applied, table, self.names) = (number, ddl.applied, before, names)
  }
}

/// The last changes by which columns lost their names, in the order of the own trail.
struct ColumnSteps {
  /// Changes past this number are long known to every node.
  private static let countMax = 1000
  private(set) var all: [ColumnStep] = []

  /// Takes what was read of a transaction. A transaction may be read again.
  mutating func take(_ part: TrailScan.Part) {
    for step in part.columnSteps where !all.contains(step) { all.append(step) }
    if all.count > Self.countMax { all.removeFirst(all.count - Self.countMax) }
  }
}
