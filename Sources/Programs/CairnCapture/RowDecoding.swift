extension Row {
  /// Decodes the row as a type of the program. Properties are matched to columns by name. A type that is a single
  /// value, such as `Int`, takes the first column.
  ///
  /// Blobs are `[UInt8]`; NULL becomes nil for an optional.
  /// - Throws: ``DatabaseError`` of kind `missingColumn` or `wrongType`, and errors of the type's own decoding.
  public func decode<T: Decodable>(_ type: T.Type = T.self) throws -> T { try RowDecoder(row: self).value(T.self, nil) }
}

/// A decoder that reads values for `Decodable` from a ``Row``.
struct RowDecoder: Decoder {
  let row: Row
  var codingPath: [any CodingKey] { [] }
  var userInfo: [CodingUserInfoKey: Any] { [:] }

  func container<Key: CodingKey>(keyedBy type: Key.Type) throws -> KeyedDecodingContainer<Key> {
    KeyedDecodingContainer(RowContainer<Key>(decoder: self))
  }
  func unkeyedContainer() throws -> any UnkeyedDecodingContainer {
    throw DatabaseError(.wrongType(column: ""), "a row cannot be decoded as a list")
  }
  func singleValueContainer() throws -> any SingleValueDecodingContainer {
    ValueContainer(value: row[0], column: row.columns.first ?? "")
  }

  /// Decodes a column, or the first column if `column` is nil. A type with properties is decoded from the whole row.
  func value<T: Decodable>(_ type: T.Type, _ column: String?) throws -> T {
    if let column {
      guard let index = row.index(of: column) else {
        throw DatabaseError(.missingColumn(column), "the rows have no column \(column)")
      }
      return try ValueContainer(value: row.values[index], column: column).decode(T.self)
    }
    if let simple = T.self as? any SQLConvertible.Type {
      let value = try ValueContainer(value: row[0], column: row.columns.first ?? "").convert(simple)
      if let value = value as? T { return value }
    }
    return try T(from: self)
  }
}

private struct RowContainer<Key: CodingKey>: KeyedDecodingContainerProtocol {
  let decoder: RowDecoder
  var codingPath: [any CodingKey] { [] }
  var allKeys: [Key] { decoder.row.columns.compactMap { Key(stringValue: $0) } }

  func contains(_ key: Key) -> Bool { decoder.row.index(of: key.stringValue) != nil }
  func decodeNil(forKey key: Key) throws -> Bool { decoder.row[key.stringValue].isNull }
  func decode<T: Decodable>(_ type: T.Type, forKey key: Key) throws -> T { try decoder.value(T.self, key.stringValue) }
  func nestedContainer<Nested: CodingKey>(keyedBy type: Nested.Type, forKey key: Key) throws
    -> KeyedDecodingContainer<Nested>
  { throw nested(key) }
  func nestedUnkeyedContainer(forKey key: Key) throws -> any UnkeyedDecodingContainer { throw nested(key) }
  func superDecoder() throws -> any Decoder { decoder }
  func superDecoder(forKey key: Key) throws -> any Decoder { decoder }

  private func nested(_ key: Key) -> DatabaseError {
    DatabaseError(.wrongType(column: key.stringValue), "the value of column \(key.stringValue) is a single one")
  }
}

/// A decoder of one value.
private struct ValueContainer: Decoder, SingleValueDecodingContainer {
  let value: SQLValue
  let column: String
  var codingPath: [any CodingKey] { [] }
  var userInfo: [CodingUserInfoKey: Any] { [:] }

  func container<Key: CodingKey>(keyedBy type: Key.Type) throws -> KeyedDecodingContainer<Key> { throw wrong(type) }
  func unkeyedContainer() throws -> any UnkeyedDecodingContainer { throw wrong([Any].self) }
  func singleValueContainer() throws -> any SingleValueDecodingContainer { self }
  func decodeNil() -> Bool { value.isNull }

  func decode<T: Decodable>(_ type: T.Type) throws -> T {
    guard let simple = T.self as? any SQLConvertible.Type else { return try T(from: self) }
    guard let converted = try convert(simple) as? T else { throw wrong(T.self) }
    return converted
  }

  func convert(_ type: any SQLConvertible.Type) throws -> any SQLConvertible {
    guard let converted = type.init(sqlValue: value) else { throw wrong(type) }
    return converted
  }

  private func wrong(_ type: Any.Type) -> DatabaseError {
    DatabaseError(.wrongType(column: column), "the value of column \(column) is not a \(type)")
  }
}
