/// Reads one JSON value from a text. Throws if objects and lists are nested 32 levels deep.
///
/// Source: RFC 8259. Numbers with a fraction or an exponent, and integers outside of the range of `Int64`, become
/// ``JSONObject/Value/real(_:)``.
package struct JSONReader {
  package struct Fault: Error, Equatable, Sendable, CustomStringConvertible {
    package let offset: Int
    package let problem: String
    package var description: String { "at byte \(offset): \(problem)" }
  }

  private static let depthMax = 32
  private let bytes: [UInt8]
  private var at = 0

  private init(_ bytes: [UInt8]) { self.bytes = bytes }

  /// Reads one value. The text may contain nothing else except blanks around it.
  package static func read(_ bytes: [UInt8]) throws(Fault) -> JSONObject.Value {
    var reader = JSONReader(bytes)
    let value = try reader.value(depth: 0)
    reader.skipBlanks()
    if reader.at < bytes.count { throw reader.fault("there is text after the value") }
    return value
  }

  package static func read(_ text: String) throws(Fault) -> JSONObject.Value { try read(Array(text.utf8)) }

  private func fault(_ problem: String) -> Fault { Fault(offset: at, problem: problem) }
  private var next: UInt8? { at < bytes.count ? bytes[at] : nil }

  private mutating func skipBlanks() {
    while let byte = next, byte == 0x20 || byte == 0x09 || byte == 0x0a || byte == 0x0d { at += 1 }
  }

  private mutating func take(_ character: Character) throws(Fault) {
    skipBlanks()
    guard next == character.asciiValue else { throw fault("'\(character)' is expected") }
    at += 1
  }

  private mutating func takes(_ character: Character) -> Bool {
    skipBlanks()
    guard next == character.asciiValue else { return false }
    at += 1
    return true
  }

  private mutating func value(depth: Int) throws(Fault) -> JSONObject.Value {
    guard depth < Self.depthMax else { throw fault("it is nested too deep") }
    skipBlanks()
    switch next {
    case UInt8(ascii: "{"):
      at += 1
      return .object(try members(depth: depth))
    case UInt8(ascii: "["):
      at += 1
      return .list(try elements(depth: depth))
    case UInt8(ascii: "\""): return .text(try string())
    case UInt8(ascii: "t"): return try word("true", .bool(true))
    case UInt8(ascii: "f"): return try word("false", .bool(false))
    case UInt8(ascii: "n"): return try word("null", .null)
    default: return try number()
    }
  }

  private mutating func members(depth: Int) throws(Fault) -> JSONObject {
    var object = JSONObject()
    if takes("}") { return object }
    repeat {
      skipBlanks()
      let key = try string()
      try take(":")
      object[key] = try value(depth: depth + 1)
    } while takes(",")
    try take("}")
    return object
  }

  private mutating func elements(depth: Int) throws(Fault) -> [JSONObject.Value] {
    var list: [JSONObject.Value] = []
    if takes("]") { return list }
    repeat { list.append(try value(depth: depth + 1)) } while takes(",")
    try take("]")
    return list
  }

  private mutating func word(_ word: String, _ value: JSONObject.Value) throws(Fault) -> JSONObject.Value {
    guard bytes[at...].starts(with: word.utf8) else { throw fault("this is no value") }
    at += word.utf8.count
    return value
  }

  private mutating func number() throws(Fault) -> JSONObject.Value {
    let start = at
    while let byte = next, (0x30...0x39).contains(byte) || [0x2b, 0x2d, 0x2e, 0x45, 0x65].contains(byte) { at += 1 }
    let text = String(decoding: bytes[start..<at], as: UTF8.self)
    if let integer = Int64(text), !text.hasPrefix("+") { return .integer(integer) }
    guard let real = Double(text), real.isFinite, let first = text.utf8.first, first != 0x2b, first != 0x2e else {
      at = start
      throw fault("this is no value")
    }
    return .real(real)
  }

  private mutating func string() throws(Fault) -> String {
    guard next == UInt8(ascii: "\"") else { throw fault("'\"' is expected") }
    at += 1
    var text: [UInt8] = []
    while let byte = next {
      at += 1
      switch byte {
      case UInt8(ascii: "\""): return String(decoding: text, as: UTF8.self)
      case UInt8(ascii: "\\"): text += try escape()
      case 0..<0x20: throw fault("a string contains a control character")
      default: text.append(byte)
      }
    }
    throw fault("a string does not end")
  }

  private mutating func escape() throws(Fault) -> [UInt8] {
    guard let byte = next else { throw fault("a string does not end") }
    at += 1
    switch byte {
    case UInt8(ascii: "n"): return [0x0a]
    case UInt8(ascii: "t"): return [0x09]
    case UInt8(ascii: "r"): return [0x0d]
    case UInt8(ascii: "b"): return [0x08]
    case UInt8(ascii: "f"): return [0x0c]
    case UInt8(ascii: "\""), UInt8(ascii: "\\"), UInt8(ascii: "/"): return [byte]
    case UInt8(ascii: "u"):
      var unit = try hexadecimal()
      if (0xd800..<0xdc00).contains(unit), bytes[at...].starts(with: [0x5c, 0x75]) {
        at += 2
        let low = try hexadecimal()
        guard (0xdc00..<0xe000).contains(low) else { throw fault("half of a character") }
        unit = 0x10000 + (unit - 0xd800) << 10 + (low - 0xdc00)
      }
      guard let scalar = Unicode.Scalar(unit) else { throw fault("half of a character") }
      return Array(String(scalar).utf8)
    default: throw fault("this is no escape")
    }
  }

  private mutating func hexadecimal() throws(Fault) -> UInt32 {
    guard at + 4 <= bytes.count, let unit = UInt32(String(decoding: bytes[at..<at + 4], as: UTF8.self), radix: 16)
    else {
      throw fault("four hexadecimal digits are expected")
    }
    at += 4
    return unit
  }
}

extension JSONObject {
  package func text(_ key: String) -> String? { if case .text(let text)? = self[key] { text } else { nil } }
  package func integer(_ key: String) -> Int64? { if case .integer(let n)? = self[key] { n } else { nil } }
  package func bool(_ key: String) -> Bool? { if case .bool(let b)? = self[key] { b } else { nil } }
  package func object(_ key: String) -> JSONObject? { if case .object(let o)? = self[key] { o } else { nil } }
  package func list(_ key: String) -> [Value] { if case .list(let list)? = self[key] { list } else { [] } }
  package func objects(_ key: String) -> [JSONObject] {
    list(key).compactMap { if case .object(let object) = $0 { object } else { nil } }
  }
  package func real(_ key: String) -> Double? {
    switch self[key] {
    case .real(let real): real
    case .integer(let n): Double(n)
    default: nil
    }
  }
}
