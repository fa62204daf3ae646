import Changes

/// One value of a record. Texts and blobs are offsets in the payload.
package enum StoredValue: Equatable, Sendable {
  case null
  case integer(Int64)
  case real(Double)
  case text(Range<Int>)
  case blob(Range<Int>)

  /// Returns a copy of the value. A text becomes UTF-8.
  package func value(in payload: PageBytes, _ encoding: TextEncoding) throws(FormatError) -> Value {
    switch self {
    case .null: return .null
    case .integer(let number): return .integer(number)
    case .real(let number): return .real(number)
    case .blob(let range): return .blob(Array(try payload.slice(range)))
    case .text(let range):
      let bytes = try payload.slice(range)
      guard encoding != .utf8 else { return .text(Array(bytes)) }
      var text: [UInt8] = []
      UTF16Text.append(bytes, isBigEndian: encoding == .utf16BigEndian, to: &text)
      return .text(text)
    }
  }
}

/// The values of a record, in the order in which SQLite stores the columns.
///
/// A record may have fewer values than its table has columns: columns that were added later have their default. The
/// rowid of an INTEGER PRIMARY KEY is NULL in the record. A REAL column may have an integer.
///
/// ```swift
/// var values = try RecordValues(payload)
/// while let value = try values.next() { row.append(value) }
/// ```
package struct RecordValues {
  private let payload: PageBytes
  private var header: RecordHeader
  private var offset: Int

  /// - Parameter payload: The whole payload, with the number of the page of its cell.
  package init(_ payload: PageBytes) throws(FormatError) {
    self.payload = payload
    header = try RecordHeader(payload)
    offset = header.size
  }

  /// Returns the next value; nil after the last one. Throws if the values do not fill the payload exactly.
  package mutating func next() throws(FormatError) -> StoredValue? {
    guard let type = try header.next() else {
      guard offset == payload.bytes.count else { throw payload.error("the end of a record", at: offset) }
      return nil
    }
    let range = offset..<offset + type.size
    guard range.upperBound <= payload.bytes.count else { throw payload.error("the end of a record", at: offset) }
    offset = range.upperBound
    switch type {
    case .null: return .null
    case .constant(let number): return .integer(number)
    case .text: return .text(range)
    case .blob: return .blob(range)
    case .integer: return .integer(integer(range))
    case .real:
      let number = Double(bitPattern: UInt64(bitPattern: integer(range)))
      // SQLite has no NaN: it reads NULL.
      return number.isNaN ? .null : .real(number)
    }
  }

  // The range is within the payload.
  private func integer(_ range: Range<Int>) -> Int64 {
    var number = Int64(Int8(bitPattern: payload.bytes[range.lowerBound]))
    for offset in range.dropFirst() { number = number << 8 | Int64(payload.bytes[offset]) }
    return number
  }
}
