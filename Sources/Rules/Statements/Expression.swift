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
  case inSelect(Expression, Select, isNot: Bool)
  case like(Expression, pattern: Expression, escape: Expression?, isNot: Bool)
  case glob(Expression, pattern: Expression, isNot: Bool)
  case conditional(of: Expression?, [Branch], otherwise: Expression?)
  case cast(Expression, type: String)
  case collate(Expression, String)
  case exists(Select)
  /// A subquery whose value is the first column of its first row.
  case scalar(Select)
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
    var isDistinct = false
    var isStar = false
    /// The range of each argument in the statement's text.
    var ranges: [Range<Int>] = []
    /// The range of the call in the statement's text, up to the closing parenthesis.
    var range = 0..<0
  }
}

/// A query: one SELECT or VALUES, or several combined by UNION, INTERSECT or EXCEPT.
struct Select: Equatable, Sendable {
  struct Core: Equatable, Sendable {
    var isDistinct = false
    var results: [Result] = []
    var sources: [Source] = []
    var condition: Expression?
    var groups: [Expression] = []
    var having: Expression?
    /// The rows of VALUES. Empty for a SELECT.
    var rows: [[Expression]] = []
  }

  enum Result: Equatable, Sendable {
    case expression(Expression, name: NameKey?)
    case all(of: NameKey?)
  }

  struct Source: Equatable, Sendable {
    enum Join: String, Sendable { case cross = "CROSS JOIN", inner = "JOIN", left = "LEFT JOIN" }
    enum Content: Equatable, Sendable {
      case table(NameKey)
      indirect case select(Select)
    }
    var content: Content
    @ByBytes var alias: String? = nil
    var join: Join = .cross
    var condition: Expression?
  }

  enum Operator: String, Sendable {
    case union = "UNION", unionAll = "UNION ALL", intersect = "INTERSECT", except = "EXCEPT"
  }

  struct Term: Equatable, Sendable {
    var expression: Expression
    var isDescending = false
    /// The order of NULL values; nil if not specified.
    var areNullsFirst: Bool?
  }

  var common: [CommonTable] = []
  var first = Core()
  var others: [(Operator, Core)] = []
  var order: [Term] = []
  var limit: Expression?
  var offset: Expression?

  var cores: [Core] { [first] + others.map(\.1) }

  static func == (a: Select, b: Select) -> Bool {
    a.common == b.common && a.cores == b.cores && a.others.map(\.0) == b.others.map(\.0) && a.order == b.order
      && a.limit == b.limit && a.offset == b.offset
  }
}

/// A common table after WITH: `name(columns) AS (query)`.
struct CommonTable: Equatable, Sendable {
  @ByBytes var name: String
  @ByBytes var columns: [String] = []
  var select: Select
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
  var common: [CommonTable] = []
  /// The column list of an INSERT; nil if there is none.
  @ByBytes var columns: [String]? = nil
  var rows = Select()
  var upsert: Upsert?
  var assignments: [Assignment] = []
  var sources: [Select.Source] = []
  var condition: Expression?
  var end = 0
}
