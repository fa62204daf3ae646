import Changes
import Mapping

/// The type of an expression's values, if they are known to be the same in both engines. NULL is always possible.
enum PostgresValue: Equatable, Sendable {
  case integer, real, text, blob
  /// A `numeric` whose values SQLite has as integers or reals.
  case number
  /// A boolean of PostgreSQL, 0 or 1 in SQLite.
  case logic
  /// Values of this type, which may be copied, but not used in other expressions.
  case closed(PostgresType)

  /// Determines the type of a column's values from its affinity at the source and its type at the target.
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

/// A piece of a statement in PostgreSQL's language.
struct PostgresPiece {
  var sql: String
  var value: PostgresValue?
  /// The value of a literal or parameter, whose SQL form depends on its use; nil for all other expressions.
  var constant: Value?
  /// Whether the expression is a column, whose affinity applies to the value that it is compared with.
  var isColumn = false

  init(_ sql: String, _ value: PostgresValue, isColumn: Bool = false) {
    (self.sql, self.value, self.isColumn) = (sql, value, isColumn)
  }

  init(constant: Value) throws(Unreplayable) {
    self.constant = constant
    switch constant {
    case .null: (sql, value) = ("NULL", nil)
    case .integer(let number): (sql, value) = ("(\(number))::bigint", .integer)
    case .real(let number):
      guard number.isFinite else { throw Unreplayable("it has a number without end") }
      (sql, value) = ("\(number.description.quotedText)::float8", .real)
    case .text(let bytes), .exact(let bytes): (sql, value) = ("\(try Self.literal(bytes))::text", .text)
    case .blob(let bytes): (sql, value) = ("'\\x\(bytes.hex)'::bytea", .blob)
    }
  }

  static func literal(_ bytes: [UInt8]) throws(Unreplayable) -> String {
    guard !bytes.contains(0), let text = String(validating: bytes, as: UTF8.self) else {
      throw Unreplayable("it has a text that PostgreSQL does not take")
    }
    return text.postgresLiteral
  }

  var isNull: Bool { constant == .null }

  /// The expression as a 64-bit integer: narrower types would overflow earlier.
  var wide: String { constant == nil ? "(\(sql))::bigint" : sql }
}
