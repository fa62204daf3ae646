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

  let tables: (String) -> StatementTable?
  let parameters: [Value]
  /// The time at which the source executed the statement, in µs since 1970 UTC; nil if unknown.
  let now: Int64?
  var edits: [Edit] = []
  var names = Names()
  /// The GROUP BY of one query. Outside of aggregate functions, expressions may name only grouped columns.
  struct Grouping {
    /// The GROUP BY expressions; nil if there is no GROUP BY.
    var groups: [Expression]?
    /// Whether the checked expression is inside an aggregate function.
    var isWithin = false
    var isBare: Bool { groups != nil && !isWithin }
  }
  var groupings: [Grouping] = []
  private var reads: Set<NameKey> = []
  private var sourceCount = 0
  /// The number of expressions checked so far in the statement.
  private var weight = 0
  /// The nesting level of the current expression in the statement, through all subqueries around it.
  private var depth = 0
  /// Whether an ambiguous column name means the column of the query's first table. If false, such a name is refused.
  var preferFirst: Bool {
    get { names.prefersFirst }
    set { names.prefersFirst = newValue }
  }

  init(tables: @escaping (String) -> StatementTable?, parameters: [Value], now: Int64?) {
    (self.tables, self.parameters, self.now) = (tables, parameters, now)
  }

  // MARK: Expressions

  /// Checks an expression, and returns the storage class of its value, as far as known. Throws if the value may differ
  /// at the target.
  @discardableResult mutating func check(_ expression: Expression) throws(Unreplayable) -> NamedColumn {
    guard let grouping = groupings.last, grouping.isBare, grouping.groups?.contains(expression) ?? false else {
      return try value(expression)
    }
    // The expression has one value for the group, so its columns need no check.
    groupings[groupings.count - 1].isWithin = true
    defer { groupings[groupings.count - 1].isWithin = false }
    return try value(expression)
  }

  /// Runs `body` on an inner query level, whose expressions may name the columns of `sources`.
  mutating func onLevel(_ sources: [NamedSource], _ body: (inout Checker) throws(Unreplayable) -> Void)
    throws(Unreplayable)
  {
    names.levels.append(sources)
    groupings.append(Grouping())
    defer {
      names.levels.removeLast()
      groupings.removeLast()
    }
    try body(&self)
  }

  /// Runs `body`, and returns the names of the tables that the checked queries read.
  mutating func reading(_ body: (inout Checker) throws(Unreplayable) -> Void) throws(Unreplayable) -> Set<NameKey> {
    let before = reads
    reads = []
    defer { reads.formUnion(before) }
    try body(&self)
    return reads
  }

  private mutating func weigh(_ count: Int) throws(Unreplayable) {
    weight += count
    guard weight <= StatementBounds.weightMax else {
      throw Unreplayable("it has more than \(StatementBounds.weightMax) expressions with its subqueries in place")
    }
  }

  /// Checks an operand, and counts its expressions once more for each of the `count` values that it is compared with.
  private mutating func checkRepeated(_ operand: Expression, _ count: Int) throws(Unreplayable) {
    let before = weight
    try check(operand)
    try weigh((weight - before) * min(count, StatementBounds.weightMax))
  }

  private mutating func value(_ expression: Expression) throws(Unreplayable) -> NamedColumn {
    depth += 1
    defer { depth -= 1 }
    guard depth <= StatementBounds.depthMax else { throw StatementBounds.tooDeep }
    try weigh(StatementBounds.weight(of: expression))
    switch expression {
    case .literal(let value): return Self.column(value)
    case .parameter(let number): return Self.column(try parameter(number))
    case .column(let table, let name):
      let found = try names.find(table?.text, name.text)
      if groupings[found.level].isBare {
        throw Unreplayable("column \(name) is of any row of its group")
      }
      var column = names.levels[found.level][found.source].columns[found.column]
      try weigh(column.weight)
      column.weight = 0
      return column
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
    case .inSelect(let operand, let select, _):
      try check(operand)
      try check(select)
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
    case .exists(let select): try check(select)
    case .scalar(let select):
      guard isOneRow(select) else { throw Unreplayable("a subquery may find several rows, and one is taken") }
      return try check(select).first ?? .init(name: "")
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

  // MARK: Queries

  /// Checks a query, and returns the columns of its rows. Throws if the rows may differ at the target.
  @discardableResult mutating func check(_ select: Select) throws(Unreplayable) -> [NamedColumn] {
    let outer = names.common
    defer { names.common = outer }
    try check(select.common)
    if !select.others.isEmpty, !select.order.isEmpty || select.limit != nil {
      throw Unreplayable("it orders the rows of several queries")
    }
    var columns = try check(select.first, select.order)
    for (operation, core) in select.others {
      let more = try check(core, [])
      guard more.count == columns.count else { throw Unreplayable("its queries have different columns") }
      for (index, column) in more.enumerated() {
        if columns[index].storage != column.storage { columns[index].storage = nil }
        columns[index].weight = min(columns[index].weight + column.weight, StatementBounds.weightMax)
        columns[index].isBinary = columns[index].isBinary && column.isBinary
        if operation != .unionAll { try checkDistinct(columns[index]) }
      }
    }
    if select.limit != nil || select.offset != nil {
      for bound in [select.limit, select.offset] {
        if let bound, try constant(bound) == nil { throw Unreplayable("its LIMIT is computed") }
      }
      guard isOrderedWhole(select) else {
        throw Unreplayable("LIMIT without an ORDER BY over a whole key takes any rows")
      }
    }
    return columns
  }

  mutating func check(_ common: [CommonTable]) throws(Unreplayable) {
    for table in common {
      var columns = try check(table.select)
      if !table.columns.isEmpty {
        guard table.columns.count == columns.count else { throw Unreplayable("a table of its WITH has other columns") }
        for (index, name) in table.columns.enumerated() { columns[index].name = name.asciiLowercased }
      }
      names.common[table.name.asciiLowercased] = NamedSource(
        name: table.name.asciiLowercased, columns: columns, keys: keys(of: table.select))
    }
  }

  private mutating func check(_ core: Select.Core, _ order: [Select.Term]) throws(Unreplayable) -> [NamedColumn] {
    if !core.rows.isEmpty { return try checkRows(core.rows) }
    names.levels.append([])
    groupings.append(Grouping())
    defer {
      names.levels.removeLast()
      groupings.removeLast()
    }
    try check(core.sources)
    if let condition = core.condition { try check(condition) }
    for group in core.groups {
      if case .literal = group { throw Unreplayable("it groups by the number of a column") }
      try checkDistinct(try check(group))
    }
    let results = core.results.compactMap { if case .expression(let value, _) = $0 { value } else { nil } }
    let all = results + (core.having.map { [$0] } ?? []) + order.map(\.expression)
    if !core.groups.isEmpty || all.contains(where: \.hasAggregate) {
      groupings[groupings.count - 1].groups = core.groups
    }
    var columns: [NamedColumn] = []
    for result in core.results {
      switch result {
      case .all(let table):
        guard groupings.last?.groups == nil else { throw Unreplayable("it groups rows and takes all columns") }
        let sources = names.levels[names.levels.count - 1].filter {
          table == nil || $0.name == table?.text.asciiLowercased
        }
        guard !sources.isEmpty else { throw Unreplayable("\(table?.text ?? "*").* is of no table") }
        columns += sources.flatMap(\.columns)
      case .expression(let value, let name):
        let before = weight
        var column = try check(value)
        column.weight = weight - before
        if case .column(_, let own) = value, name == nil {
          column.name = own.text.asciiLowercased
        } else {
          column.name = name?.text.asciiLowercased ?? ""
        }
        columns.append(column)
      }
    }
    if core.isDistinct { for column in columns { try checkDistinct(column) } }
    if let having = core.having { try check(having) }
    for term in order {
      switch term.expression {
      case .literal: throw Unreplayable("it orders by the number of a column")
      case .column(nil, let name) where columns.contains { $0.name == name.text.asciiLowercased }: break
      default: try check(term.expression)
      }
    }
    return columns
  }

  private mutating func checkRows(_ rows: [[Expression]]) throws(Unreplayable) -> [NamedColumn] {
    var columns: [NamedColumn]?
    for row in rows {
      var these: [NamedColumn] = []
      for value in row {
        let before = weight
        these.append(try check(value))
        these[these.count - 1].weight = weight - before
      }
      if var known = columns {
        for index in known.indices {
          if known[index].storage != these[index].storage { known[index].storage = nil }
          known[index].weight = max(known[index].weight, these[index].weight)
        }
        columns = known
      } else {
        columns = these.enumerated().map { .init(name: "column\($0 + 1)", storage: $1.storage, weight: $1.weight) }
      }
    }
    return columns ?? []
  }

  func checkDistinct(_ column: NamedColumn) throws(Unreplayable) {
    guard column.isBinary, column.storage != nil else {
      throw Unreplayable("values that are equal but not the same may replace one another")
    }
  }

  mutating func check(_ sources: [Select.Source]) throws(Unreplayable) {
    sourceCount += sources.count
    guard sourceCount <= StatementBounds.sourcesMax else {
      throw Unreplayable("it reads more than \(StatementBounds.sourcesMax) tables")
    }
    for source in sources {
      let level = names.levels.count - 1
      switch source.content {
      case .table(let table):
        let key = table.text.asciiLowercased
        if var common = names.common[key] {
          common.name = source.alias?.asciiLowercased ?? key
          names.levels[level].append(common)
        } else {
          names.levels[level].append(try named(key, source.alias))
          reads.insert(key)
        }
      case .select(let select):
        // The subquery sees the outer queries, but not the other sources of its own FROM clause.
        let beside = names.levels[level]
        names.levels[level] = []
        let columns = try check(select)
        names.levels[level] = beside
        names.levels[level].append(.init(name: source.alias?.asciiLowercased ?? "", columns: columns))
      }
      if let condition = source.condition { try check(condition) }
    }
  }

  func named(_ table: String, _ alias: String?) throws(Unreplayable) -> NamedSource {
    guard let known = tables(table) else {
      throw Unreplayable("table \(table) is not one that the target has as it is")
    }
    return NamedSource(known, as: alias)
  }
}
