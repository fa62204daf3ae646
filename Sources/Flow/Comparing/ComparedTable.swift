import Changes
import Mapping
import PostgresKit
import SQLiteKit

/// A table of the source and its counterpart at the target. A *place* is the index of a pair of columns.
package struct ComparedTable: Sendable {
  package enum Order: Sendable {
    /// Rows are matched in ranges of the key, which both databases sort in the same way.
    case ranges
    /// Rows are matched in groups (buckets) by a hash of the key or of the whole row.
    case buckets
  }

  /// The name of the source table, as messages show it.
  package let name: String
  package let source: TableEnd
  package let target: TableEnd
  package let columns: [CanonicalColumn]
  /// The indexes of the key columns among the compared columns; empty if all columns identify a row.
  package let key: [Int]
  /// Whether the key may contain NULL. A row with NULL in its key is identified by all columns.
  package let isNullable: Bool
  package var order: Order
  /// Whether equal values have the same bytes in both databases, in all compared columns.
  package let isSame: Bool

  package init(name: String, source: TableEnd, target: TableEnd, columns: [CanonicalColumn], order: Order) {
    (self.name, self.source, self.target, self.columns) = (name, source, target, columns)
    let schema = source.schema
    let places = schema.key.compactMap { index in source.columns.firstIndex(of: index) }
    let isWhole = schema.flags.contains(.wholeRow) || places.count < schema.key.count
    key = isWhole ? [] : places
    isNullable = !isWhole && schema.flags.contains(.nullableKey)
    self.order = key.isEmpty ? .buckets : order
    isSame = columns.allSatisfy(\.isSame)
  }

  /// Pairs the columns of the two tables.
  package init(name: String, source: TableEnd, target: TableEnd) {
    let schema = source.schema
    let unique = Set(schema.key + schema.uniques.joined())
    let key = schema.flags.contains(.wholeRow) ? [] : schema.key
    let columns = zip(source.columns, target.columns).map { index, other in
      CanonicalColumn(
        schema.columns[index], of: source.engine, to: target.schema.columns[other], of: target.engine,
        isUnique: unique.contains(index), isKey: key.contains(index))
    }
    self.init(name: name, source: source, target: target, columns: columns, order: .buckets)
  }

  package func end(_ side: CanonicalColumn.Side) -> TableEnd { side == .source ? source : target }

  /// Returns a source row's key in the form of the target.
  package func targetKey(_ values: [Value]) throws(Misfit) -> [Value] {
    var all: [Value] = []
    for (place, value) in zip(key, values) { all.append(try columns[place].targetValue(value)) }
    return all
  }

  /// Returns the keys of source rows that would have this key at the target.
  package func sourceKeys(_ values: [Value]) -> [[Value]] {
    var keys: [[Value]] = [[]]
    for (place, value) in zip(key, values) {
      let found = columns[place].sourceValues(value)
      keys = keys.flatMap { head in found.map { head + [$0] } }
      if keys.count > 64 { break }
    }
    return keys.filter { $0.count == key.count }
  }
}

/// A compared table in its own database, with its names and types.
package struct TableEnd: Sendable {
  package let schema: TableSchema
  /// The index of each compared column among all columns of the table.
  package let columns: [Int]
  /// The table's name in SQL, as a FROM clause needs it.
  package let sqlName: String
  /// A name of the rowid of an SQLite table in SQL; nil if there is none.
  package let rowidName: String?
  /// The oid of the table in PostgreSQL; 0 for SQLite, and for a source at another node.
  package let oid: UInt32
  /// The type oid of each column in PostgreSQL; empty if ``oid`` is 0.
  let types: [UInt32]
  package let isPartitioned: Bool
  /// Whether PostgreSQL sorts the text keys of the table by their bytes.
  package let sortsByBytes: Bool

  package init(
    schema: TableSchema, columns: [Int], sqlName: String, rowidName: String? = nil, oid: UInt32 = 0,
    types: [UInt32] = [], isPartitioned: Bool = false, sortsByBytes: Bool = true
  ) {
    (self.schema, self.columns, self.sqlName) = (schema, columns, sqlName)
    (self.rowidName, self.oid, self.types, self.isPartitioned) = (rowidName, oid, types, isPartitioned)
    self.sortsByBytes = sortsByBytes
  }

  package var engine: Engine { schema.engine }
  package func column(_ place: Int) -> TableSchema.Column { schema.columns[columns[place]] }
  /// Returns the quoted name of the compared column with this index.
  package func name(_ place: Int) -> String { column(place).name.quotedName }
  func collated(_ place: Int) -> String { name(place) + collation(place) }
  /// Returns the COLLATE clause of the compared column with this index; empty if it has none.
  func collation(_ place: Int) -> String {
    let collation = column(place).collation
    return collation.isEmpty ? "" : " COLLATE \(collation.quotedName)"
  }
  /// The table and the types of its compared columns. A reader checks before each read that no other table replaced it.
  var shape: HeldShape {
    HeldShape(table: oid, columns: columns.map { schema.columns[$0].name }, types: columns.map { types[$0] })
  }
  package var columnList: String { columns.indices.map(name).joined(separator: ",") }
}
