import Changes
import Mapping

/// Translates a statement that a ``Checker`` has accepted into SQL of PostgreSQL. Throws for an expression without a
/// certain equivalent.
struct PostgresTranslator {
  let checker: Checker
  var names = Names()
  let bound = BoundTexts()
  /// The translated parameters, by number.
  private var parameters: [Int: PostgresPiece] = [:]
  private var producedBytes = 0
  private static let pieceBytesMax = 4 << 20
  private static let producedBytesMax = 32 << 20
  /// The maximum number of values in all IN lists of a statement together.
  private static let listedMax = 1000
  private var listed = 0
  private static let tooLong = Unreplayable("its translation is too long")

  init(checker: Checker) { self.checker = checker }

  func refused(_ what: String) -> Unreplayable { Unreplayable("\(what) may be another value in PostgreSQL") }

  // MARK: Expressions

  mutating func piece(_ expression: Expression) throws(Unreplayable) -> PostgresPiece {
    let piece = try translated(expression)
    guard piece.sql.utf8.count <= Self.pieceBytesMax else { throw Self.tooLong }
    try count(piece.sql)
    return piece
  }

  /// Adds the length of a piece of SQL to the length of all pieces, and throws if the sum is above `producedBytesMax`.
  mutating func count(_ sql: String) throws(Unreplayable) {
    producedBytes += sql.utf8.count
    guard producedBytes <= Self.producedBytesMax else { throw Self.tooLong }
  }

  private mutating func counted(_ sql: String) throws(Unreplayable) -> String {
    try count(sql)
    return sql
  }

  private mutating func translated(_ expression: Expression) throws(Unreplayable) -> PostgresPiece {
    switch expression {
    case .literal(let value): return try PostgresPiece(constant: value, bound)
    case .parameter(let number):
      if let known = parameters[number] { return known }
      let piece = try PostgresPiece(constant: try checker.parameter(number), bound)
      parameters[number] = piece
      return piece
    case .clock(let name, _): return try PostgresPiece(constant: .text(try checker.clockText(name)), bound)
    case .column(let table, let name):
      let found = try names.find(table?.text, name.text)
      let source = names.sources[found.source]
      guard let value = source.columns[found.column].value else { throw refused("column \(name)") }
      return PostgresPiece("\(source.name.quotedName).\(source.columns[found.column].sql)", value, isColumn: true)
    case .function(let call): return try function(call)
    case .unary(let sign, let operand): return try unary(sign, operand)
    case .binary(let operation, let left, let right): return try binary(operation, left, right)
    case .isNull(let operand, let isNot):
      return PostgresPiece("(\(try piece(operand).sql) IS \(isNot ? "NOT " : "")NULL)", .logic)
    case .between(let operand, let low, let high, let isNot):
      let value = try piece(operand)
      let low = try comparison(">=", value, try piece(low))
      let high = try comparison("<=", value, try piece(high))
      return PostgresPiece("(\(isNot ? "NOT " : "")(\(low) AND \(high)))", .logic)
    case .inList(let operand, let list, let isNot):
      if list.isEmpty { return try PostgresPiece(constant: .integer(isNot ? 1 : 0), bound) }
      listed += list.count
      guard listed <= Self.listedMax else { throw Unreplayable("it has more than \(Self.listedMax) values after IN") }
      let value = try piece(operand)
      var terms: [String] = []
      for element in list {
        // The affinity of a column in the list counts for nothing.
        var element = try piece(element)
        element.isColumn = false
        terms.append(try counted(try comparison("=", value, element)))
      }
      return PostgresPiece("(\(isNot ? "NOT " : "")(\(terms.joined(separator: " OR "))))", .logic)
    case .like(let operand, let pattern, let escape, let isNot): return try like(operand, pattern, escape, isNot)
    case .glob: throw refused("GLOB")
    case .conditional(let operand, let branches, let otherwise): return try conditional(operand, branches, otherwise)
    case .cast(let operand, let type): return try cast(operand, type)
    case .collate(let operand, let collation):
      guard collation.asciiUppercased == "BINARY" else { throw refused("a comparison by \(collation)") }
      return try piece(operand)
    }
  }

  mutating func condition(_ expression: Expression) throws(Unreplayable) -> String {
    try truth(try piece(expression))
  }

  private func truth(_ piece: PostgresPiece) throws(Unreplayable) -> String {
    switch (piece.constant, piece.value) {
    case (.null?, _): return "NULL::boolean"
    case (.integer(let number)?, _): return number == 0 ? "false" : "true"
    case (nil, .logic?): return piece.sql
    case (nil, .integer?), (nil, .real?), (nil, .number?): return "(\(piece.sql) <> 0)"
    default: throw refused("a condition that is not a number")
    }
  }

  /// Returns a condition or a boolean as SQLite's number 0 or 1. Any other piece is returned unchanged.
  func number(_ piece: PostgresPiece) -> PostgresPiece {
    piece.value == .logic ? PostgresPiece("(\(piece.sql))::int::bigint", .integer) : piece
  }

  private mutating func unary(_ sign: Expression.Unary, _ operand: Expression) throws(Unreplayable) -> PostgresPiece {
    let operand = try piece(operand)
    switch sign {
    case .not: return PostgresPiece("(NOT \(try truth(operand)))", .logic)
    case .plus: return PostgresPiece(operand.sql, operand.value ?? .integer)
    case .minus:
      let value = number(operand)
      if value.isNull { return value }
      guard let kind = value.value, [.integer, .real, .number].contains(kind) else { throw refused("a sign") }
      return PostgresPiece("(-\(kind == .integer ? value.wide : "(\(value.sql))"))", kind)
    case .complement:
      let value = number(operand)
      guard value.value == .integer else { throw refused("~") }
      return PostgresPiece("(~\(value.wide))", .integer)
    }
  }

  private mutating func binary(_ operation: Expression.Binary, _ left: Expression, _ right: Expression)
    throws(Unreplayable) -> PostgresPiece
  {
    switch operation {
    case .or, .and:
      return PostgresPiece("(\(try condition(left)) \(operation.rawValue) \(try condition(right)))", .logic)
    case .equal, .unequal, .less, .lessOrEqual, .greater, .greaterOrEqual:
      return PostgresPiece(try comparison(operation.rawValue, try piece(left), try piece(right)), .logic)
    case .same: return PostgresPiece(try comparison("IS NOT DISTINCT FROM", try piece(left), try piece(right)), .logic)
    case .notSame: return PostgresPiece(try comparison("IS DISTINCT FROM", try piece(left), try piece(right)), .logic)
    case .concatenate: return PostgresPiece("(\(try text(left)) || \(try text(right)))", .text)
    case .shiftLeft, .shiftRight: throw refused("a shift of bits")
    case .bitAnd, .bitOr, .add, .subtract, .multiply, .divide, .remainder:
      return try arithmetic(operation, number(try piece(left)), number(try piece(right)))
    }
  }

  private func arithmetic(_ operation: Expression.Binary, _ a: PostgresPiece, _ b: PostgresPiece)
    throws(Unreplayable) -> PostgresPiece
  {
    let sign = operation.rawValue
    switch (a.value, b.value) {
    case (.integer?, .integer?):
      switch operation {
      // SQLite returns NULL for a division by zero.
      case .divide, .remainder: return PostgresPiece("(\(a.wide) \(sign) NULLIF(\(b.wide), 0))", .integer)
      default: return PostgresPiece("(\(a.wide) \(sign) \(b.wide))", .integer)
      }
    case (.real?, .real?), (.real?, .integer?), (.integer?, .real?), (.number?, .real?), (.real?, .number?):
      guard [.add, .subtract, .multiply, .divide].contains(operation) else { throw refused("\(sign) of reals") }
      let (left, right) = ("(\(a.sql))::float8", "(\(b.sql))::float8")
      return PostgresPiece(
        operation == .divide ? "(\(left) / NULLIF(\(right), 0))" : "(\(left) \(sign) \(right))", .real)
    case (.number?, .number?), (.number?, .integer?), (.integer?, .number?):
      throw refused("\(sign) of decimals")
    default: throw refused("\(sign)")
    }
  }

  /// Returns an expression as SQL of type text, for example for `||`. Throws unless its value is a text or an integer.
  mutating func text(_ expression: Expression) throws(Unreplayable) -> String { try text(try piece(expression)) }

  /// Returns a translated expression as SQL of type text.
  func text(_ piece: PostgresPiece) throws(Unreplayable) -> String {
    let value = number(piece)
    if value.isNull { return "NULL::text" }
    switch value.value {
    case .text?: return value.sql
    case .integer?: return "(\(value.sql))::text"
    default: throw refused("a value of another type as text")
    }
  }

  // MARK: Comparisons

  static func isComparable(_ value: PostgresValue) -> Bool { [.integer, .real, .text, .blob, .number].contains(value) }

  /// Returns a comparison of two values by SQLite's rules, with the affinities of columns.
  ///
  /// Source: https://sqlite.org/datatype3.html, section 4.2
  func comparison(_ sign: String, _ a: PostgresPiece, _ b: PostgresPiece) throws(Unreplayable) -> String {
    if a.value == .logic || b.value == .logic { return try logicComparison(sign, a, b) }
    if a.isNull || b.isNull {
      let other = a.isNull ? b : a
      if sign.hasPrefix("IS") { return "(\(other.sql) \(sign) NULL)" }
      return "NULL::boolean"
    }
    let (left, right) = (try adapted(a, to: b), try adapted(b, to: a))
    guard let kind = left.value, Self.areComparable(left, right) else {
      throw refused("a comparison of different types")
    }
    let isOrder = sign.hasPrefix("<") && sign != "<>" || sign.hasPrefix(">")
    let collation = kind == .text && isOrder ? " COLLATE \"C\"" : ""
    return "(\(left.sql) \(sign) \(right.sql)\(collation))"
  }

  private static func areComparable(_ a: PostgresPiece, _ b: PostgresPiece) -> Bool {
    guard let left = a.value, let right = b.value, isComparable(left) else { return false }
    return left == right || Set([left.description, right.description]) == ["integer", "number"]
  }

  private func logicComparison(_ sign: String, _ a: PostgresPiece, _ b: PostgresPiece) throws(Unreplayable) -> String {
    for (value, other, isLeft) in [(a, b, true), (b, a, false)] where value.value == .logic {
      if case .integer(let number)? = other.constant, number == 0 || number == 1 {
        let truth = number == 1 ? "true" : "false"
        return isLeft ? "(\(value.sql) \(sign) \(truth))" : "(\(truth) \(sign) \(value.sql))"
      }
      if other.isNull { return sign.hasPrefix("IS") ? "(\(value.sql) \(sign) NULL)" : "NULL::boolean" }
    }
    return try comparison(sign, number(a), number(b))
  }

  private func adapted(_ piece: PostgresPiece, to other: PostgresPiece) throws(Unreplayable) -> PostgresPiece {
    guard let constant = piece.constant, other.constant == nil, let kind = other.value else { return piece }
    switch (kind, constant) {
    case (.text, .integer(let number)) where other.isColumn:
      return try PostgresPiece(constant: .text(String(number)), bound)
    case (.integer, .text(let bytes)) where other.isColumn, (.number, .text(let bytes)) where other.isColumn:
      let text = String(decoding: bytes, as: UTF8.self)
      guard let number = Int64(text), String(number) == text else { throw refused("a text compared with a number") }
      return PostgresPiece("(\(number))::bigint", kind)
    case (.integer, .real(let number)), (.number, .real(let number)):
      guard abs(number) < 0x1p53 else { throw refused("a real compared with an integer") }
      return PostgresPiece("\(number.description.quotedText)::numeric", kind)
    case (.number, .integer(let number)): return PostgresPiece("(\(number))::numeric", .number)
    case (.real, .integer(let number)):
      guard number.magnitude <= 1 << 53 else { throw refused("an integer compared with a real") }
      return PostgresPiece("(\(number))::float8", .real)
    default: return piece
    }
  }

  private mutating func like(_ operand: Expression, _ pattern: Expression, _ escape: Expression?, _ isNot: Bool)
    throws(Unreplayable) -> PostgresPiece
  {
    var mark: [UInt8] = []
    if let escape {
      guard case .text(let bytes)? = try checker.constant(escape), bytes.count == 1, bytes[0] < 0x80,
        bytes[0] | 0x20 < 0x61 || bytes[0] | 0x20 > 0x7a
      else { throw refused("LIKE with such an ESCAPE") }
      mark = bytes
    }
    let (value, pattern) = (Self.lower(try text(operand)), Self.lower(try text(pattern)))
    return PostgresPiece("(\(value) \(isNot ? "NOT " : "")LIKE \(pattern) ESCAPE \(try bound.sql(mark)))", .logic)
  }

  /// Returns SQL that converts only ASCII letters to lower case, as SQLite's lower() does.
  static func lower(_ sql: String) -> String {
    "translate(\(sql), 'ABCDEFGHIJKLMNOPQRSTUVWXYZ', 'abcdefghijklmnopqrstuvwxyz')"
  }

  // MARK: Choices

  /// Translates alternative results, such as the branches of a CASE, and returns their common type. Throws if their
  /// types differ.
  mutating func alike(_ all: [Expression]) throws(Unreplayable) -> (sql: [String], value: PostgresValue) {
    var pieces: [PostgresPiece] = []
    for part in all { pieces.append(number(try piece(part))) }
    let kinds = pieces.compactMap(\.value)
    guard let kind = kinds.first, kinds.allSatisfy({ $0 == kind }) else { throw refused("a choice of different types") }
    return (pieces.map { kind == .integer ? $0.wide : $0.sql }, kind)
  }

  private mutating func conditional(_ operand: Expression?, _ branches: [Expression.Branch], _ otherwise: Expression?)
    throws(Unreplayable) -> PostgresPiece
  {
    let results = try alike(branches.map(\.then) + [otherwise ?? .literal(.null)])
    let operand: PostgresPiece? = try operand.map { operand throws(Unreplayable) in try piece(operand) }
    var sql = "(CASE"
    for (index, branch) in branches.enumerated() {
      let when =
        if let operand { try counted(try comparison("=", operand, try piece(branch.when))) } else {
          try condition(branch.when)
        }
      sql += " WHEN \(when) THEN \(results.sql[index])"
    }
    return PostgresPiece(sql + " ELSE \(results.sql[branches.count]) END)", results.value)
  }

  private mutating func cast(_ operand: Expression, _ type: String) throws(Unreplayable) -> PostgresPiece {
    let value = number(try piece(operand))
    switch (TableSchema.Column(name: "", declaredType: type).affinity, value.value) {
    case ("INTEGER", .integer?): return PostgresPiece(value.wide, .integer, isColumn: true)
    case ("TEXT", .integer?): return PostgresPiece("(\(value.sql))::text", .text, isColumn: true)
    case ("TEXT", .text?): return PostgresPiece(value.sql, .text, isColumn: true)
    case ("REAL", .integer?), ("REAL", .real?), ("REAL", .number?):
      return PostgresPiece("(\(value.sql))::float8", .real, isColumn: true)
    default: throw refused("a cast to \(type)")
    }
  }
}

extension PostgresValue {
  var description: String {
    switch self {
    case .integer: "integer"
    case .real: "real"
    case .text: "text"
    case .blob: "blob"
    case .number: "number"
    case .logic: "logic"
    case .closed(let type): type.name
    }
  }
}
