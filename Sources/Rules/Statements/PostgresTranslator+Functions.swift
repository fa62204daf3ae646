import Changes
import Mapping

// Functions that give the same in both engines, or can be made to.
extension PostgresTranslator {
  mutating func function(_ call: Expression.Call) throws(Unreplayable) -> PostgresPiece {
    let arguments = call.arguments
    switch (call.name, arguments.count) {
    case ("min", 2...), ("max", 2...):
      let all = try alike(arguments)
      guard [.integer, .real].contains(all.value) else { break }
      let isNull = all.sql.map { "\($0) IS NULL" }.joined(separator: " OR ")
      let choice = call.name == "min" ? "LEAST" : "GREATEST"
      return PostgresPiece(
        "(CASE WHEN \(isNull) THEN NULL ELSE \(choice)(\(all.sql.joined(separator: ", "))) END)", all.value)
    case ("coalesce", 2...), ("ifnull", 2):
      let all = try alike(arguments)
      return PostgresPiece("coalesce(\(all.sql.joined(separator: ", ")))", all.value)
    case ("nullif", 2):
      let (a, b) = (number(try piece(arguments[0])), number(try piece(arguments[1])))
      guard let kind = a.value, kind == b.value, [.integer, .text, .real].contains(kind) else { break }
      return PostgresPiece("NULLIF(\(a.sql), \(b.sql))", kind)
    case ("iif", 3):
      let all = try alike([arguments[1], arguments[2]])
      return PostgresPiece(
        "(CASE WHEN \(try condition(arguments[0])) THEN \(all.sql[0]) ELSE \(all.sql[1]) END)", all.value)
    case ("likely", 1), ("unlikely", 1): return try piece(arguments[0])
    case ("abs", 1):
      let value = number(try piece(arguments[0]))
      guard let kind = value.value, [.integer, .real].contains(kind) else { break }
      return PostgresPiece("abs(\(kind == .integer ? value.wide : value.sql))", kind)
    case ("lower", 1): return PostgresPiece(Self.lower(try text(arguments[0])), .text)
    case ("upper", 1):
      let sql = try text(arguments[0])
      return PostgresPiece(
        "translate(\(sql), 'abcdefghijklmnopqrstuvwxyz', 'ABCDEFGHIJKLMNOPQRSTUVWXYZ')", .text)
    case ("length", 1):
      let value = number(try piece(arguments[0]))
      if value.value == .blob { return PostgresPiece("length(\(value.sql))::bigint", .integer) }
      return PostgresPiece("length(\(try text(value)))::bigint", .integer)
    case ("trim", 1): return PostgresPiece("btrim(\(try text(arguments[0])))", .text)
    case ("ltrim", 1), ("rtrim", 1): return PostgresPiece("\(call.name)(\(try text(arguments[0])))", .text)
    case ("substr", 2...3), ("substring", 2...3): return try part(arguments)
    case ("typeof", 1): return try type(of: try piece(arguments[0]))
    case ("date", 1), ("time", 1), ("datetime", 1), ("unixepoch", 1): return try clock(call)
    default: break
    }
    throw Unreplayable("\(call.name)() with these arguments may be another value in PostgreSQL")
  }

  /// Translates substr() if its start and length are constant, and the start is at least 1. Throws for any other call.
  private mutating func part(_ arguments: [Expression]) throws(Unreplayable) -> PostgresPiece {
    var numbers: [Int64] = []
    for argument in arguments.dropFirst() {
      guard case .integer(let number)? = try checker.constant(argument), (0...1_000_000_000).contains(number) else {
        throw refused("substr() with computed places")
      }
      numbers.append(number)
    }
    guard numbers[0] >= 1 else { throw refused("substr() from the end") }
    let list = numbers.map(String.init).joined(separator: ", ")
    return PostgresPiece("substr(\(try text(arguments[0])), \(list))", .text)
  }

  private func type(of value: PostgresPiece) throws(Unreplayable) -> PostgresPiece {
    let name: String
    switch value.value {
    case nil: name = "null"
    case .integer, .logic: name = "integer"
    case .real: name = "real"
    case .text: name = "text"
    case .blob: name = "blob"
    case .number, .closed: throw refused("typeof()")
    }
    return PostgresPiece("(CASE WHEN \(value.sql) IS NULL THEN 'null' ELSE '\(name)' END)", .text)
  }

  /// Translates a call such as `date('now')` into the constant time at which the source executed the statement. Throws
  /// for any argument except `now`.
  private func clock(_ call: Expression.Call) throws(Unreplayable) -> PostgresPiece {
    guard let value = try checker.constant(call.arguments[0]), Checker.clockWord(value) == "now" else {
      throw refused("\(call.name)()")
    }
    switch call.name {
    case "date": return try PostgresPiece(constant: .text(try checker.clockText("CURRENT_DATE")), bound)
    case "time": return try PostgresPiece(constant: .text(try checker.clockText("CURRENT_TIME")), bound)
    case "datetime": return try PostgresPiece(constant: .text(try checker.clockText("CURRENT_TIMESTAMP")), bound)
    default:
      guard let now = checker.now, now >= 0 else { throw refused("\(call.name)()") }
      return try PostgresPiece(constant: .integer(now / 1_000_000), bound)
    }
  }
}
