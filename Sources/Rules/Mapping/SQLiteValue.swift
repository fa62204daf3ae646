import Changes

#if canImport(Glibc)
  import Glibc
#endif

/// Converts values of one PostgreSQL column to the values that SQLite stores. Numbers that SQLite represents exactly
/// become numbers, `bytea` becomes a blob, and all other values become text. NaN becomes a text, because SQLite would
/// store NULL.
///
///     let value = SQLiteValue(PostgresType("boolean"))
///     try value.convert(.exact(bytes), scratch: &scratch)
package struct SQLiteValue: Sendable {
  /// The form in which SQLite stores the values.
  package enum Storage: Sendable {
    case integer
    case boolean
    case real
    case single
    case blob
    case text
  }

  package let storage: Storage
  /// Whether the trailing spaces of a `char(n)` are removed.
  private let cutsPadding: Bool

  package init(_ type: PostgresType, cutsPadding: Bool = false) {
    if case .bpchar = type.kind { self.cutsPadding = cutsPadding } else { self.cutsPadding = false }
    storage =
      switch type.kind {
      case .bool: .boolean
      case .int2, .int4, .int8, .oid: .integer
      case .float4: .single
      case .float8: .real
      case .bytea: .blob
      default: .text
      }
  }

  /// Creates the conversion for a column of a PostgreSQL schema.
  ///
  /// - Parameter goesBothWays: Whether applications write to the SQLite table too. If so, the trailing spaces of a
  ///   `char(n)` are removed.
  package init(from column: TableSchema.Column, goesBothWays: Bool = false) {
    self.init(PostgresType(column), cutsPadding: goesBothWays)
  }

  /// The declared type of a column that Cairn creates for the values. Empty for floats, because SQLite keeps -0.0 only
  /// in a column without a type.
  package var declaredType: String {
    switch storage {
    case .integer, .boolean: "INTEGER"
    case .real, .single: ""
    case .blob: "BLOB"
    case .text: "TEXT"
    }
  }

  /// Returns the value for SQLite. The result points into `value` or `scratch`. Reserve the bytes of a whole row in
  /// `scratch` first, so that earlier results stay valid.
  package func convert(_ value: ColumnView, scratch: inout ByteWriter) throws(Misfit) -> ColumnView {
    guard case .exact(let bytes) = value else { return value }
    switch storage {
    case .text: return .text(cutsPadding ? bytes.withoutPadding : bytes)
    case .integer:
      guard let number = DecimalText.integer(bytes) else { throw Misfit("it is not an integer") }
      return .integer(number)
    case .boolean:
      guard bytes.count == 1, bytes[0] == UInt8(ascii: "t") || bytes[0] == UInt8(ascii: "f") else {
        throw Misfit("it is not a boolean")
      }
      return .integer(bytes[0] == UInt8(ascii: "t") ? 1 : 0)
    case .real, .single:
      if bytes.elementsEqual("NaN".utf8) { return .text(bytes) }
      guard let number = storage == .single ? DecimalText.single(bytes).map(Double.init) : DecimalText.double(bytes)
      else { throw Misfit("it is not a number") }
      return .real(number)
    case .blob:
      let start = scratch.count
      guard bytes.count >= 2, bytes.count % 2 == 0, bytes[0] == UInt8(ascii: "\\"), bytes[1] == UInt8(ascii: "x") else {
        throw Misfit("it is not bytea in hexadecimal")
      }
      scratch.reserve(bytes.count)
      for index in stride(from: 2, to: bytes.count, by: 2) {
        guard let high = Self.digit(bytes[index]), let low = Self.digit(bytes[index + 1]) else {
          throw Misfit("it is not bytea in hexadecimal")
        }
        scratch.append(high << 4 | low)
      }
      return .blob(UnsafeRawBufferPointer(rebasing: scratch.bytes[start...]))
    }
  }

  private static func digit(_ byte: UInt8) -> UInt8? {
    switch byte {
    case 0x30...0x39: byte - 0x30
    case 0x61...0x66: byte - 0x57
    case 0x41...0x46: byte - 0x37
    default: nil
    }
  }
}

extension UnsafeRawBufferPointer {
  /// The text without trailing spaces, which have no meaning in `char(n)`.
  package var withoutPadding: UnsafeRawBufferPointer {
    let end = lastIndex { $0 != UInt8(ascii: " ") }.map { $0 + 1 } ?? 0
    return UnsafeRawBufferPointer(rebasing: self[..<end])
  }
}
