import Changes
import Mapping
import PostgresKit
import SQLiteKit

/// A table of the source and its counterpart at the target.
///
/// A column's **place** is its index among the compared pairs of columns, in the order of the source.
package struct ComparedTable: Sendable {
  /// The order in which the rows of both ends are matched.
  package enum Order: Sendable {
    /// The rows are matched in ranges of the key, which sorts in the same way at both ends.
    case ranges
    /// The rows are matched in buckets, which are selected by the hash of the key or of the whole row.
    case buckets
  }

  /// The name of the source table, as messages show it.
  package let name: String
  package let source: TableEnd
  package let target: TableEnd
  package let columns: [CanonicalColumn]
  /// The indexes of the key columns among the compared columns; empty if rows are identified by all their columns.
  package let key: [Int]
  /// Whether the key may contain NULL. Rows with NULL in the key are identified by all their columns.
  package let isNullable: Bool
  package var order: Order
  /// Whether equal values have the same bytes at both ends, in all compared columns.
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

  /// Creates the pair of tables and the pairs of their columns. The types of two paired columns decide how their values
  /// are compared. The rows are matched in buckets unless the order is changed later.
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

  /// Returns the key values of a source row in the form that the target stores.
  package func targetKey(_ values: [Value]) throws(Misfit) -> [Value] {
    var all: [Value] = []
    for (place, value) in zip(key, values) { all.append(try columns[place].targetValue(value)) }
    return all
  }

  /// Returns the keys of source rows that would have the key `values` at the target.
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

/// One of the two compared tables, with its names and types in its own database.
package struct TableEnd: Sendable {
  package let schema: TableSchema
  /// For each compared column, its index among all columns of the table.
  package let columns: [Int]
  /// The table's name in SQL, as a FROM clause needs it.
  package let sqlName: String
  /// The name by which SQL reads the rowid of an SQLite table; nil if no such name exists.
  package let rowidName: String?
  /// The oid of the table in PostgreSQL; 0 for SQLite, and for a source at another node.
  package let oid: UInt32
  /// For each column of the table, the oid of its type in PostgreSQL; empty if ``oid`` is 0.
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
  /// Returns the quoted name of the compared column with index `place`, for SQL.
  package func name(_ place: Int) -> String { column(place).name.quotedName }
  /// Returns the SQL of the compared column with index `place` of an SQLite table, with its collation.
  func collated(_ place: Int) -> String {
    let collation = column(place).collation
    return name(place) + (collation.isEmpty ? "" : " COLLATE \(collation.quotedName)")
  }
  /// The identity of the table and the types of its compared columns. Before each read, a reader checks that they are
  /// still the same, because a table of the same name may have replaced this one.
  var shape: HeldShape {
    HeldShape(table: oid, columns: columns.map { schema.columns[$0].name }, types: columns.map { types[$0] })
  }
  package var columnList: String { columns.indices.map(name).joined(separator: ",") }
}
