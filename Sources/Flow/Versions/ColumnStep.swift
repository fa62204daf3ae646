import Changes
import Trails

/// A schema change in which a column or a table was renamed or dropped. Another node that does not know the change
/// still writes rows with the old name.
///
///     ALTER TABLE item RENAME COLUMN name TO title   ->   names: ["name": "title"]
///     ALTER TABLE item DROP COLUMN name              ->   names: ["name": nil]
///     ALTER TABLE item RENAME TO goods               ->   moved: goods(id, name)
package struct ColumnStep: Equatable, Sendable {
  package struct Table: Equatable, Sendable {
    @ByBytes package var namespace: String
    @ByBytes package var name: String

    init(_ schema: TableSchema) { (namespace, name) = (schema.namespace, schema.name) }

    /// The name of the table, `SCHEMA.TABLE`; without the schema if that is empty.
    package var fullName: String { namespace.isEmpty ? name : "\(namespace).\(name)" }
  }

  /// The number of the transaction that made the change.
  package var number: UInt64
  /// The trail, `NODE.NAME`, that contains the transaction; empty for this database's own trail.
  @ByBytes package var origin = ""
  /// The trail, `NODE.NAME`, whose apply made the change; empty if an application made it.
  @ByBytes package var applied: String
  /// The table before the change, by schema (namespace) and name only.
  package var table: Table
  /// The new name of each renamed column; nil if the column was dropped.
  @ByBytes package var names: [NameKey: String?]
  /// The table after the change; nil if the table keeps its name.
  package var moved: Table?

  /// Creates an entry for a schema change in this database's own trail; nil if all names stay.
  init?(_ ddl: DDL, _ before: TableSchema, _ after: TableSchema, number: UInt64) {
    self.init(before, after, origins: ddl.origins(from: before, to: after), applied: ddl.applied, number: number)
  }

  /// Creates an entry for a schema change; nil if all names stay.
  ///
  /// - Parameter origin: The trail that contains the change; empty for this database's own trail.
  package init?(
    _ before: TableSchema, _ after: TableSchema, origins: [Int?]?, applied: String, number: UInt64,
    of origin: String = ""
  ) {
    let origins = TableDifference(before, after, origins: origins).origins
    var names: [NameKey: String?] = [:]
    for (index, column) in before.columns.enumerated() {
      let now = origins.firstIndex(of: index).map { after.columns[$0].name }
      if now.map(column.name.hasSameBytes) != true { names.updateValue(now, forKey: column.name.nameKey) }
    }
    moved = before.fullName.hasSameBytes(as: after.fullName) ? nil : Table(after)
    guard !names.isEmpty || moved != nil else { return nil }
    (self.number, self.origin) = (number, origin)
    (self.applied, table, self.names) = (applied, Table(before), names)
  }

  var bytes: Int {
    func count(_ table: Table) -> Int { table.namespace.utf8.count + table.name.utf8.count }
    return names.reduce(200 + origin.utf8.count + applied.utf8.count + count(table) + (moved.map(count) ?? 0)) {
      $0 + 100 + $1.key.text.utf8.count + ($1.value?.utf8.count ?? 0)
    }
  }
}

/// The latest schema changes that renamed or dropped columns or tables, in the order of reading: at most 1000 changes
/// and 4 MiB.
///
///     var steps = ColumnSteps()
///     steps.take([step])
package struct ColumnSteps: Sendable {
  private static let countMax = 1000
  private static let bytesMax = 4 << 20
  package private(set) var all: [ColumnStep] = []
  private var bytes = 0

  package init() {}

  /// Adds the schema changes of one transaction, except those that are listed already. Above 1000 changes or 4 MiB,
  /// removes the oldest ones.
  package mutating func take(_ steps: [ColumnStep]) {
    for step in steps where !all.contains(step) {
      all.append(step)
      bytes += step.bytes
    }
    var excess = max(0, all.count - Self.countMax)
    for step in all.prefix(excess) { bytes -= step.bytes }
    while bytes > Self.bytesMax, excess < all.count {
      bytes -= all[excess].bytes
      excess += 1
    }
    all.removeFirst(excess)
  }
}
