import Changes
import Mapping

/// A type whose values are equal in both engines. NULL is always possible.
enum PostgresValue: Equatable, Sendable {
  case integer, real, text, blob
  /// A `numeric` that SQLite stores as integer or real.
  case number
  /// A boolean of PostgreSQL, which is 0 or 1 in SQLite.
  case logic
  /// Any other type. Its values may be copied, but not used in expressions.
  case closed(PostgresType)

  /// Chooses the type of a column's values, from the affinity at the source and the type at the target.
  init(_ source: TableSchema.Column, _ target: (name: String, type: PostgresType)) {
    self =
      switch (target.type.kind, source.affinity) {
      case (.int2, "INTEGER"), (.int4, "INTEGER"), (.int8, "INTEGER"), (.int2, "NUMERIC"), (.int4, "NUMERIC"),
        (.int8, "NUMERIC"):
        .integer
      case (.float8, "REAL"): .real
      case (.numeric(let digits?), "NUMERIC") where digits.precision <= 15 && digits.scale >= 0: .number
      case (.text, "TEXT") where source.isBinary, (.varchar, "TEXT") where source.isBinary: .text
      case (.bytea, "BLOB") where !source.declaredType.isEmpty: .blob
      case (.bool, "NUMERIC"), (.bool, "INTEGER"): .logic
      default: .closed(target.type)
      }
  }
}

/// A translated expression in SQL of PostgreSQL.
struct PostgresPiece {
  var sql: String
  var value: PostgresValue?
  /// The value of a literal or parameter; nil for other expressions.
  var constant: Value?
  /// Whether the expression is a column, whose affinity applies in comparisons.
  var isColumn = false

  init(_ sql: String, _ value: PostgresValue, isColumn: Bool = false) {
    (self.sql, self.value, self.isColumn) = (sql, value, isColumn)
  }

  init(constant: Value, _ bound: BoundTexts) throws(Unreplayable) {
    self.constant = constant
    switch constant {
    case .null: (sql, value) = ("NULL", nil)
    case .integer(let number): (sql, value) = ("(\(number))::bigint", .integer)
    case .real(let number):
      guard number.isFinite else { throw Unreplayable("it has a number without end") }
      (sql, value) = ("\(number.description.quotedText)::float8", .real)
    case .text(let bytes), .exact(let bytes): (sql, value) = ("\(try bound.sql(bytes))::text", .text)
    case .blob(let bytes): (sql, value) = ("\(try bound.sql(Array("\\x\(bytes.hex)".utf8)))::bytea", .blob)
    }
  }

  var isNull: Bool { constant == .null }

  /// The expression as a 64-bit integer, so that it does not overflow earlier than in SQLite.
  var wide: String { constant == nil ? "(\(sql))::bigint" : sql }
}

/// The texts of a translated statement that are bound as parameters.
final class BoundTexts {
  /// The maximum number of parameters of a PostgreSQL statement. Source: https://www.postgresql.org/docs/15/limits.html
  static let max = 65_535

  // A blob is twice as long as a text.
  private static let mentionedBytesMax = 2 * StatementBounds.mentionedBytesMax

  private(set) var all: [String] = []
  private var numbers: [[UInt8]: Int] = [:]
  private var mentionedBytes = 0

  /// Returns the parameter of a text, such as `$1`. Adds a parameter if no earlier one has the same text.
  func sql(_ bytes: [UInt8]) throws(Unreplayable) -> String {
    mentionedBytes += bytes.count
    guard mentionedBytes <= Self.mentionedBytesMax else { throw StatementBounds.tooManyBytes }
    if let number = numbers[bytes] { return "$\(number)" }
    guard !bytes.contains(0), let text = String(validating: bytes, as: UTF8.self) else {
      throw Unreplayable("it has a text that PostgreSQL does not take")
    }
    guard all.count < Self.max else { throw Unreplayable("it has more than \(Self.max) values") }
    all.append(text)
    numbers[bytes] = all.count
    return "$\(all.count)"
  }

  /// Throws if the parameters are long together where `sql` mentions them: PostgreSQL copies a parameter for each
  /// mention.
  func check(_ sql: String) throws(Unreplayable) {
    var (mentioned, number, isNumber) = (0, 0, false)
    for byte in sql.utf8 {
      if isNumber, (0x30...0x39).contains(byte) {
        number = min(number * 10 + Int(byte - 0x30), Self.max + 1)
        continue
      }
      if isNumber, all.indices.contains(number - 1) { mentioned += all[number - 1].utf8.count }
      (number, isNumber) = (0, byte == UInt8(ascii: "$"))
    }
    if isNumber, all.indices.contains(number - 1) { mentioned += all[number - 1].utf8.count }
    guard mentioned <= Self.mentionedBytesMax else { throw StatementBounds.tooManyBytes }
  }
}
