import Changes

/// A value of SQLite in one of its five storage classes.
///
/// Source: https://sqlite.org/datatype3.html
///
/// ```swift
/// let price: SQLValue = .real(4.5)
/// let note: SQLValue = .text("to go")
/// ```
public enum SQLValue: Hashable, Sendable {
  case null
  case integer(Int64)
  case real(Double)
  case text(String)
  case blob([UInt8])

  public var isNull: Bool { self == .null }

  /// Returns whether two values are equal. Texts are compared by their bytes, as SQLite compares them.
  public static func == (a: SQLValue, b: SQLValue) -> Bool {
    switch (a, b) {
    case (.null, .null): true
    case (.integer(let a), .integer(let b)): a == b
    case (.real(let a), .real(let b)): a == b
    case (.text(let a), .text(let b)): a == b
    case (.blob(let a), .blob(let b)): a == b
    default: false
    }
  }

  public func hash(into hasher: inout Hasher) {
    switch self {
    case .null: hasher.combine(0)
    case .integer(let number): hasher.combine(number)
    case .real(let number): hasher.combine(number)
    case .text(let text): hasher.combine(text.nameKey)
    case .blob(let bytes): hasher.combine(bytes)
    }
  }
}

extension SQLValue: CustomStringConvertible {
  /// The value in readable form: text without quotes, a blob as `x'00ff'`, and NULL as `NULL`.
  public var description: String {
    switch self {
    case .null: "NULL"
    case .integer(let number): String(number)
    case .real(let number): String(number)
    case .text(let text): text
    case .blob(let bytes): "x'\(bytes.hex)'"
    }
  }
}

extension SQLValue: ExpressibleByNilLiteral, ExpressibleByIntegerLiteral, ExpressibleByFloatLiteral,
  ExpressibleByStringLiteral, ExpressibleByBooleanLiteral
{
  public init(nilLiteral: ()) { self = .null }
  public init(integerLiteral value: Int64) { self = .integer(value) }
  public init(floatLiteral value: Double) { self = .real(value) }
  public init(stringLiteral value: String) { self = .text(value) }
  public init(booleanLiteral value: Bool) { self = .integer(value ? 1 : 0) }
}

/// A type whose values can be bound to the parameters of a statement and read from the columns of a row.
///
/// Integers, floating point numbers, `Bool` (0 and 1), strings and `[UInt8]` (blobs) conform. So does an optional of
/// each, for NULL. Your own type conforms if it converts to and from one of these.
public protocol SQLConvertible {
  /// The value to bind. SQLite binds NULL for a NaN.
  var sqlValue: SQLValue { get }
  /// Creates a value of this type from an SQLite value; nil if it cannot be converted.
  init?(sqlValue: SQLValue)
}

extension SQLValue: SQLConvertible {
  public var sqlValue: SQLValue { self }
  public init?(sqlValue: SQLValue) { self = sqlValue }
}

extension Int64: SQLConvertible {
  public var sqlValue: SQLValue { .integer(self) }
  public init?(sqlValue: SQLValue) {
    guard case .integer(let number) = sqlValue else { return nil }
    self = number
  }
}

extension Double: SQLConvertible {
  public var sqlValue: SQLValue { .real(self) }
  /// Creates a number from a real or an integer; nil for other values.
  public init?(sqlValue: SQLValue) {
    switch sqlValue {
    case .real(let number): self = number
    case .integer(let number): self = Double(number)
    default: return nil
    }
  }
}

extension Float: SQLConvertible {
  public var sqlValue: SQLValue { .real(Double(self)) }
  public init?(sqlValue: SQLValue) {
    guard let number = Double(sqlValue: sqlValue) else { return nil }
    self = Float(number)
  }
}

extension Bool: SQLConvertible {
  public var sqlValue: SQLValue { .integer(self ? 1 : 0) }
  /// Creates a Boolean from an integer: 0 is false, any other number is true.
  public init?(sqlValue: SQLValue) {
    guard case .integer(let number) = sqlValue else { return nil }
    self = number != 0
  }
}

extension String: SQLConvertible {
  public var sqlValue: SQLValue { .text(self) }
  public init?(sqlValue: SQLValue) {
    guard case .text(let text) = sqlValue else { return nil }
    self = text
  }
}

extension Substring: SQLConvertible {
  public var sqlValue: SQLValue { .text(String(self)) }
  public init?(sqlValue: SQLValue) {
    guard case .text(let text) = sqlValue else { return nil }
    self = text[...]
  }
}

extension [UInt8]: SQLConvertible {
  public var sqlValue: SQLValue { .blob(self) }
  public init?(sqlValue: SQLValue) {
    guard case .blob(let bytes) = sqlValue else { return nil }
    self = bytes
  }
}

extension Optional: SQLConvertible where Wrapped: SQLConvertible {
  public var sqlValue: SQLValue { self?.sqlValue ?? .null }
  public init?(sqlValue: SQLValue) {
    if sqlValue.isNull {
      self = .none
    } else if let value = Wrapped(sqlValue: sqlValue) {
      self = .some(value)
    } else {
      return nil
    }
  }
}

/// An integer type other than `Int64`. Its initializer returns nil for a value out of range.
public protocol SQLInteger: SQLConvertible, FixedWidthInteger {}

extension SQLInteger {
  /// The number as an SQLite integer. A number above `Int64.max` becomes text.
  public var sqlValue: SQLValue { Int64(exactly: self).map { .integer($0) } ?? .text(String(self)) }
  public init?(sqlValue: SQLValue) {
    guard case .integer(let number) = sqlValue else { return nil }
    self.init(exactly: number)
  }
}

extension Int: SQLInteger {}
extension Int8: SQLInteger {}
extension Int16: SQLInteger {}
extension Int32: SQLInteger {}
extension UInt: SQLInteger {}
extension UInt8: SQLInteger {}
extension UInt16: SQLInteger {}
extension UInt32: SQLInteger {}
extension UInt64: SQLInteger {}

extension [(any SQLConvertible)?] {
  /// The values, with NULL instead of nil.
  var orNull: [any SQLConvertible] { map { $0 ?? SQLValue.null } }
}
