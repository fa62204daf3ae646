import Changes
import Mapping
import PostgresKit
import SQLiteKit

/// A table of the source and the one of the target that is to be equal to it.
///
/// Columns are counted by their **place** among the pairs of columns that are compared, in the order of the source.
package struct ComparedTable: Sendable {
  /// How its rows are brought in step.
  package enum Order: Sendable {
    /// By ranges of the key, which sorts alike at both ends.
    case ranges
    /// By buckets, into which rows fall by the hash of their key, or of the whole row.
    case buckets
  }

  /// As people call the source's table.
  package let name: String
  package let source: TableEnd
  package let target: TableEnd
  package let columns: [CanonicalColumn]
  /// Places of the key; empty where rows are told apart by all their columns.
  package let key: [Int]
  /// The key may hold NULL; such rows are told apart by all their columns.
  package let isNullable: Bool
  package var order: Order
  /// Both ends have the same bytes for equal values, and the same of each.
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

  /// Columns by their contracts, to be read by buckets.
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

  /// Key values of the source as the target has them.
  package func targetKey(_ values: [Value]) throws(Misfit) -> [Value] {
    var all: [Value] = []
    for (place, value) in zip(key, values) { all.append(try columns[place].targetValue(value)) }
    return all
  }

  /// The keys of the source that may be one of the target's.
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

/// A table at one end, as it stands there.
package struct TableEnd: Sendable {
  package let schema: TableSchema
  /// Index among the schema's columns of each place.
  package let columns: [Int]
  /// For FROM.
  package let sqlName: String
  /// A name of an SQLite table's rowid.
  package let rowidName: String?
  /// Of a PostgreSQL table.
  package let oid: UInt32
  package let isPartitioned: Bool
  /// Whether text keys of a PostgreSQL table sort by their bytes.
  package let sortsByBytes: Bool

  package init(
    schema: TableSchema, columns: [Int], sqlName: String, rowidName: String? = nil, oid: UInt32 = 0,
    isPartitioned: Bool = false, sortsByBytes: Bool = true
  ) {
    (self.schema, self.columns, self.sqlName) = (schema, columns, sqlName)
    (self.rowidName, self.oid, self.isPartitioned) = (rowidName, oid, isPartitioned)
    self.sortsByBytes = sortsByBytes
  }

  package var engine: Engine { schema.engine }
  package func column(_ place: Int) -> TableSchema.Column { schema.columns[columns[place]] }
  /// Quoted, for SQL.
  package func name(_ place: Int) -> String { column(place).name.quotedName }
  /// An SQLite column under the collation of its key.
  func collated(_ place: Int) -> String {
    let collation = column(place).collation
    return name(place) + (collation.isEmpty ? "" : " COLLATE \(collation.quotedName)")
  }
  package var columnList: String { columns.indices.map(name).joined(separator: ",") }
}
