import Applying
import Changes
import Mapping
import PostgresKit
import SQLiteKit
import TestServers
import Testing
import Transforming

/// Tables whose rules are other ones than those under which their rows came.
@Suite struct ChangedRuleTests {
  private static let orders = "CREATE TABLE orders(id INTEGER PRIMARY KEY, total INTEGER, note TEXT UNIQUE)"

  private static func rule(_ body: (inout TableRule) -> Void) -> TableRule {
    var rule = TableRule(from: "orders")
    body(&rule)
    return rule
  }

  private static let cents = rule { rule in
    rule.filter = "total > 0"
    rule.columns = [.init("id", "id"), .init("total", "total"), .init("cents", "total * 100")]
  }

  /// Goes on under a rule that came in place of others.
  private static func change(_ options: inout ApplyOptions, to rule: TableRule?, from old: TableRule?...) {
    options.rules = rule.map { [$0] } ?? []
    options.changedRules = [ChangedRule("orders", before: old, isCopied: true)]
  }

  /// Leads from no rule to a filter with other columns, to another table, and back to no rule. Each rule is met by
  /// changes that fit it alone, more than once, before its copy comes.
  private static func follow(
    _ made: Handmade, _ change: (TableRule?, TableRule?) -> Void, _ run: () throws -> ApplyProgress.Snapshot,
    _ rows: (String) throws -> String
  ) throws {
    change(cents, nil)
    try made.transaction {
      try made.update("orders", [2, 0, "b"], [nil, 3, nil])
      try made.update("orders", [1, 5, "a"], [nil, 0, nil])
      try made.insert("orders", [4, 9, "d"])
    }
    for _ in 0..<2 {
      let now = try run()
      #expect(now.awaitsCopies && now.rulesAdopted.isEmpty)
    }
    try made.transaction {
      try made.copy("orders", [[1, 0, "a"], [2, 3, "b"], [4, 9, "d"]], reason: .asked)
      try made.delete("orders", [4, 9, "d"])
    }
    let now = try run()
    #expect(!now.awaitsCopies && now.rulesAdopted == ["orders"] && now.copiesBegun["orders"] != nil)
    #expect(try rows("SELECT id, total, cents FROM orders ORDER BY id") == "2|3|300")

    change(nil, cents)
    try made.transaction { try made.insert("orders", [5, 1, "e"]) }
    #expect(try run().awaitsCopies)
    try made.transaction { try made.copy("orders", [[1, 0, "a"], [2, 3, "b"], [5, 1, "e"]], reason: .asked) }
    #expect(try !run().awaitsCopies)
    #expect(try rows("SELECT * FROM orders ORDER BY id") == "1|0|a\n2|3|b\n5|1|e")

    let sales = rule { $0.to = "sales" }
    change(sales, nil)
    try made.transaction { try made.delete("orders", [5, 1, "e"]) }
    #expect(try run().awaitsCopies)
    try made.transaction {
      try made.copy("orders", [[1, 0, "a"], [2, 3, "b"]], reason: .asked)
      try made.insert("orders", [6, 2, "f"])
    }
    #expect(try !run().awaitsCopies)
    #expect(try rows("SELECT id, total, note FROM sales ORDER BY id") == "1|0|a\n2|3|b\n6|2|f")
    #expect(try rows("SELECT * FROM orders ORDER BY id") == "1|0|a\n2|3|b\n5|1|e")
  }

  @Test func `tables of SQLite come under them with a copy, whatever ends it in between`() throws {
    let made = try Handmade(TempFolder())
    try made.begin(Self.orders, "orders", [[1, 5, "a"], [2, 0, "b"]])
    let rows = { (sql: String) in
      try made.rows(sql).map { $0.map(\.shownPlain).joined(separator: "|") }.joined(separator: "\n")
    }
    try Self.follow(
      made, { Self.change(&made.options, to: $0, from: $1) },
      {
        let progress = ApplyProgress()
        try made.open(progress).drain()
        return progress.snapshot
      }, rows)
    made.options.changedRules = []
    try made.transaction { try made.delete("orders", [9, 9, "x"]) }
    #expect(failure { try made.replay() }?.code == .rowMissing)
  }

  @Test(.enabled(if: PostgresServer.isAvailable, "needs a PostgreSQL server"))
  func `tables of PostgreSQL come under them with a copy, whatever ends it in between`() throws {
    let target = try PostgresTarget()
    try target.begin(Self.orders, "orders", [[1, 5, "a"], [2, 0, "b"]])
    try Self.follow(
      target.trail, { Self.change(&target.options, to: $0, from: $1) },
      {
        let progress = ApplyProgress()
        try PostgresApply(
          uri: target.url, trail: target.trail.trail, name: target.trail.name, options: target.options,
          progress: progress
        ).drain()
        return progress.snapshot
      }, { try target.psql($0) })
    target.options.changedRules = []
    try target.trail.transaction { try target.trail.delete("orders", [9, 9, "x"]) }
    #expect(failure { try target.replay() }?.code == .rowMissing)
  }

  @Test func `rows that are kept from now on need no copy, nor do histories`() throws {
    let made = try Handmade(TempFolder())
    try made.begin(Self.orders, "orders", [[1, 5, "a"], [2, 0, "b"]])
    made.options.rules = [Self.rule { $0.delete = .keep }]
    made.options.changedRules = [ChangedRule("orders", before: [nil], isCopied: false)]
    // A name that a kept row has is free at the source.
    try made.transaction {
      try made.delete("orders", [2, 0, "b"])
      try made.insert("orders", [3, 1, "b"])
    }
    let progress = ApplyProgress()
    try made.open(progress).drain()
    #expect(progress.snapshot.rulesAdopted == ["orders"] && !progress.snapshot.awaitsCopies)
    #expect(try made.rows("SELECT id FROM orders ORDER BY id") == [[1], [2], [3]])

    let log = Self.rule { rule in
      (rule.mode, rule.to, rule.columns) = (.history, "log", [.init("id", "id")])
    }
    made.options.rules = [log]
    made.options.changedRules = [ChangedRule("orders", before: [Self.rule { $0.delete = .keep }], isCopied: true)]
    try made.transaction { try made.insert("orders", [4, 1, "c"]) }
    try made.transaction { try made.copy("orders", [[1, 5, "a"], [3, 1, "b"], [4, 1, "c"]], reason: .asked) }
    try made.replay()
    made.options.rules[0].columns = [.init("id", "id"), .init("total", "total")]
    made.options.changedRules = [ChangedRule("orders", before: [log], isCopied: false)]
    try made.transaction { try made.update("orders", [4, 1, "c"], [nil, 2, nil]) }
    try made.replay()
    #expect(
      try made.rows("SELECT cairn_operation, id, total FROM log ORDER BY cairn_position") == [
        ["insert", 4, .null], ["copy", 1, .null], ["copy", 3, .null], ["copy", 4, .null], ["update", 4, 2],
      ])
  }

  private static func wait(
    _ made: Handmade, _ change: (DDLPolicy?, TableRule?) -> Void, _ run: (ApplyProgress) throws -> Void
  ) throws {
    change(.stop, nil)
    try made.transaction {
      try made.reshape(
        "orders", "CREATE TABLE orders(id INTEGER PRIMARY KEY, total INTEGER, note TEXT UNIQUE, more TEXT)")
      try made.insert("orders", [3, 1, "c", "x"])
    }
    try made.transaction { try made.delete("orders", [1, 5, "a", .null]) }
    #expect(failure { try run(.init()) }?.code == .schemaStopped)
    let rule = rule { $0.filter = "total > 0" }
    change(.stop, rule)
    try made.transaction { try made.update("orders", [2, 0, "b", .null], [nil, 4, nil, nil]) }
    #expect(failure { try run(.init()) }?.code == .schemaStopped)
    change(nil, rule)
    let progress = ApplyProgress()
    try run(progress)
    #expect(progress.snapshot.awaitsCopies && progress.snapshot.rulesAdopted.isEmpty)
    try made.transaction { try made.copy("orders", [[2, 4, "b", .null], [3, 1, "c", "x"]], reason: .asked) }
    try run(progress)
    #expect(!progress.snapshot.awaitsCopies && progress.snapshot.rulesAdopted == ["orders"])
  }

  @Test func `a table that waits misses nothing when its rule changes meanwhile`() throws {
    let made = try Handmade(TempFolder())
    try made.begin(Self.orders, "orders", [[1, 5, "a"], [2, 0, "b"]])
    try Self.wait(made) { ddl, rule in
      made.options.ddl = ddl
      if let rule { Self.change(&made.options, to: rule, from: nil) }
    } _: {
      try made.open($0).drain()
    }
    #expect(try made.rows("SELECT * FROM orders ORDER BY id") == [[2, 4, "b", .null], [3, 1, "c", "x"]])
  }

  @Test(.enabled(if: PostgresServer.isAvailable, "needs a PostgreSQL server"))
  func `a table of PostgreSQL that waits misses nothing when its rule changes meanwhile`() throws {
    let target = try PostgresTarget()
    try target.begin(Self.orders, "orders", [[1, 5, "a"], [2, 0, "b"]])
    try Self.wait(target.trail) { ddl, rule in
      target.options.ddl = ddl
      if let rule { Self.change(&target.options, to: rule, from: nil) }
    } _: { progress in
      try PostgresApply(
        uri: target.url, trail: target.trail.trail, name: target.trail.name, options: target.options, progress: progress
      ).drain()
    }
    #expect(try target.psql("SELECT * FROM orders ORDER BY id") == "2|4|b|\n3|1|c|x")
  }

  /// A ruled table gets a name that no rule has, and waits; then one has it, and leads to the table that is there.
  private static func rename(
    _ made: Handmade, _ change: ([TableRule], [ChangedRule]) -> Void, held: () throws -> [HeldTable],
    replace: () throws -> Void, _ run: (ApplyProgress) throws -> Void
  ) throws {
    change([rule { $0.filter = "total > 0" }], [])
    try made.transaction { try made.copy("orders", [[1, 5, "a"], [2, 0, "b"]], reason: .asked) }
    try run(.init())
    try made.transaction {
      try made.reshape(
        "orders", "CREATE TABLE sales(id INTEGER PRIMARY KEY, total INTEGER, note TEXT UNIQUE)", as: .rename,
        to: "sales")
      try made.insert("sales", [3, 1, "c"])
    }
    #expect(failure { try run(.init()) }?.message.contains("no rule names") == true)
    #expect(try held() == [HeldTable(name: "sales", place: "orders", isReplaceable: true, isRenamed: true)])
    var rule = TableRule(from: "sales")
    (rule.to, rule.filter) = ("orders", "total > 0")
    change([rule], [ChangedRule("sales", before: [nil], isCopied: true)])
    try replace()
    #expect(try held().isEmpty)
    try made.transaction { try made.delete("sales", [1, 5, "a"]) }
    let progress = ApplyProgress()
    try run(progress)
    #expect(progress.snapshot.awaitsCopies)
    try made.transaction {
      try made.copy("sales", [[2, 0, "b"], [3, 1, "c"]], reason: .asked)
      try made.update("sales", [2, 0, "b"], [nil, 2, nil])
    }
    try run(progress)
    #expect(!progress.snapshot.awaitsCopies && progress.snapshot.rulesAdopted == ["sales"])
  }

  @Test func `a ruled table of SQLite with another name goes on under a rule that has it`() throws {
    let made = try Handmade(TempFolder())
    try made.begin(Self.orders, "orders", [[1, 5, "a"], [2, 0, "b"]])
    let state = SQLiteApplyState(try Database(path: made.target, mode: .readWrite), of: made.name)
    try Self.rename(
      made, { (made.options.rules, made.options.changedRules) = ($0, $1) }, held: state.heldTables,
      replace: { try state.replace(state.heldTables()) }
    ) { try made.open($0).drain() }
    #expect(try made.rows("SELECT * FROM orders ORDER BY id") == [[2, 2, "b"], [3, 1, "c"]])
  }

  @Test(.enabled(if: PostgresServer.isAvailable, "needs a PostgreSQL server"))
  func `a ruled table of PostgreSQL with another name goes on under a rule that has it`() throws {
    let target = try PostgresTarget()
    try target.begin(Self.orders, "orders", [[1, 5, "a"], [2, 0, "b"]])
    let state = PostgresApplyState(try PostgresConnection(target.url), of: target.trail.name)
    try Self.rename(
      target.trail, { (target.options.rules, target.options.changedRules) = ($0, $1) }, held: state.heldTables,
      replace: { try state.replace(state.heldTables()) }
    ) { progress in
      try PostgresApply(
        uri: target.url, trail: target.trail.trail, name: target.trail.name, options: target.options, progress: progress
      ).drain()
    }
    #expect(try target.psql("SELECT * FROM orders ORDER BY id") == "2|2|b\n3|1|c")
  }

  @Test func `others' rows are not overwritten, another constant is refused, and a table that goes needs no copy`()
    throws
  {
    let made = try Handmade(TempFolder())
    try made.begin(Self.orders, "orders", [[1, 5, "a"]])
    try made.run("CREATE TABLE sales(id INTEGER PRIMARY KEY, total INTEGER, note TEXT UNIQUE)")
    try made.run("INSERT INTO sales VALUES (9, 9, 'own')")
    Self.change(&made.options, to: Self.rule { $0.to = "sales" }, from: nil)
    made.options.refusesRowsElsewhere = true
    try made.transaction { try made.copy("orders", [[1, 5, "a"]], reason: .asked) }
    #expect(failure { try made.replay() }?.code == .targetDiffers)
    #expect(try made.rows("SELECT id FROM sales") == [[9]])

    let shared = Self.rule { $0.columns = [.init("store", "'042'"), .init("*", "*")] }
    Self.change(&made.options, to: shared, from: nil)
    #expect(failure { try made.replay() }?.message.contains("changes the constant") == true)
    #expect(try made.rows("SELECT * FROM orders") == [[1, 5, "a"]])

    Self.change(&made.options, to: nil, from: nil, shared)
    try made.transaction { try made.drop("orders") }
    let progress = ApplyProgress()
    try made.open(progress).drain()
    #expect(progress.snapshot.rulesAdopted == ["orders"] && progress.snapshot.waiting.isEmpty)
  }
}

extension Value {
  fileprivate var shownPlain: String {
    switch self {
    case .null: ""
    case .integer(let number): String(number)
    case .real(let number): String(number)
    case .text(let bytes), .exact(let bytes), .blob(let bytes): String(decoding: bytes, as: UTF8.self)
    }
  }
}
