import Changes

/// A parsed expression of SQLite. Unsupported forms have no case.
indirect enum Expression: Equatable, Sendable {
  case literal(Value)
  case parameter(Int)
  case column(table: NameKey?, name: NameKey)
  case function(Call)
  case unary(Unary, Expression)
  case binary(Binary, Expression, Expression)
  case isNull(Expression, isNot: Bool)
  case between(Expression, Expression, Expression, isNot: Bool)
  case inList(Expression, [Expression], isNot: Bool)
  case like(Expression, pattern: Expression, escape: Expression?, isNot: Bool)
  case glob(Expression, pattern: Expression, isNot: Bool)
  case conditional(of: Expression?, [Branch], otherwise: Expression?)
  case cast(Expression, type: String)
  case collate(Expression, String)
  /// CURRENT_TIMESTAMP, CURRENT_DATE or CURRENT_TIME in upper case, and its range in the statement's text.
  case clock(String, Range<Int>)

  enum Unary: String, Sendable { case minus = "-", plus = "+", complement = "~", not = "NOT" }

  enum Binary: String, Sendable {
    case or = "OR", and = "AND"
    case equal = "=", unequal = "<>"
    case same = "IS", notSame = "IS NOT"
    case less = "<", lessOrEqual = "<=", greater = ">", greaterOrEqual = ">="
    case bitAnd = "&", bitOr = "|", shiftLeft = "<<", shiftRight = ">>"
    case add = "+", subtract = "-", multiply = "*", divide = "/", remainder = "%"
    case concatenate = "||"
  }

  struct Branch: Equatable, Sendable {
    var when: Expression
    var then: Expression
  }

  struct Call: Equatable, Sendable {
    @ByBytes var name: String
    var arguments: [Expression]
    /// The range of each argument in the statement's text.
    var ranges: [Range<Int>] = []
    /// The range of the call in the statement's text, up to the closing parenthesis.
    var range = 0..<0
  }
}

/// A statement that writes rows of one table.
struct WritingStatement: Equatable, Sendable {
  enum Kind: String, Sendable { case insert = "INSERT", update = "UPDATE", delete = "DELETE" }
  enum Resolution: String, Sendable { case abort = "ABORT", replace = "REPLACE", ignore = "IGNORE" }

  struct Assignment: Equatable, Sendable {
    @ByBytes var columns: [String]
    var value: Expression
  }

  struct Upsert: Equatable, Sendable {
    /// The columns in ON CONFLICT (columns). Empty if the clause names none, so that it applies to each unique key.
    @ByBytes var columns: [String] = []
    var assignments: [Assignment] = []
    var condition: Expression?
  }

  var kind: Kind
  var resolution = Resolution.abort
  @ByBytes var table: String
  @ByBytes var alias: String? = nil
  /// The range of the table's name in the statement's text.
  var tableRange = 0..<0
  /// The range of the RETURNING clause in the statement's text; nil if there is none.
  var returning: Range<Int>?
  /// The column list of an INSERT; nil if there is none.
  @ByBytes var columns: [String]? = nil
  /// The rows of an INSERT.
  var rows: [[Expression]] = []
  var upsert: Upsert?
  var assignments: [Assignment] = []
  var condition: Expression?
  var end = 0

  /// Whether the statement can change or replace rows that the table had before, and so hide their former values.
  var overwrites: Bool { kind == .update || resolution == .replace || !(upsert?.assignments.isEmpty ?? true) }
}
