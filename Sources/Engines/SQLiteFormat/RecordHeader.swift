/// The type of one stored value, with its size. Source: https://sqlite.org/fileformat2.html#record_format
package enum SerialType: Equatable, Sendable {
  case null
  /// A big-endian integer of 1, 2, 3, 4, 6 or 8 bytes.
  case integer(bytes: Int)
  case real
  /// 0 or 1, without any byte.
  case constant(Int64)
  case text(bytes: Int)
  case blob(bytes: Int)

  /// Returns nil for types that SQLite reserves, and for sizes that no record has.
  init?(_ number: UInt64) {
    switch number {
    case 0: self = .null
    case 1...4: self = .integer(bytes: Int(number))
    case 5: self = .integer(bytes: 6)
    case 6: self = .integer(bytes: 8)
    case 7: self = .real
    case 8, 9: self = .constant(Int64(number) - 8)
    case 10, 11: return nil
    default:
      let size = (number - 12) / 2
      guard size <= UInt64(CellPayload.lengthMax) else { return nil }
      self = number & 1 == 0 ? .blob(bytes: Int(size)) : .text(bytes: Int(size))
    }
  }

  package var size: Int {
    switch self {
    case .null, .constant: 0
    case .integer(let bytes), .text(let bytes), .blob(let bytes): bytes
    case .real: 8
    }
  }
}

/// The header of a record: its size, then the type of each column.
///
/// ```swift
/// var header = try RecordHeader(payload)
/// while let type = try header.next() { print(type.size) }
/// ```
package struct RecordHeader {
  private let payload: PageBytes
  /// The offset of the first value, which is also the size of the header.
  package let size: Int
  private var offset = 0

  /// - Parameter payload: The whole payload, with the number of the page of its cell.
  package init(_ payload: PageBytes) throws(FormatError) {
    let size = try payload.varint(at: &offset, before: payload.bytes.count)
    guard size >= UInt64(offset), size <= UInt64(payload.bytes.count) else {
      throw payload.error("the size of a record's header", at: 0)
    }
    self.payload = payload
    self.size = Int(size)
  }

  /// Returns the type of the next column; nil after the last one.
  package mutating func next() throws(FormatError) -> SerialType? {
    guard offset < size else { return nil }
    let at = offset
    guard let type = SerialType(try payload.varint(at: &offset, before: size)) else {
      throw payload.error("a reserved type of a value", at: at)
    }
    return type
  }
}
