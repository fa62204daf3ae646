import Changes

/// One row that a query gave: a copy, which outlives the query.
public struct Row: Sendable {
  /// Names of the columns as the query has them, shared by all of its rows.
  public let columns: [String]
  public let values: [SQLValue]

  /// The value of the first column with this name, without regard to case; NULL where there is none. ``value(_:as:)`` tells
  /// the two apart.
  public subscript(_ column: String) -> SQLValue { index(of: column).map { values[$0] } ?? .null }

  /// The value of a column by its place, from 0; NULL where there is none.
  public subscript(_ index: Int) -> SQLValue { values.indices.contains(index) ? values[index] : .null }

  /// The value of a column as a type: `try row.value("stock", as: Int.self)`; of an optional type, NULL is nil.
  ///
  /// Throws ``DatabaseError`` of kind `missingColumn` and `wrongType`.
  public func value<T: SQLConvertible>(_ column: String, as type: T.Type = T.self) throws -> T {
    guard let index = index(of: column) else {
      throw DatabaseError(.missingColumn(column), "the rows have no column \(column)")
    }
    guard let value = T(sqlValue: values[index]) else {
      throw DatabaseError(.wrongType(column: column), "the value of column \(column) is no \(T.self)")
    }
    return value
  }

  func index(of column: String) -> Int? {
    if let index = columns.firstIndex(of: column) { return index }
    let folded = column.sqliteKey
    return columns.firstIndex { $0.sqliteKey == folded }
  }
}
