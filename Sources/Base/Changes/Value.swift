/// One value of a column in SQLite or PostgreSQL.
package enum Value: Hashable, Sendable {
  case null
  case integer(Int64)
  case real(Double)
  case text([UInt8])
  case blob([UInt8])
  /// A value in the text form that PostgreSQL prints for the column's type.
  case exact([UInt8])

  package static func text(_ text: String) -> Value { .text(Array(text.utf8)) }
}

/// One value of an image, read without a copy. The pointers are valid only as long as the record's bytes.
@frozen public enum ColumnView {
  case unchanged
  case null
  case integer(Int64)
  case real(Double)
  case text(UnsafeRawBufferPointer)
  case blob(UnsafeRawBufferPointer)
  case exact(UnsafeRawBufferPointer)

  /// A copy of the value; nil for an unchanged column.
  package var value: Value? {
    switch self {
    case .unchanged: nil
    case .null: .null
    case .integer(let n): .integer(n)
    case .real(let r): .real(r)
    case .text(let b): .text(Array(b))
    case .blob(let b): .blob(Array(b))
    case .exact(let b): .exact(Array(b))
    }
  }

  @inlinable public var isNull: Bool { if case .null = self { true } else { false } }
  @inlinable public var isUnchanged: Bool { if case .unchanged = self { true } else { false } }
}

/// The bytes that begin each value in an image (`docs/trail-format.md`, change).
package enum ValueTag {
  package static let unchanged: UInt8 = 0
  package static let null: UInt8 = 1
  package static let integer: UInt8 = 2
  package static let real: UInt8 = 3
  package static let text: UInt8 = 4
  package static let blob: UInt8 = 5
  package static let exact: UInt8 = 6
}

extension ByteWriter {
  @inlinable public mutating func appendUnchanged() { append(0) }
  @inlinable public mutating func appendNull() { append(1) }
  @inlinable public mutating func appendInteger(_ value: Int64) {
    append(2)
    appendZigzag(value)
  }
  @inlinable public mutating func appendReal(_ value: Double) {
    append(3)
    appendFixed(value.bitPattern)
  }
  @inlinable public mutating func appendText(_ bytes: UnsafeRawBufferPointer) {
    append(4)
    appendCounted(bytes)
  }
  @inlinable public mutating func appendBlob(_ bytes: UnsafeRawBufferPointer) {
    append(5)
    appendCounted(bytes)
  }

  @inlinable public mutating func appendExact(_ bytes: UnsafeRawBufferPointer) {
    append(6)
    appendCounted(bytes)
  }

  package mutating func append(_ value: Value?) {
    switch value {
    case nil: appendUnchanged()
    case .null: appendNull()
    case .integer(let n): appendInteger(n)
    case .real(let r): appendReal(r)
    case .text(let b): b.withUnsafeBytes { appendText($0) }
    case .blob(let b): b.withUnsafeBytes { appendBlob($0) }
    case .exact(let b): b.withUnsafeBytes { appendExact($0) }
    }
  }

  /// Appends an image: its length in bytes, then a value for each column, nil if unchanged.
  package mutating func appendImage(_ values: [Value?]) {
    var inner = ByteWriter(capacity: 256)
    for value in values { inner.append(value) }
    appendCounted(inner.bytes)
  }
}

extension ByteReader {
  @inlinable public mutating func readColumn() throws -> ColumnView {
    let at = _offset
    switch try readByte() {
    case 0: return .unchanged
    case 1: return .null
    case 2: return .integer(try readZigzag())
    case 3: return .real(Double(bitPattern: try readFixed(UInt64.self)))
    case 4: return .text(try readCounted())
    case 5: return .blob(try readCounted())
    case 6: return .exact(try readCounted())
    case let tag: throw DecodingError(offset: at, problem: "value tag \(tag) is unknown")
    }
  }

  @inlinable public mutating func readImage() throws -> ImageView { ImageView(bytes: try readCounted()) }
}

/// The encoded values of one row, in the order of the schema's columns, valid only as long as the record's bytes.
///
/// ```swift
/// let values = try ImageView(bytes: writer.bytes).values()
/// ```
@frozen public struct ImageView {
  public let bytes: UnsafeRawBufferPointer
  @inlinable public init(bytes: UnsafeRawBufferPointer) { self.bytes = bytes }

  package func columnCount() throws -> Int {
    var reader = ByteReader(bytes)
    var count = 0
    while !reader.isAtEnd {
      _ = try reader.readColumn()
      count += 1
    }
    return count
  }

  /// Returns a copy of all values; nil for an unchanged column.
  package func values() throws -> [Value?] {
    var reader = ByteReader(bytes)
    var all: [Value?] = []
    while !reader.isAtEnd { all.append(try reader.readColumn().value) }
    return all
  }
}

extension Value {
  package var string: String { if case .text(let bytes) = self { String(decoding: bytes, as: UTF8.self) } else { "" } }
}

extension Value {
  /// The length of a text or a blob, in bytes; 0 for any other value.
  package var byteCount: Int {
    switch self {
    case .text(let bytes), .exact(let bytes), .blob(let bytes): bytes.count
    case .null, .integer, .real: 0
    }
  }

  /// The memory that the value takes in a list of values, in bytes.
  package var memoryBytes: Int {
    switch self {
    case .text, .exact, .blob: 64 + byteCount
    case .null, .integer, .real: 16
    }
  }
}

extension Value {
  /// Calls `body` with the value as a ``ColumnView``, which is valid only during the call.
  package func withView<T>(_ body: (ColumnView) -> T) -> T {
    switch self {
    case .null: body(.null)
    case .integer(let n): body(.integer(n))
    case .real(let r): body(.real(r))
    case .text(let b): b.withUnsafeBytes { body(.text($0)) }
    case .blob(let b): b.withUnsafeBytes { body(.blob($0)) }
    case .exact(let b): b.withUnsafeBytes { body(.exact($0)) }
    }
  }

  /// The value in at most 40 bytes, for messages.
  package var shown: String { shown(max: 40) }

  /// Returns the value as text for messages: at most `max` bytes, from byte `start` on.
  ///
  /// - Parameter forTerminal: Whether control characters and invalid UTF-8 are escaped, so that the text cannot control
  ///   a terminal.
  package func shown(max: Int, from start: Int = 0, forTerminal: Bool = true) -> String {
    func part(_ bytes: [UInt8], _ max: Int) -> (ArraySlice<UInt8>, before: String, behind: String) {
      let part = bytes.dropFirst(start).prefix(max)
      return (part, part.startIndex > 0 ? "…" : "", part.endIndex < bytes.count ? "…'" : "'")
    }
    switch self {
    case .null: return "NULL"
    case .integer(let n): return String(n)
    case .real(let r): return String(r)
    case .text(let bytes), .exact(let bytes):
      let (part, before, behind) = part(bytes, max)
      let text =
        forTerminal ? Self.escaped(part, isCut: part.endIndex < bytes.count) : String(decoding: part, as: UTF8.self)
      return "'\(before)\(text)\(behind)"
    case .blob(let bytes):
      let (part, before, behind) = part(bytes, max / 2)
      return "x'\(before)\(part.hex)\(behind)"
    }
  }

  private static func escaped(_ bytes: ArraySlice<UInt8>, isCut: Bool) -> String {
    var text = ""
    var parser = Unicode.UTF8.ForwardParser()
    var rest = bytes.makeIterator()
    var index = bytes.startIndex
    while true {
      switch parser.parseScalar(from: &rest) {
      case .emptyInput: return text
      case .error(let length):
        if isCut, index + length >= bytes.endIndex { return text }
        for byte in bytes[index..<index + length] { text += "\\x" + [byte].hex }
        index += length
      case .valid(let encoded):
        index += encoded.count
        let scalar = Unicode.UTF8.decode(encoded)
        switch scalar.value {
        case 0x0a: text += "\\n"
        case 0x0d: text += "\\r"
        case 0x09: text += "\\t"
        case _ where scalar.isObeyed: text += scalar.code
        default: text.unicodeScalars.append(scalar)
        }
      }
    }
  }
}
