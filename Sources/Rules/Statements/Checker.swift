import Changes
import Mapping

/// Checks that a statement has the same effect on equal tables, without regard to time, chance or the order of rows.
/// Throws for everything that is not known to be safe.
struct Checker {
  /// A replacement in the statement's text: a constant instead of the current time.
  struct Edit: Equatable {
    var range: Range<Int>
    @ByBytes var text: String
  }

  let parameters: [Value]
  /// The time at which the source executed the statement, in µs since 1970 UTC; nil if unknown.
  let now: Int64?
  var edits: [Edit] = []
  var names = Names()
  /// The number of expressions checked so far in the statement.
  private var weight = 0
  /// The nesting level of the current expression.
  private var depth = 0

  init(parameters: [Value], now: Int64?) { (self.parameters, self.now) = (parameters, now) }

  // MARK: Expressions

  private mutating func weigh(_ count: Int) throws(Unreplayable) {
    weight += count
    guard weight <= StatementBounds.weightMax else {
      throw Unreplayable("it has more than \(StatementBounds.weightMax) expressions")
    }
  }

  /// Checks an operand, and counts its expressions once more for each of the `count` values that it is compared with.
  private mutating func checkRepeated(_ operand: Expression, _ count: Int) throws(Unreplayable) {
    let before = weight
    try check(operand)
    try weigh((weight - before) * min(count, StatementBounds.weightMax))
  }

  /// Checks an expression, and returns the storage class of its value, as far as known. Throws if the value may differ
  /// at the target.
  @discardableResult mutating func check(_ expression: Expression) throws(Unreplayable) -> NamedColumn {
    depth += 1
    defer { depth -= 1 }
    guard depth <= StatementBounds.depthMax else { throw StatementBounds.tooDeep }
    try weigh(StatementBounds.weight(of: expression))
    switch expression {
    case .literal(let value): return Self.column(value)
    case .parameter(let number): return Self.column(try parameter(number))
    case .column(let table, let name):
      let found = try names.find(table?.text, name.text)
      return names.sources[found.source].columns[found.column]
    case .function(let call):
      // The translation of some functions repeats their arguments.
      let before = weight
      let value = try function(call)
      try weigh(weight - before)
      return value
    case .unary(let sign, let operand):
      let value = try check(operand)
      switch sign {
      case .not, .complement: return .init(name: "", storage: .integer)
      case .plus: return value
      case .minus:
        return .init(name: "", storage: value.storage == .text || value.storage == .blob ? nil : value.storage)
      }
    case .binary(let operation, let left, let right): return try binary(operation, left, right)
    case .isNull(let operand, _): try check(operand)
    case .between(let operand, let low, let high, _):
      try checkRepeated(operand, 1)
      for part in [low, high] { try check(part) }
    case .inList(let operand, let list, _):
      try checkRepeated(operand, list.count)
      for part in list { try check(part) }
    case .like(let operand, let pattern, let escape, _):
      for part in [operand, pattern] + (escape.map { [$0] } ?? []) { try check(part) }
      try StatementBounds.check(pattern: constant(pattern))
    case .glob(let operand, let pattern, _):
      for part in [operand, pattern] { try check(part) }
      try StatementBounds.check(pattern: constant(pattern))
    case .conditional(let operand, let branches, let otherwise):
      if let operand { try checkRepeated(operand, branches.count) }
      for branch in branches { try check(branch.when) }
      return try same(branches.map(\.then) + (otherwise.map { [$0] } ?? []))
    case .cast(let operand, let type):
      let value = try check(operand)
      let storage: Storage? =
        switch TableSchema.Column(name: "", declaredType: type).affinity {
        case "INTEGER": .integer
        case "TEXT": .text
        case "REAL": .real
        case "BLOB": .blob
        default: value.storage == .integer ? .integer : nil
        }
      return .init(name: "", storage: storage, isBinary: value.isBinary)
    case .collate(let operand, let collation):
      let value = try check(operand)
      guard ["BINARY", "NOCASE", "RTRIM"].contains(collation.asciiUppercased) else {
        throw Unreplayable("collation \(collation) is one of the program")
      }
      return .init(name: "", storage: value.storage, isBinary: collation.asciiUppercased == "BINARY")
    case .clock(let name, let range):
      edits.append(.init(range: range, text: try clockText(name).quotedText))
      return .init(name: "", storage: .text)
    }
    return .init(name: "", storage: .integer)
  }

  /// Checks expressions, and returns the storage class that all their values have; none if the classes differ. NULL
  /// literals do not count.
  mutating func same(_ all: [Expression]) throws(Unreplayable) -> NamedColumn {
    var common: NamedColumn?
    for part in all where part != .literal(.null) {
      let value = try check(part)
      guard let known = common else {
        common = value
        continue
      }
      common?.storage = known.storage == value.storage ? value.storage : nil
      common?.isBinary = known.isBinary && value.isBinary
    }
    return common ?? .init(name: "")
  }

  private mutating func binary(_ operation: Expression.Binary, _ left: Expression, _ right: Expression)
    throws(Unreplayable) -> NamedColumn
  {
    let (a, b) = (try check(left), try check(right))
    switch operation {
    case .concatenate: return .init(name: "", storage: .text)
    case .add, .subtract, .multiply, .divide, .remainder:
      if a.storage == .integer, b.storage == .integer { return .init(name: "", storage: .integer) }
      let isReal = (a.storage == .real || b.storage == .real) && operation != .remainder
      return .init(name: "", storage: isReal ? .real : nil)
    default: return .init(name: "", storage: .integer)
    }
  }

  func parameter(_ number: Int) throws(Unreplayable) -> Value {
    guard parameters.indices.contains(number - 1) else { return .null }
    return parameters[number - 1]
  }

  private static func column(_ value: Value) -> NamedColumn {
    let storage: Storage? =
      switch value {
      case .integer: .integer
      case .real: .real
      case .text, .exact: .text
      case .blob: .blob
      case .null: nil
      }
    return .init(name: "", storage: storage)
  }
}
