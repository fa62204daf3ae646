import Applying
import Changes
import Mapping
import TestServers
import Testing
import Transforming

/// Tables that wait for their rule, and go on with a copy that comes after shapes that no rule fits.
@Suite struct ResyncPointTests {
  private static let orders = "CREATE TABLE orders(id INTEGER PRIMARY KEY, total INTEGER, note TEXT UNIQUE)"
  private static let renamed = "CREATE TABLE orders(id INTEGER PRIMARY KEY, cents INTEGER, note TEXT UNIQUE)"

  private static func rule(_ filter: String) -> TableRule {
    var rule = TableRule(from: "orders")
    rule.filter = filter
    return rule
  }

  /// First the rule is mended, then the source takes a change back.
  private static func follow(
    _ made: Handmade, _ change: ([TableRule], [ChangedRule]) -> Void, _ run: (ApplyProgress) throws -> Void
  ) throws {
    let (old, new) = (rule("total > 0"), rule("cents > 0"))
    change([old], [])
    try made.transaction { try made.copy("orders", [[1, 5, "a"], [2, 0, "b"]], reason: .asked) }
    try run(.init())
    try made.transaction {
      try made.insert("orders", [3, 7, "c"])
      try made.reshape("orders", renamed)
      try made.insert("orders", [4, 9, "d"])
    }
    #expect(failure { try run(.init()) }?.message.contains("no such column: total") == true)
    try made.transaction { try made.delete("orders", [3, 7, "c"]) }
    change([new], [ChangedRule("orders", before: [old], isCopied: true)])
    var progress = ApplyProgress()
    #expect(failure { try run(progress) }?.message.contains("no such column: cents") == true)
    #expect(progress.snapshot.rulesAdopted.isEmpty && progress.snapshot.copiesWanted.values.contains("orders"))
    try made.transaction { try made.insert("orders", [5, 0, "e"]) }
    try made.transaction {
      try made.copy("orders", [[1, 5, "a"], [2, 0, "b"], [4, 9, "d"], [5, 0, "e"]], reason: .asked)
      try made.update("orders", [2, 0, "b"], [nil, 2, nil])
    }
    try made.transaction { try made.update("orders", [4, 9, "d"], [nil, 0, nil]) }
    progress = ApplyProgress()
    try run(progress)
    #expect(progress.snapshot.rulesAdopted == ["orders"] && progress.snapshot.copiesBegun["orders"] != nil)
    #expect(!progress.snapshot.awaitsCopies && progress.snapshot.waiting.isEmpty)

    change([new], [])
    try made.transaction { try made.reshape("orders", orders) }
    try made.transaction { try made.insert("orders", [6, 6, "f"]) }
    try made.transaction { try made.reshape("orders", renamed) }
    progress = ApplyProgress()
    #expect(failure { try run(progress) }?.code == .schemaStopped)
    #expect(progress.snapshot.copiesWanted.values.contains("orders"))
    try made.transaction { try made.copy("orders", [[1, 5, "a"], [6, 6, "f"]], reason: .asked) }
    try made.transaction { try made.delete("orders", [1, 5, "a"]) }
    progress = ApplyProgress()
    try run(progress)
    #expect(progress.snapshot.copiesWanted.isEmpty && progress.snapshot.waiting.isEmpty)
  }

  @Test func `tables of SQLite go on with a copy, whatever shapes they had in between`() throws {
    let made = try Handmade(TempFolder())
    try made.begin(Self.orders, "orders", [[1, 5, "a"], [2, 0, "b"]])
    var isSeen = false
    try Self.follow(made, { (made.options.rules, made.options.changedRules) = ($0, $1) }) { progress in
      try made.open(progress).drain()
      guard progress.snapshot.rulesAdopted == ["orders"] else { return }
      isSeen = true
      #expect(try made.rows("SELECT id, cents, note FROM orders ORDER BY id") == [[1, 5, "a"], [2, 2, "b"]])
    }
    #expect(isSeen)
    #expect(try made.rows("SELECT id, cents, note FROM orders") == [[6, 6, "f"]])
  }

  @Test(.enabled(if: PostgresServer.isAvailable, "needs a PostgreSQL server"))
  func `tables of PostgreSQL go on with a copy, whatever shapes they had in between`() throws {
    let target = try PostgresTarget()
    try target.begin(Self.orders, "orders", [[1, 5, "a"], [2, 0, "b"]])
    var isSeen = false
    try Self.follow(target.trail, { (target.options.rules, target.options.changedRules) = ($0, $1) }) { progress in
      try PostgresApply(
        uri: target.url, trail: target.trail.trail, name: target.trail.name, options: target.options, progress: progress
      ).drain()
      guard progress.snapshot.rulesAdopted == ["orders"] else { return }
      isSeen = true
      #expect(try target.psql("SELECT id, cents, note FROM orders ORDER BY id") == "1|5|a\n2|2|b")
    }
    #expect(isSeen)
    #expect(try target.psql("SELECT id, cents, note FROM orders") == "6|6|f")
  }
}
