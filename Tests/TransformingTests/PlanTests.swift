import Changes
import Mapping
import SQLiteKit
import Testing
import Transforming

/// The table that a rule makes, and what a rule may not say.
@Suite struct PlanTests {
  static let orders =
    "CREATE TABLE orders(id INTEGER PRIMARY KEY, customer_id INTEGER NOT NULL, total DECIMAL(10,2), note TEXT)"

  private func schema(_ sql: String) throws -> TableSchema {
    let database = try Database(path: ":memory:", mode: .create)
    try database.executeScript(sql)
    return try #require(try database.userTables().first).schema
  }

  private func plan(_ rule: TableRule, _ sql: String = orders, to engine: Engine = .sqlite) throws -> ReshapePlan {
    try ReshapePlan(rule, try schema(sql), to: engine)
  }

  @Test func `columns are renamed, chosen and computed, each with a type that suits it`() throws {
    var rule = TableRule(from: "orders")
    rule.to = "sales.orders"
    rule.columns = [
      .init("id", "id"), .init("customer", "customer_id"), .init("amount", "round(total, 2)"),
      .init("label", "'#' || id"), .init("isLarge", "total > 100"), .init("twice", "total * 2"),
      .init("cents", "CAST(total * 100 AS INTEGER)", type: "BIGINT"), .init("any", "coalesce(note, 0)"),
    ]
    let schema = try plan(rule).schema
    #expect(schema.name == "sales_orders")
    #expect(
      schema.createText
        == "CREATE TABLE \"sales_orders\"(\"id\" INTEGER PRIMARY KEY, \"customer\" INTEGER NOT NULL, \"amount\" REAL, \"label\" TEXT, \"isLarge\" INTEGER, \"twice\" NUMERIC, \"cents\" BIGINT, \"any\")"
    )
    let there = try plan(rule, to: .postgres).schema
    #expect(there.fullName == "sales.orders")
  }

  @Test func `a star means the columns that no other entry names`() throws {
    var rule = TableRule(from: "orders")
    rule.columns = [.init("store", "'042'"), .init("customer", "customer_id"), .init("*", "*")]
    let schema = try plan(rule).schema
    #expect(schema.columns.map(\.name) == ["store", "customer", "id", "total", "note"])
    #expect(schema.key.map { schema.columns[$0].name } == ["store", "id"])
    #expect(schema.treatment?.shares == [.init(column: "store", value: .text("042"))])
  }

  @Test(arguments: [("true", 1), ("FALSE", 0), ("(True)", 1), ("NOT false", 1)] as [(String, Int64)])
  func `true and false are constants, also for a table with columns of these names`(_ text: String, _ value: Int64)
    throws
  {
    var rule = TableRule(from: "orders")
    rule.columns = [.init("store", text), .init("*", "*")]
    let schema = try plan(rule, "CREATE TABLE orders(id INTEGER PRIMARY KEY, \"true\" TEXT, \"FALSE\" TEXT)").schema
    #expect(schema.treatment?.shares == [.init(column: "store", value: .integer(value))])
    // A function is no column.
    rule.columns = [.init("store", "upper('x')"), .init("*", "*")]
    let called = try plan(rule, "CREATE TABLE orders(id INTEGER PRIMARY KEY, upper TEXT)").schema
    #expect(called.treatment?.shares == [.init(column: "store", value: .text("X"))])
    // Quoted, it is the column.
    rule.columns = [.init("id", "id"), .init("store", "\"true\"")]
    let named = try plan(rule, "CREATE TABLE orders(id INTEGER PRIMARY KEY, \"true\" TEXT, \"FALSE\" TEXT)").schema
    #expect(named.treatment?.shares ?? [] == [] && named.columns[1].declaredType == "TEXT")
  }

  @Test(arguments: [
    ("'x'", "TEXT"), ("7", "INTEGER"), ("2.5", "REAL"), ("upper(note)", "TEXT"), ("length(note)", "INTEGER"),
    ("(total + 1)", "NUMERIC"), ("total IS NULL", "INTEGER"), ("CAST(total AS TEXT)", "TEXT"),
    ("CASE WHEN id THEN 1 END", ""), ("note COLLATE NOCASE", ""),
  ])
  func `the type of an expression is read from its text`(_ text: String, _ type: String) throws {
    var rule = TableRule(from: "orders")
    rule.columns = [.init("id", "id"), .init("x", text, isShare: false)]
    #expect(try plan(rule).schema.columns[1].declaredType == type)
  }

  @Test func `an expression is judged without its table`() {
    func fault(_ text: String, isColumn: Bool = true) -> String? {
      ExpressionFault.reason(of: text, isColumn: isColumn)
    }
    for text in [
      "round(total * rate, 2) || \"Über Größe\" || [a b] || X01", "at > '2026-01-01' AND note NOT LIKE 'x%' -- late",
      "CASE WHEN id THEN json_extract(doc, '$.a') END", "strftime('%Y', at)", "order", " Group ", "'x'", "rowid + oid",
    ] { #expect(fault(text) == nil, "\(text)") }
    // A name alone is a column; a condition is always evaluated.
    #expect(fault("order", isColumn: false) != nil)
    #expect(fault("datetime('now') > at")?.contains("non-deterministic") == true)
    #expect(fault("v <<") != nil && fault("nosuch(a)") != nil)
  }

  @Test(arguments: [
    ("total > ", "syntax error"), ("nosuch > 1", "no such column: nosuch"), ("rowid = 1", "no such column: rowid"),
    ("id IN (SELECT 1)", "subqueries prohibited"), ("random() > 0", "non-deterministic"),
    ("sum(total) > 1", "misuse of aggregate"), ("total > ?", "prohibited"), ("\"nosuch\" = 1", "no such column"),
    ("total > current_timestamp", "non-deterministic"), ("nosuch(total)", "no such function: nosuch"),
    ("1) , y AS (1", "not one expression"), ("1; DROP TABLE r", "not one expression"),
    ("total > 'x", "not one expression"), ("1 /* ", "not one expression"), ("", "not one expression"),
    ("total, id", "not one expression"),
  ])
  func `a filter that is none is refused with its reason`(_ text: String, _ reason: String) throws {
    // Another table may have such a column.
    let fault = ExpressionFault.reason(of: text, isColumn: false)
    #expect(
      reason.hasPrefix("no such column") ? fault == nil : fault?.contains(reason.replacing("what is", with: "")) == true
    )
    var rule = TableRule(from: "orders")
    rule.filter = text
    let error = #expect(throws: CairnError.self) { try plan(rule) }
    #expect(error?.code == .ruleRefused)
    #expect(error?.message.contains(reason) == true, "\(error?.message ?? "")")
  }

  @Test func `a rule keeps the key, and names each column once`() throws {
    var rule = TableRule(from: "orders")
    rule.columns = [.init("total", "total")]
    #expect(throws: CairnError.self) { try plan(rule) }
    rule.columns = [.init("id", "id"), .init("ID", "total")]
    #expect(throws: CairnError.self) { try plan(rule) }
    rule.columns = nil
    rule.delete = .mark(column: "NOTE")
    #expect(throws: CairnError.self) { try plan(rule) }
    rule.delete = .keep
    #expect(throws: CairnError.self) { try plan(rule, "CREATE TABLE orders(a, b)") }
    rule.mode = .history
    #expect(throws: CairnError.self) { try plan(rule) }
  }

  @Test func `a history has a row of its own for each change`() throws {
    var rule = TableRule(from: "orders")
    rule.mode = .history
    let schema = try plan(rule).schema
    #expect(schema.key.map { schema.columns[$0].name } == ["cairn_position"])
    #expect(schema.columns.suffix(5).map(\.name) == HistoryColumn.allCases.map(\.rawValue))
  }

  @Test func `PostgreSQL must log whole rows where a rule looks at more than it repeats`() throws {
    let schema = TableSchema(
      epoch: 1, engine: .postgres, namespace: "public", name: "t",
      columns: [
        .init(name: "id", declaredType: "bigint", isNotNull: true, keyOrdinal: 1),
        .init(name: "n", declaredType: "integer"), .init(name: "note", declaredType: "text"),
        .init(name: "price", declaredType: "numeric(12,2)"),
      ])
    var rule = TableRule(from: "t")
    rule.filter = "n > 1"
    #expect(try ReshapePlan(rule, schema, to: .postgres).fullIdentity?.contains("note") == true)
    rule.columns = [.init("id", "id"), .init("n", "n")]
    #expect(try ReshapePlan(rule, schema, to: .postgres).fullIdentity == nil)
    rule.filter = "note = 'x'"
    #expect(try ReshapePlan(rule, schema, to: .postgres).fullIdentity?.contains("note") == true)
    rule.filter = "price > 1"
    #expect(try ReshapePlan(rule, schema, to: .postgres).fullIdentity == nil)
    rule.filter = nil
    rule.columns = [.init("id", "id"), .init("upper", "upper(note)")]
    #expect(try ReshapePlan(rule, schema, to: .postgres).fullIdentity == nil)
    rule.columns = [.init("id", "id"), .init("both", "note || n")]
    #expect(try ReshapePlan(rule, schema, to: .postgres).fullIdentity != nil)
  }

  @Test func `a rule is found by name before pattern, and without regard to case`() throws {
    var all = TableRule(from: "*")
    all.filter = "1"
    var one = TableRule(from: "ORDERS")
    one.to = "o"
    let schema = try schema(Self.orders)
    #expect([all, one].rule(for: schema) == one)
    #expect([all].rule(for: schema) == all)
    #expect([TableRule(from: "orders")].rule(for: schema) == nil)
    var other = schema
    (other.engine, other.namespace) = (.postgres, "sales")
    #expect([one].rule(for: other) == nil)
    one.from = "sales.orders"
    #expect([one].rule(for: other) == one)
  }
}
