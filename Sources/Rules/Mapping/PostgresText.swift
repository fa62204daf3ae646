import Changes

/// Converts values of one column to the text that PostgreSQL reads. A value that PostgreSQL would round, truncate, pad
/// or reinterpret is a ``Misfit``.
///
/// The session must have `TimeZone = UTC`, `DateStyle = ISO` and `IntervalStyle = postgres`. Only PostgreSQL itself
/// checks arrays, ranges, enums, inet and the like.
///
///     let converter = PostgresText(from: column, of: .sqlite, to: PostgresType("numeric(10,2)"))
///     try converter.append(.integer(5), to: &text)
package struct PostgresText: Sendable {
  package let type: PostgresType
  /// Whether source and target are PostgreSQL columns with types of the same kind.
  private let isSame: Bool
  /// Whether the column is in a unique key: values that differ in SQLite must not become equal.
  private let isUnique: Bool
  private let isUntyped: Bool
  /// Whether only the spelling that PostgreSQL prints is accepted, because the column identifies rows in two-way
  /// replication.
  private let keepsSpelling: Bool

  /// Whether two different values of the source may be equal at the target, such as two spellings of a UUID.
  package let mayFold: Bool

  /// Creates the conversion for a column.
  ///
  /// - Parameter engine: The engine of the column's table.
  /// - Parameter isUnique: Whether the column is part of a unique key.
  /// - Parameter keepsSpelling: Whether the column identifies rows in two-way replication.
  package init(
    from column: TableSchema.Column, of engine: Engine, to type: PostgresType, isUnique: Bool = false,
    keepsSpelling: Bool = false
  ) {
    self.type = type
    self.keepsSpelling = keepsSpelling
    isSame = engine == .postgres && PostgresType(column).kind == type.kind
    self.isUnique = engine == .sqlite && isUnique
    isUntyped = column.affinity == "BLOB"
    mayFold =
      switch (engine, type.kind) {
      case (_, .text), (_, .varchar), (_, .bytea): false
      case (.postgres, _): PostgresType(column).isText
      // Numbers, or texts with a single spelling in a unique key.
      case (_, .int2), (_, .int4), (_, .int8), (_, .oid), (_, .bool): false
      case (_, .time), (_, .timestamp), (_, .timestamptz): false
      case (_, .numeric), (_, .float4), (_, .float8): ["TEXT", "BLOB"].contains(column.affinity)
      default: true
      }
  }

  /// Appends the text of a value. The value must not be NULL or unchanged. After a ``Misfit``, the caller must remove
  /// the text appended so far.
  package func append(_ value: ColumnView, to text: inout ByteWriter) throws(Misfit) {
    switch value {
    case .unchanged, .null: preconditionFailure("NULL has no text")
    case .exact(let bytes):
      if !isSame { try type.check(bytes, isExact: true) }
      text.append(bytes)
    case .text(let bytes):
      try Self.checkEncoding(bytes)
      if type.kind == .uuid, !PostgresType.isPrintedUUID(bytes) { return try append(uuid: bytes, to: &text) }
      try type.check(bytes, isExact: false)
      if isUnique { try checkSpelling(bytes) }
      text.append(bytes)
    case .integer(let number): try append(number, to: &text)
    case .real(let number): try append(number, to: &text)
    case .blob(let bytes):
      guard type.kind == .bytea else { throw Misfit("it is a blob") }
      text.appendHex(bytes)
    }
  }

  // MARK: Text

  private static func checkEncoding(_ bytes: UnsafeRawBufferPointer) throws(Misfit) {
    if bytes.contains(0) { throw Misfit("it holds the character NUL") }
    if bytes.contains(where: { $0 >= 0x80 }), String(validating: bytes, as: UTF8.self) == nil {
      throw Misfit("it is not valid UTF-8")
    }
  }

  /// Throws if PostgreSQL would print the value with a different spelling.
  private func checkSpelling(_ bytes: UnsafeRawBufferPointer) throws(Misfit) {
    let isPrinted =
      switch type.kind {
      case .bool: false
      case .time, .timestamp, .timestamptz: TimeText.isPrinted(bytes, type.kind)
      case .text, .varchar: !isUntyped || DecimalText.double(bytes) == nil
      // In such a column of SQLite, 1 and '1' are two values.
      case .int2, .int4, .int8, .oid: !isUntyped
      case .numeric(let digits?) where digits.scale > 0:
        bytes.lastIndex(of: UInt8(ascii: ".")).map { bytes.count - $0 - 1 == digits.scale }
          ?? (bytes.first == UInt8(ascii: "N"))
      default: true
      }
    guard isPrinted else { throw Misfit("in a unique key, it could be taken for another spelling of the same value") }
  }

  /// Appends a UUID as PostgreSQL prints it, from any spelling that PostgreSQL reads (uuid.c, `string_to_uuid`).
  ///
  ///     {A0EEBC999C0B4EF8BB6D6BB9BD380A11}  ->  a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11
  private func append(uuid bytes: UnsafeRawBufferPointer, to text: inout ByteWriter) throws(Misfit) {
    let isBraced = bytes.first == UInt8(ascii: "{") && bytes.last == UInt8(ascii: "}") && bytes.count > 2
    let inner = isBraced ? bytes[1..<(bytes.count - 1)] : bytes[...]
    var digits: [UInt8] = []
    var last: UInt8 = 0
    for byte in inner {
      defer { last = byte }
      switch byte {
      case 0x30...0x39, 0x61...0x66: digits.append(byte)
      case 0x41...0x46: digits.append(byte | 0x20)
      case UInt8(ascii: "-") where last != byte && !digits.isEmpty && digits.count % 4 == 0 && digits.count < 32:
        continue
      default: throw Misfit("it is not a UUID")
      }
    }
    guard digits.count == 32 else { throw Misfit("it is not a UUID") }
    guard !keepsSpelling else {
      throw Misfit("in a key that both ends write, a UUID must be in lower case with its hyphens")
    }
    for (index, digit) in digits.enumerated() {
      if [8, 12, 16, 20].contains(index) { text.append(UInt8(ascii: "-")) }
      text.append(digit)
    }
  }

  // MARK: Numbers

  private func append(_ number: Int64, to text: inout ByteWriter) throws(Misfit) {
    switch type.kind {
    case .bool:
      guard number == 0 || number == 1 else { throw Misfit("it is not a boolean") }
      text.append(number == 1 ? UInt8(ascii: "t") : UInt8(ascii: "f"))
      return
    case .int2, .int4, .int8, .oid: try type.checkRange(number)
    case .float8: if Double(exactly: number) == nil { throw type.tooManyDigits }
    case .float4: if Float(exactly: number) == nil { throw type.tooManyDigits }
    case .numeric, .text, .varchar, .bpchar, .json, .jsonb: break
    default: throw Misfit("it is an integer")
    }
    let start = text.count
    text.appendDecimal(number)
    try checkNumber(UnsafeRawBufferPointer(rebasing: text.bytes[start...]))
  }

  private func append(_ number: Double, to text: inout ByteWriter) throws(Misfit) {
    let start = text.count
    switch type.kind {
    case .float8: text.appendShortest(number)
    case .text, .varchar, .bpchar:
      text.appendShortest(number)
      // Print it as SQLite does: 1.0 is another value than 1.
      let isPlain = text.bytes[start...].allSatisfy { (0x30...0x39).contains($0) || $0 == UInt8(ascii: "-") }
      if isPlain { text.append([UInt8(ascii: "."), UInt8(ascii: "0")]) }
    case .float4:
      guard let single = Float(exactly: number) ?? (number.isNaN ? .nan : nil) else { throw type.tooManyDigits }
      text.appendShortest(single)
    case .numeric(let digits):
      guard number.isFinite || digits == nil || number.isNaN else { throw type.tooManyDigits }
      text.appendShortest(number == 0 ? 0 : number)
      if !number.isFinite { return }
    case .json, .jsonb:
      guard number.isFinite else { throw Misfit("it is not a number that JSON knows") }
      text.appendShortest(number)
    default: throw Misfit("it is a real")
    }
    try checkNumber(UnsafeRawBufferPointer(rebasing: text.bytes[start...]))
  }

  /// Throws if a decimal number has more digits or characters than the type allows.
  private func checkNumber(_ bytes: UnsafeRawBufferPointer) throws(Misfit) {
    switch type.kind {
    case .numeric(let digits?):
      if let decimal = DecimalText(bytes, hasExponent: true), !decimal.fits(digits) { throw type.tooManyDigits }
    case .varchar(let length?), .bpchar(let length?):
      if bytes.count > length { throw Misfit("it has \(bytes.count.counted("character"))") }
    default: break
    }
  }
}

extension ByteWriter {
  fileprivate mutating func appendDecimal(_ number: Int64) {
    if number < 0 { append(UInt8(ascii: "-")) }
    var rest = number.magnitude
    let start = count
    var digits = 1
    var limit: UInt64 = 10
    while digits < 20, rest >= limit {
      digits += 1
      let (next, isOver) = limit.multipliedReportingOverflow(by: 10)
      if isOver { break }
      limit = next
    }
    withUnsafeTemporaryAllocation(byteCount: 20, alignment: 1) { text in
      for index in stride(from: digits - 1, through: 0, by: -1) {
        text[index] = 0x30 + UInt8(rest % 10)
        rest /= 10
      }
      append(UnsafeRawBufferPointer(rebasing: text[..<digits]))
    }
    precondition(count == start + digits)
  }

  /// Appends the shortest decimal that reads as the same number, without `.0`.
  fileprivate mutating func appendShortest(_ number: some BinaryFloatingPoint & CustomStringConvertible) {
    if number.isNaN { return append("NaN") }
    if number.isInfinite { return append(number < 0 ? "-Infinity" : "Infinity") }
    append(number.description)
    let end = bytes
    guard end.count >= 2, end[end.count - 1] == UInt8(ascii: "0"), end[end.count - 2] == UInt8(ascii: ".") else {
      return
    }
    truncate(to: end.count - 2)
  }

  private mutating func append(_ text: String) {
    var text = text
    text.withUTF8 { append(UnsafeRawBufferPointer($0)) }
  }

  fileprivate mutating func appendHex(_ bytes: UnsafeRawBufferPointer) {
    reserve(2 + bytes.count * 2)
    append(UInt8(ascii: "\\"))
    append(UInt8(ascii: "x"))
    for byte in bytes {
      append(Self.digit(byte >> 4))
      append(Self.digit(byte & 15))
    }
  }

  private static func digit(_ value: UInt8) -> UInt8 { value < 10 ? 0x30 + value : 0x57 + value }
}
