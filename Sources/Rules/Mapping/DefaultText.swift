import Changes

/// Converts a column's default to the other engine's SQL, if the default is a literal.
package enum DefaultText {
  /// Returns whether a column default of PostgreSQL is a literal with this value in both engines.
  package static func means(_ text: String, of column: TableSchema.Column, value: String) -> Bool {
    guard let literal = sqlite(text, of: column) else { return false }
    return literal == literalText(value, PostgresType(column))
  }

  // MARK: PostgreSQL to SQLite

  /// Converts a column default of PostgreSQL to SQLite; nil if it is no literal of the column's type.
  static func sqlite(_ text: String, of column: TableSchema.Column) -> String? {
    let bytes = Array(text.utf8)
    let tokens = SQLText.tokens(bytes)
    func slice(_ token: SQLText.Token) -> String { String(decoding: bytes[token.range], as: UTF8.self) }
    guard var literal = tokens.first.map(slice) else { return nil }
    var next = 1
    let isNegative = literal == "-" || (literal == "(" && tokens.count > 2 && slice(tokens[1]) == "-")
    if isNegative {
      // `-1` and `(-1)`.
      let start = literal == "(" ? 2 : 1
      (literal, next) = ("-" + decimal(tokens, start, slice).text, decimal(tokens, start, slice).next)
      if start == 2 {
        guard next < tokens.count, slice(tokens[next]) == ")" else { return nil }
        next += 1
      }
    } else if tokens[0].word.first?.isNumber == true {
      (literal, next) = decimal(tokens, 0, slice)
    }
    let isString = literal.hasPrefix("'")
    let type = PostgresType(column)
    if next < tokens.count {
      guard tokens.count > next + 2, slice(tokens[next]) == ":", slice(tokens[next + 1]) == ":" else { return nil }
      let cast = text.utf8.dropFirst(tokens[next + 2].range.lowerBound)
      guard let named = String(cast), isSame(PostgresType(named), type, named) else { return nil }
    } else if isString {
      return nil
    }
    if literal.asciiLowercased == "null" { return "NULL" }
    let value: String
    if isString {
      value = String(undoubling: literal.utf8.dropFirst().dropLast(), UInt8(ascii: "'"))
    } else if type.kind == .bool {
      guard let flag = ["true": "t", "false": "f"][literal.asciiLowercased] else { return nil }
      value = flag
    } else {
      guard isNumber(type), !literal.isEmpty, literal.utf8.contains(where: { (0x30...0x39).contains($0) }) else {
        return nil
      }
      value = literal
    }
    return literalText(padded(value, type), type)
  }

  private static func decimal(
    _ tokens: [SQLText.Token], _ start: Int, _ slice: (SQLText.Token) -> String
  ) -> (text: String, next: Int) {
    var (text, next) = ("", start)
    while next < tokens.count, tokens[next].symbol == UInt8(ascii: ".") || tokens[next].word.first?.isNumber == true {
      text += slice(tokens[next])
      next += 1
    }
    return (text, next)
  }

  private static func isNumber(_ type: PostgresType) -> Bool {
    switch type.kind {
    case .int2, .int4, .int8, .oid, .numeric, .float4, .float8: true
    default: false
    }
  }

  /// Returns whether a literal has the same text in the type `cast` and in the column's type `type`.
  private static func isSame(_ cast: PostgresType, _ type: PostgresType, _ name: String) -> Bool {
    guard name.utf8.allSatisfy({ $0 != UInt8(ascii: "'") && $0 != UInt8(ascii: ":") && $0 != UInt8(ascii: "|") }) else {
      return false
    }
    if cast.name == type.name { return true }
    switch (cast.kind, type.kind) {
    case (.numeric, .numeric), (.int2, .int2), (.int4, .int4), (.int8, .int8), (.oid, .oid), (.bool, .bool),
      (.float4, .float4), (.float8, .float8), (.bytea, .bytea), (.date, .date), (.uuid, .uuid), (.json, .json),
      (.bpchar, .bpchar):
      return true
    case (.text, .text), (.text, .varchar), (.varchar, .varchar), (.varchar, .text): return true
    default: return false
    }
  }

  /// Returns the value as PostgreSQL prints it for the type, with the zeros of a `numeric(p,s)` and the spaces of a
  /// `char(n)`.
  private static func padded(_ value: String, _ type: PostgresType) -> String {
    switch type.kind {
    case .numeric(let digits?) where digits.scale > 0 && value.utf8.first != UInt8(ascii: "N"):
      let parts = value.split(separator: ".")
      let fraction = parts.count > 1 ? parts[1].count : 0
      guard fraction < digits.scale else { return value }
      return value + (parts.count > 1 ? "" : ".") + String(repeating: "0", count: digits.scale - fraction)
    case .bpchar(let length?):
      return value + String(repeating: " ", count: max(0, length - value.unicodeScalars.count))
    default: return value
    }
  }

  private static let realHead = "(CAST("
  private static let realTail = " AS REAL))"

  private static func literalText(_ text: String, _ type: PostgresType) -> String? {
    var scratch = ByteWriter(capacity: 64)
    var value: Value?
    Array(text.utf8).withUnsafeBytes { bytes in
      value = (try? SQLiteValue(type).convert(.exact(bytes), scratch: &scratch))?.value
    }
    switch value {
    case .integer(let number): return String(number)
    case .real(let number):
      // SQLite reads up to 15 digits exactly, and -0.0 as 0.0.
      guard number.isFinite, number.description.count <= 15, number.sign == .plus || number != 0 else { return nil }
      // In rows that ADD COLUMN finds, a column without a type would have the integer 5 for DEFAULT 5.0.
      return number == number.rounded() ? realHead + number.description + realTail : number.description
    case .text(let bytes): return String(decoding: bytes, as: UTF8.self).quotedText
    case .blob(let bytes): return "x'\(bytes.hex)'"
    default: return nil
    }
  }

  // MARK: SQLite to PostgreSQL

  /// Converts a column default of SQLite to PostgreSQL; nil if it is no literal that fits the type. Empty for NULL,
  /// which needs no default.
  static func postgres(_ text: String, of column: TableSchema.Column, _ type: PostgresType) -> String? {
    let bytes = Array(text.utf8)
    let tokens = SQLText.tokens(bytes)
    guard let first = tokens.first, let last = tokens.last else { return nil }
    let whole = String(decoding: bytes[first.range.lowerBound..<last.range.upperBound], as: UTF8.self)
    if tokens.count == 1 {
      switch first.word {
      case "NULL": return ""
      case "TRUE": return literal(.integer(1), column, type)
      case "FALSE": return literal(.integer(0), column, type)
      case "CURRENT_TIMESTAMP", "CURRENT_DATE", "CURRENT_TIME": return moment(first.word, type)
      default: break
      }
      if first.symbol == UInt8(ascii: "'") || first.symbol == UInt8(ascii: "\"") {
        let inner = String(undoubling: whole.utf8.dropFirst().dropLast(), first.symbol)
        return literal(.text(inner), column, type)
      }
    }
    if tokens.count == 2, first.word == "X", tokens[1].symbol == UInt8(ascii: "'") {
      let digits = Array(whole.dropFirst(2).dropLast())
      guard type.kind == .bytea, digits.count % 2 == 0, digits.allSatisfy(\.isHexDigit) else { return nil }
      return "'\\x\(String(digits).asciiLowercased)'"
    }
    var number = whole.hasPrefix("+") ? String(whole.dropFirst()) : whole
    if number.hasPrefix(realHead), number.hasSuffix(realTail) {
      number = String(number.dropFirst(realHead.count).dropLast(realTail.count))
    }
    guard number.utf8.allSatisfy({ "0123456789+-.eE".utf8.contains($0) }) else { return nil }
    if let integer = Int64(number) { return literal(.integer(integer), column, type) }
    return Double(number).flatMap { $0.isFinite ? literal(.real($0), column, type) : nil }
  }

  /// Returns the PostgreSQL default that equals SQLite's CURRENT_TIMESTAMP, CURRENT_DATE or CURRENT_TIME in UTC; nil
  /// for other words.
  private static func moment(_ word: String, _ type: PostgresType) -> String? {
    switch (word, type.kind) {
    case ("CURRENT_TIMESTAMP", .timestamp): "date_trunc('second', now() AT TIME ZONE 'UTC')"
    case ("CURRENT_TIMESTAMP", .timestamptz): "date_trunc('second', now())"
    case ("CURRENT_TIMESTAMP", .text), ("CURRENT_TIMESTAMP", .varchar(nil)):
      "to_char(now() AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS')"
    case ("CURRENT_DATE", .date): "((now() AT TIME ZONE 'UTC')::date)"
    case ("CURRENT_TIME", .time): "(date_trunc('second', now() AT TIME ZONE 'UTC')::time)"
    default: nil
    }
  }

  /// Returns a value of the column as a PostgreSQL literal; nil if the value does not fit the type.
  static func literal(_ value: Value, _ column: TableSchema.Column, _ type: PostgresType) -> String? {
    var value = value
    switch (value, column.affinity) {
    case (.integer(let number), "TEXT"): value = .text(String(number))
    case (.real(let number), "TEXT"): value = .text(number.description)
    case (.text, "INTEGER"), (.text, "NUMERIC"), (.text, "REAL"):
      if let number = Int64(value.string) {
        value = .integer(number)
      } else if let number = Double(value.string), number.isFinite {
        value = .real(number)
      }
    default: break
    }
    var text = ByteWriter(capacity: 64)
    let converter = PostgresText(from: column, of: .sqlite, to: type)
    let isFit = value.withView { view in (try? converter.append(view, to: &text)) != nil }
    guard isFit else { return nil }
    let written = String(decoding: text.bytes, as: UTF8.self)
    if type.kind == .bool { return written == "t" || written == "true" || written == "1" ? "true" : "false" }
    if case .integer = value, isNumber(type) { return written }
    return written.postgresLiteral
  }
}
