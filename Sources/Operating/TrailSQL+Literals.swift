import Changes
import SQLiteKit

/// Why a value cannot be written in a dialect.
struct Unrepresentable: Error {
  let reason: String
}

/// Values as SQL, exactly.
enum SQLLiteral {
  // MARK: SQLite

  /// Evaluates to the value in its storage class.
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

  /// Control characters other than tab and line feed.
  private static func isControl(_ byte: UInt8) -> Bool { byte < 0x20 && byte != 0x09 && byte != 0x0a }

  /// SQLite promises 15 digits when it reads a decimal, not the nearest double. The shortest decimal is used where it
  /// is far enough from the middle between two doubles that any reader finds the right one; otherwise the value is
  /// written as an integer times powers of two, which is exact in every step.
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

  /// Whether `text`, the shortest decimal of `real`, is so near to it that an error of a hundredth of a unit in the
  /// last place does no harm.
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

  /// `-1.25e+20` as the digits `125` and the exponent 18.
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

  /// Evaluates to the value when it is assigned to, or compared with, a column of `type`.
  static func postgres(_ value: Value, _ type: PostgresType) throws(Unrepresentable) -> String {
    switch (value, type) {
    case (.null, _): return "NULL"
    case (.exact(let bytes), _): return try postgresText(bytes)
    case (.integer(let n), .bigint), (.integer(let n), .numeric): return String(n)
    case (.integer(let n), .double):
      guard n.magnitude <= 1 << 53 else {
        throw Unrepresentable(reason: "an integer that double precision would round")
      }
      return "\(n).0"
    case (.integer(let n), .text): return "'\(n)'"
    case (.real(let r), .double):
      guard r.isFinite, r != 0 || r.sign == .plus else { return "'\(postgresReal(r))'::float8" }
      let short = r.description
      return short.contains("e") ? "'\(short)'::float8" : short
    case (.real(let r), .numeric): return r.isFinite ? r.description : "'\(postgresReal(r))'::numeric"
    case (.real(let r), .text): return "'\(postgresReal(r))'"
    case (.text(let bytes), .text): return try postgresText(bytes)
    case (.text(let bytes), .bytea), (.blob(let bytes), .bytea): return "'\\x\(hex(bytes))'::bytea"
    case (.text(let bytes), .declared): return try postgresText(bytes)
    case (.blob(let bytes), .declared): return "'\\x\(hex(bytes))'"
    case (.integer(let n), .declared): return String(n)
    case (.real(let r), .declared): return "'\(postgresReal(r))'"
    case (.integer, .bytea), (.real, .bytea), (.real, .bigint), (.text, .bigint), (.text, .double), (.text, .numeric),
      (.blob, .bigint), (.blob, .double), (.blob, .numeric), (.blob, .text):
      throw Unrepresentable(reason: "\(kind(value)) in a column of type \(type.name)")
    }
  }

  private static func postgresReal(_ real: Double) -> String {
    if real.isNaN { return "NaN" }
    return real.isInfinite ? (real < 0 ? "-Infinity" : "Infinity") : real.description
  }

  private static func postgresText(_ bytes: [UInt8]) throws(Unrepresentable) -> String {
    if bytes.contains(0) { throw Unrepresentable(reason: "text holds the character NUL") }
    guard let text = String(validating: bytes, as: UTF8.self) else {
      throw Unrepresentable(reason: "text is not valid UTF-8: \(hex(Array(bytes.prefix(20))))")
    }
    guard bytes.contains(where: { $0 < 0x20 }) else { return text.quotedText }
    var out = "E'"
    for scalar in text.unicodeScalars {
      switch scalar {
      case "'": out += "''"
      case "\\": out += "\\\\"
      case "\n": out += "\\n"
      case "\r": out += "\\r"
      case "\t": out += "\\t"
      case _ where scalar.value < 0x20: out += "\\x" + UInt64(scalar.value).hex(2)
      default: out.unicodeScalars.append(scalar)
      }
    }
    return out + "'"
  }

  private static func kind(_ value: Value) -> String {
    switch value {
    case .null: "NULL"
    case .integer: "an integer"
    case .real: "a real"
    case .text, .exact: "text"
    case .blob: "a blob"
    }
  }

  /// As ``Swift/Sequence/hex``, for many bytes.
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

/// The type that a column of a trail has in PostgreSQL.
enum PostgresType: Equatable {
  case bigint
  case double
  case numeric
  case text
  case bytea
  /// Of a trail from PostgreSQL: as it is there.
  case declared(String)

  var name: String {
    switch self {
    case .bigint: "bigint"
    case .double: "double precision"
    case .numeric: "numeric"
    case .text: "text"
    case .bytea: "bytea"
    case .declared(let name): name
    }
  }

  /// By SQLite's rules of affinity; what they leave open, and what SQLite programs use for something else, is text.
  ///
  /// Source: https://sqlite.org/datatype3.html, section 3.1
  init(_ column: TableSchema.Column, of schema: TableSchema) {
    if schema.engine == .postgres {
      self = .declared(column.declaredType)
      return
    }
    let type = column.declaredType.uppercased()
    self =
      switch ColumnAffinity(column, of: schema) {
      case .integer: .bigint
      case .text: .text
      case .real: .double
      case .blob: .bytea
      case .any: .text
      case .numeric:
        if type.hasPrefix("BOOL") {
          .bigint
        } else if ["NUM", "DEC", "MONEY"].contains(where: type.hasPrefix) {
          .numeric
        } else {
          .text
        }
      }
  }
}

/// What SQLite makes of a declared type. `any` holds values of all kinds as they are; so does `blob`, which is told
/// apart since it was declared so.
enum ColumnAffinity {
  case integer
  case text
  case real
  case numeric
  case blob
  case any

  init(_ column: TableSchema.Column, of schema: TableSchema) {
    let type = column.declaredType.uppercased()
    func has(_ parts: String...) -> Bool { parts.contains { type.contains(substring: $0) } }
    self =
      if type.isEmpty || (schema.flags.contains(.strict) && type == "ANY") {
        .any
      } else if has("INT") {
        .integer
      } else if has("CHAR", "CLOB", "TEXT") {
        .text
      } else if has("BLOB") {
        .blob
      } else if has("REAL", "FLOA", "DOUB") {
        .real
      } else {
        .numeric
      }
  }
}

extension String {
  fileprivate func contains(substring part: String) -> Bool {
    let (text, part) = (Array(utf8), Array(part.utf8))
    guard text.count >= part.count else { return false }
    return (0...text.count - part.count).contains { text[$0..<$0 + part.count].elementsEqual(part) }
  }
}
