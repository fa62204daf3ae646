import Changes

/// A row of a query result: a copy, which outlives the query.
public struct Row: Sendable {
  /// The column names of the query, shared by all of its rows.
  public let columns: [String]
  public let values: [SQLValue]

  /// The value of the first column with this name, ignoring case; NULL if there is no such column. ``value(_:as:)``
  /// throws an error for a missing column.
  public subscript(_ column: String) -> SQLValue { index(of: column).map { values[$0] } ?? .null }

  /// The value of the column at an index from 0; NULL if the index is out of range.
  public subscript(_ index: Int) -> SQLValue { values.indices.contains(index) ? values[index] : .null }

  /// Returns the value of a column as a type: `try row.value("stock", as: Int.self)`. For an optional type, NULL
  /// becomes nil.
  ///
  /// - Throws: ``DatabaseError`` of kind `missingColumn` or `wrongType`.
  public func value<T: SQLConvertible>(_ column: String, as type: T.Type = T.self) throws -> T {
    guard let index = index(of: column) else {
      throw DatabaseError(.missingColumn(column), "the rows have no column \(column)")
    }
    guard let value = T(sqlValue: values[index]) else {
      throw DatabaseError(.wrongType(column: column), "the value of column \(column) is not a \(T.self)")
    }
    return value
  }

  func index(of column: String) -> Int? {
    if let index = columns.firstIndex(of: column) { return index }
    let folded = column.sqliteKey
    return columns.firstIndex { $0.sqliteKey == folded }
  }
}
