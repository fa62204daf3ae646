import Changes
import Mapping

/// The reason why an SQL dialect has no literal for a value.
struct Unrepresentable: Error {
  let reason: String
}

/// Writes values as SQL literals.
enum SQLLiteral {
  // MARK: SQLite

  /// Returns an SQLite literal that has exactly this value and storage class.
  static func sqlite(_ value: Value) throws(Unrepresentable) -> String {
    switch value {
    case .null: return "NULL"
    case .integer(let n): return String(n)
    case .real(let r):
      if r.isNaN { throw Unrepresentable(reason: "SQLite has no NaN") }
      return sqliteReal(r)
    case .text(let bytes), .exact(let bytes):
      // The sqlite3 shell drops a CR before a line's end, also inside of a literal.
      guard let text = String(validating: bytes, as: UTF8.self), !bytes.contains(where: isControl) else {
        return "CAST(x'\(hex(bytes))' AS TEXT)"
      }
      return text.quotedText
    case .blob(let bytes): return "x'\(hex(bytes))'"
    }
  }

  private static func isControl(_ byte: UInt8) -> Bool { byte < 0x20 && byte != 0x09 && byte != 0x0a }

  /// Returns an SQLite literal for a real number. If SQLite may misread the shortest decimal, the literal is an integer
  /// times powers of two.
  ///
  /// Source: https://sqlite.org/floatingpoint.html
  static func sqliteReal(_ real: Double) -> String {
    if real.isInfinite { return real < 0 ? "-9e999" : "9e999" }
    let short = real.description
    if real == 0 || isSafe(short, real.magnitude) { return short }
    var significand = Int64(real.significandBitPattern)
    var exponent = -1074
    if real.isNormal {
      significand |= 1 << 52
      exponent = Int(real.exponent) - 52
    }
    let zeros = significand.trailingZeroBitCount
    significand >>= Int64(zeros)
    exponent += zeros
    var text = "\(significand).0"
    let sign = exponent < 0 ? "/" : "*"
    var rest = abs(exponent)
    while rest > 0 {
      text += "\(sign)(1<<\(min(rest, 62)))"
      rest -= min(rest, 62)
    }
    return real < 0 ? "(-\(text))" : "(\(text))"
  }

  /// Returns whether SQLite certainly reads the decimal `text` as `real`, despite its rounding errors.
  private static func isSafe(_ text: String, _ real: Double) -> Bool {
    let (digits, exponent) = decimal(text)
    guard let significand = Int64(digits) else { return false }
    // The nearest decimal of 17 digits is never further away than 0.45 of a unit.
    if digits.count >= 17 { return (-290...290).contains(exponent + digits.count) }
    guard significand <= 1 << 53, (-22...22).contains(exponent) else { return false }
    var power = 1.0
    for _ in 0..<abs(exponent) { power *= 10 }
    // Powers of ten up to 22 are exact, and a fused multiplication rounds once: the remainder is exact enough.
    let whole = Double(significand)
    let (remainder, scale) =
      exponent < 0 ? (whole.addingProduct(-real, power), power) : ((-real).addingProduct(whole, power), 1)
    return remainder.magnitude <= real.ulp * (real.significand == 1 ? 0.24 : 0.49) * scale
  }

  /// Splits a decimal into digits and exponent: `-1.25e+20` becomes `125` and 18.
  private static func decimal(_ text: String) -> (digits: String, exponent: Int) {
    let parts = text.split(separator: "e")
    var exponent = parts.count > 1 ? Int(parts[1]) ?? 0 : 0
    var digits = ""
    var isFraction = false
    for character in parts[0] {
      switch character {
      case ".": isFraction = true
      case "-": break
      default:
        digits.append(character)
        if isFraction { exponent -= 1 }
      }
    }
    while digits.count > 1, digits.hasSuffix("0") {
      digits.removeLast()
      exponent += 1
    }
    return (String(digits.drop { $0 == "0" }), exponent)
  }

  // MARK: PostgreSQL

  /// Returns a PostgreSQL literal for the value that a column of `type` gets from `text`.
  static func postgres(_ text: UnsafeRawBufferPointer, _ type: PostgresType) throws(Unrepresentable) -> String {
    switch type.kind {
    case .int2, .int4, .int8, .oid, .numeric:
      if isNumber(text) { return String(decoding: text, as: UTF8.self) }
    default: break
    }
    return try postgresText(Array(text))
  }

  /// Returns whether a text is digits with an optional sign and an optional decimal point, such as `-12.50`.
  private static func isNumber(_ text: UnsafeRawBufferPointer) -> Bool {
    let parts = text.dropFirst(text.first == UInt8(ascii: "-") ? 1 : 0)
      .split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
    return parts.count <= 2 && parts.allSatisfy { !$0.isEmpty && $0.allSatisfy { (0x30...0x39).contains($0) } }
  }

  private static func postgresText(_ bytes: [UInt8]) throws(Unrepresentable) -> String {
    if bytes.contains(0) { throw Unrepresentable(reason: "text holds the character NUL") }
    guard let text = String(validating: bytes, as: UTF8.self) else {
      throw Unrepresentable(reason: "text is not valid UTF-8: \(hex(Array(bytes.prefix(20))))")
    }
    return text.postgresLineLiteral
  }

  /// Returns the bytes as lower-case hexadecimal digits. Faster for many bytes than ``Swift/Sequence/hex``.
  static func hex(_ bytes: [UInt8]) -> String {
    let digits = Array("0123456789abcdef".utf8)
    return String(unsafeUninitializedCapacity: bytes.count * 2) { out in
      for (index, byte) in bytes.enumerated() {
        out[index * 2] = digits[Int(byte >> 4)]
        out[index * 2 + 1] = digits[Int(byte & 15)]
      }
      return bytes.count * 2
    }
  }
}

extension [String] {
  /// Returns these statements, unless one has the character NUL: a shell reads no further than to it.
  func printable() throws(Unrepresentable) -> [String] {
    if contains(where: { $0.utf8.contains(0) }) { throw Unrepresentable(reason: "a statement has the character NUL") }
    return self
  }
}
