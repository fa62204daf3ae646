import Changes
import Mapping

/// What an expression has for values, NULL besides, where both engines are known to have the same.
enum PostgresValue: Equatable, Sendable {
  case integer, real, text, blob
  /// A `numeric` whose values SQLite has as integers or reals.
  case number
  /// A boolean of PostgreSQL, 0 or 1 in SQLite.
  case logic
  /// Values of this type, which may be moved, and not be looked at.
  case closed(PostgresType)

  /// Of a column, by what its affinity and its type at the target leave possible.
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
  /// Of a literal or parameter, whose form its place decides.
  var constant: Value?
  /// A column: it has an affinity, which what it is compared with takes on.
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

  /// As a number of 64 bits: narrower ones would overflow earlier.
  var wide: String { constant == nil ? "(\(sql))::bigint" : sql }
}
