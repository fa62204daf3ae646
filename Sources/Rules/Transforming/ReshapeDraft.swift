import Changes
import Mapping
import SQLiteKit

/// Builds the ``ReshapePlan`` by which a rule changes a table.
struct ReshapeDraft {
  let rule: TableRule
  let source: TableSchema
  let target: Engine
  private(set) var schema: TableSchema
  private(set) var outputs: [ReshapePlan.Output] = []
  private(set) var filter: Expression?
  private(set) var computed: [Expression] = []
  private(set) var inputs: [Int] = []
  private(set) var calculator: Calculator?
  private(set) var notices: [String] = []
  private var treatment = TableTreatment()

  init(_ rule: TableRule, _ source: TableSchema, _ target: Engine) {
    (self.rule, self.source, self.target) = (rule, source, target)
    schema = source
  }

  private var isHistory: Bool { rule.mode == .history }

  mutating func make() throws {
    Self.rename(&schema, by: rule, target)
    schema.columns = []
    schema.flags = source.flags.intersection([.wholeRow, .nullableKey, .withoutRowid, .partitioned])
    (schema.foreignKeys, schema.objects) = ([], [])
    try makeColumns()
    try makeFilter()
    try makeRemoval()
    if isHistory { makeHistory() } else { try makeKey() }
    makeUniques()
    makeOriginal()
    schema.createText = schema.ownText(typesOf: source)
    schema.treatment = treatment
    try compile()
  }

  // MARK: The name

  static func rename(_ schema: inout TableSchema, by rule: TableRule, _ target: Engine) {
    if let to = rule.to, !rule.isPattern {
      (schema.namespace, schema.name) = to.cut(at: ".") ?? ("", to)
      if schema.engine == .postgres, schema.namespace.isEmpty { schema.namespace = "public" }
    } else if let original = schema.original, original.engine != schema.engine, target == original.engine {
      // The table returns to its engine of origin under its original name.
      (schema.namespace, schema.name) = (original.namespace, original.name)
    }
    if schema.engine == .sqlite, target == .sqlite {
      schema.name = NamePolicy.sqliteName(namespace: schema.namespace, name: schema.name)
      schema.namespace = ""
    }
  }

  // MARK: Columns

  private mutating func makeColumns() throws {
    guard let columns = rule.columns else {
      for index in source.columns.indices { add(source.columns[index], .plain(index)) }
      return
    }
    for column in columns {
      if column.name == "*" {
        try addOthers(columns)
      } else {
        try add(column)
      }
    }
    var seen: [NameKey: String] = [:]
    for column in schema.columns where seen.updateValue(column.name, forKey: column.name.sqliteKey) != nil {
      throw refused("gives two columns the name \(column.name)", hint: "give each column of the target its own name")
    }
    guard !schema.columns.isEmpty else {
      throw refused("has no columns", hint: "leave `columns` out to take all columns")
    }
  }

  private mutating func addOthers(_ columns: [TableRule.Column]) throws {
    let named = Set(columns.map { $0.name.sqliteKey })
    let taken = Set(columns.compactMap { column -> Int? in (try? Expression(column.expression, of: source))?.column })
    for index in source.columns.indices
    where !taken.contains(index) && !named.contains(source.columns[index].name.sqliteKey) {
      add(source.columns[index], .plain(index))
    }
  }

  private mutating func add(_ column: TableSchema.Column, _ output: ReshapePlan.Output) {
    var column = column
    column.keyOrdinal = 0
    // Only the source generates values for the column.
    column.identity = .none
    if let text = column.defaultText, text.asciiLowercased.contains("nextval(") { column.defaultText = nil }
    schema.columns.append(column)
    outputs.append(output)
  }

  private mutating func add(_ column: TableRule.Column) throws {
    let expression = try expression(column.expression, "column \(column.name)")
    if let place = expression.column {
      var plain = source.columns[place]
      plain.name = column.name
      if let type = column.type, type.asciiUppercased != plain.declaredType.asciiUppercased {
        throw refused(
          "gives column \(column.name), which takes \(source.columns[place].name) unchanged, the type \(type)",
          hint: "leave the type out, or write an expression such as CAST(\(source.columns[place].name) AS TEXT)")
      }
      return add(plain, .plain(place))
    }
    let type = column.type ?? (source.engine == .sqlite ? expression.type : Self.postgresType(expression.type))
    let made = TableSchema.Column(name: column.name, declaredType: type)
    guard expression.isConstant else {
      add(made, .computed(computed.count))
      computed.append(expression)
      return
    }
    let value = try constant(expression, column.name)
    var image = ByteWriter(capacity: 64)
    image.append(value)
    add(made, .constant(Array(image.bytes)))
    if column.isShare, value != .null, !isHistory { treatment.shares.append(.init(column: column.name, value: value)) }
  }

  private func constant(_ expression: Expression, _ name: String) throws -> Value {
    let calculator = try calculator(columns: [], groups: [[(expression.text, false)]], "column \(name)")
    var value = Value.null
    do {
      try calculator.set([])
      try calculator.values(0) { _, view in value = view.value ?? .null }
    } catch let error as SQLiteError {
      throw refused("computes column \(name) as \(expression.text): \(error.message)", hint: Self.language)
    }
    return value
  }

  /// Returns the PostgreSQL type for the result of an expression that SQLite evaluates.
  static func postgresType(_ type: String) -> String {
    switch type.isEmpty ? "TEXT" : TableSchema.Column(name: "", declaredType: type).affinity {
    case "INTEGER": "bigint"
    case "REAL": "double precision"
    case "NUMERIC": "numeric"
    case "BLOB": "bytea"
    default: "text"
    }
  }

  // MARK: Filter and removal

  private mutating func makeFilter() throws {
    if let text = rule.filter { filter = try expression(text, "where") }
  }

  private mutating func makeRemoval() throws {
    guard !isHistory else {
      guard rule.delete == .apply else {
        throw refused("has both mode = \"history\" and delete", hint: "a history keeps all rows: leave `delete` out")
      }
      (treatment.removal, treatment.isHistory) = (.kept, true)
      return
    }
    if rule.delete == .apply { return }
    guard !source.flags.contains(.wholeRow) else {
      throw refused(
        "keeps rows that are deleted, but table \(source.fullName) has no key that identifies them",
        hint: "give the table a primary key, or leave `delete` out")
    }
    guard case .mark(let name) = rule.delete else { return treatment.removal = .kept }
    guard !schema.columns.contains(where: { $0.name.sqliteKey == name.sqliteKey }) else {
      throw refused(
        "marks deleted rows in column \(name), which the source's table has too",
        hint: "name a column that the source's table does not have")
    }
    let type = HistoryColumn.committedAt.column(of: source.engine).declaredType
    schema.columns.append(.init(name: name, declaredType: type))
    outputs.append(.removed)
    treatment.removal = .marked(column: name)
  }

  // MARK: Keys

  private mutating func makeKey() throws {
    if source.flags.contains(.wholeRow) { return }
    var ordinal = 0
    for share in treatment.shares {
      guard let index = schema.columns.firstIndex(where: { $0.name.hasSameBytes(as: share.column) }) else { continue }
      ordinal += 1
      schema.columns[index].keyOrdinal = ordinal
      schema.columns[index].isNotNull = true
    }
    for column in source.key {
      guard let index = outputs.firstIndex(of: .plain(column)) else {
        let name = source.columns[column].name
        throw refused(
          "leaves out column \(name), which is part of the key of table \(source.fullName)",
          hint: "add it unchanged: \(name) = \"\(name)\"")
      }
      ordinal += 1
      schema.columns[index].keyOrdinal = ordinal
    }
  }

  private mutating func makeHistory() {
    schema.flags = []
    for index in schema.columns.indices {
      schema.columns[index].isNotNull = false
      schema.columns[index].defaultText = nil
    }
    for column in HistoryColumn.allCases {
      schema.columns.append(column.column(of: source.engine))
      outputs.append(.history(column))
    }
  }

  /// Keeps the unique keys whose columns the target has, unless the target also keeps rows that the source has deleted.
  private mutating func makeUniques() {
    schema.uniques = []
    guard !isHistory, treatment.removal == .applied else {
      if !source.uniques.isEmpty {
        notices.append(
          "the unique keys of \(source.fullName) are left out: rows that the source deleted stay at the target")
      }
      return noteObjects()
    }
    let shares = treatment.shares.compactMap { share in
      schema.columns.firstIndex { $0.name.hasSameBytes(as: share.column) }
    }
    for unique in source.uniques {
      let moved = unique.compactMap { column in outputs.firstIndex(of: .plain(column)) }
      guard moved.count == unique.count else { continue }
      if Set(moved + shares) != Set(schema.key) || schema.flags.contains(.wholeRow) {
        schema.uniques.append(shares + moved)
      }
    }
    if rule.columns == nil, rule.to == nil { return schema.objects = source.objects }
    noteObjects()
  }

  private mutating func noteObjects() {
    for object in source.objects {
      notices.append("the index \(object.name) of \(source.fullName) is left out: the rule changes the table")
    }
  }

  /// Keeps the types that copied columns had in the other engine, if Cairn created the source table from a table of
  /// that engine.
  private mutating func makeOriginal() {
    guard var original = source.original else { return }
    let was = original.columns
    original.columns = []
    for (index, output) in outputs.enumerated() {
      guard case .plain(let column) = output,
        var kept = was.first(where: { $0.name.sqliteKey == source.columns[column].name.sqliteKey })
      else { continue }
      kept.name = schema.columns[index].name
      original.columns.append(kept)
    }
    // Only the columns still match the original; the table itself is a different one.
    (original.namespace, original.name) = ("", "")
    schema.original = original
  }

  // MARK: Expressions

  private static let language =
    "expressions are SQLite's, over the columns of the row: no subqueries, aggregates, random() or 'now'"

  private func expression(_ text: String, _ what: String) throws -> Expression {
    do throws(Expression.Fault) { return try Expression(text, of: source) } catch {
      throw refused("has as \(what) text that is not one expression: \(text)", hint: Self.language)
    }
  }

  private mutating func compile() throws {
    let all = computed + (filter.map { [$0] } ?? [])
    guard !all.isEmpty else { return }
    // Check each expression alone, to report the invalid one.
    for (index, output) in outputs.enumerated() {
      guard case .computed(let place) = output else { continue }
      let expression = computed[place]
      _ = try calculator(
        columns: expression.references, groups: [[(expression.text, false)]], "column \(schema.columns[index].name)")
    }
    if let filter { _ = try calculator(columns: filter.references, groups: [[(filter.text, true)]], "where") }
    inputs = Set(all.flatMap(\.references)).sorted()
    calculator = try calculator(
      columns: inputs,
      groups: [filter.map { [($0.text, true)] } ?? [], computed.map { ($0.text, false) }], "expressions")
  }

  private func calculator(columns: [Int], groups: [[(text: String, isCondition: Bool)]], _ what: String) throws
    -> Calculator
  {
    do {
      return try Calculator(
        columns: columns.map { index in
          let column = source.columns[index]
          return source.engine == .sqlite
            ? .init(
              name: column.name, type: column.affinity == "BLOB" ? "" : column.affinity, collation: column.collation)
            : .init(name: column.name, type: column.calculatedAffinity)
        }, groups: groups)
    } catch let error as SQLiteError {
      let texts = groups.joined().map(\.text).joined(separator: ", ")
      var hint = Self.language
      if error.message.hasPrefix("no such column: ") {
        let names = source.columns.map(\.name).joined(separator: ", ")
        hint = "table \(source.fullName) has the columns \(names): correct the rule, and run 'cairn reload'"
      }
      throw refused("has as \(what) an expression that SQLite refuses: \(texts): \(error.message)", hint: hint)
    }
  }

  private func refused(_ why: String, hint: String) -> CairnError {
    CairnError(
      .ruleRefused, "the rule for table \(rule.from) \(why)", hint: hint, remedy: .badInput,
      context: ["table": schema.fullName])
  }

  // MARK: Values that PostgreSQL logs

  /// The reason why the rule needs old values that PostgreSQL may not log; nil if there is none.
  var whyFullIdentity: String? {
    let key = Set(source.key)
    func isLong(_ column: Int) -> Bool { !key.contains(column) && source.columns[column].mayBeLeftOut }
    func names(_ columns: [Int]) -> String { columns.map { source.columns[$0].name }.joined(separator: ", ") }
    if isHistory { return source.columns.count > key.count ? "a history keeps former values of rows" : nil }
    if let filter {
      if rule.delete != .apply {
        return "when the key of a row changes, it must be known whether the filter took its former values"
      }
      if let column = filter.references.first(where: isLong) {
        return "'where' needs \(source.columns[column].name), which the log of an update may lack"
      }
      let copied = outputs.flatMap { output -> [Int] in
        switch output {
        case .plain(let column): [column]
        case .computed(let index): computed[index].references
        default: []
        }
      }.filter(isLong)
      if !copied.isEmpty {
        return "a row that enters the filter needs \(names(copied)), which the log of an update may lack"
      }
    }
    for expression in computed where expression.references.count > 1 && expression.references.contains(where: isLong) {
      return "\(expression.text) needs several columns, and the log of an update may lack some of them"
    }
    return nil
  }
}

extension TableSchema.Column {
  /// The affinity of a PostgreSQL column's values in the expressions of a rule.
  fileprivate var calculatedAffinity: String {
    switch SQLiteValue(from: self).storage {
    case .integer, .boolean: "INTEGER"
    case .real, .single: "REAL"
    case .blob: "BLOB"
    case .text: if case .numeric = PostgresType(self).kind { "NUMERIC" } else { "TEXT" }
    }
  }

  /// Whether PostgreSQL may store the column out of line (TOAST), and not log an unchanged value.
  fileprivate var mayBeLeftOut: Bool {
    switch PostgresType(self).kind {
    case .bool, .int2, .int4, .int8, .oid, .float4, .float8, .date, .time, .timetz, .timestamp, .timestamptz,
      .interval, .uuid, .money, .enumeration:
      false
    // Too short to be stored out of line: a pointer would take more space.
    case .numeric(let digits?) where digits.precision <= 24: false
    case .varchar(let length?) where length <= 5: false
    case .bpchar(let length?) where length <= 5: false
    default: true
    }
  }
}
