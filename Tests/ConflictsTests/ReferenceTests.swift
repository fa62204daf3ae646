import Changes
@testable import Conflicts
import Testing

/// Results that are known from elsewhere.
@Suite struct ReferenceTests {
  // MARK: A published study of synchronising offline clients
  // A row of 11:21:02 at the server; the client's update of one column was made at 11:30:00.

  private static let made = RowVersion.by("server", at: 112_102, .insert(row("Växjö-Kalmar", 0)))
  private static let updated = RowVersion.by(
    "client", at: 113_000, knowing: [made], .update(before: row("Växjö-Kalmar", 0), after: row("Växjö-Kalmar", 1)))
  private static let later = RowVersion.by(
    "server", 2, at: 114_505, knowing: [],
    .update(before: row("Växjö-Kalmar", 0), after: row("Växjö-Kalmar", 0, "later")))

  /// As the server's apply of the client's trail has it.
  private static func rules(_ rule: ConflictRules.Rule) -> ConflictRules {
    ConflictRules(rule: rule).between(source: "client", target: "server")
  }

  @Test(arguments: [
    (ConflictRules.Rule.newest, Int64(1), Int64(0)), (.insertOnly, 0, 0), (.source, 1, 1),
  ])
  func `an update made offline, where the server's row is older, and where it is newer`(
    rule: ConflictRules.Rule, older: Int64, newer: Int64
  ) {
    let rules = Self.rules(rule)
    #expect([Self.made, Self.updated].settled(rules) == shown(row("Växjö-Kalmar", older)))
    #expect(
      [Self.made, Self.updated, Self.later].settled(rules)
        == shown(row("Växjö-Kalmar", newer, newer == 0 ? "later" : "")))
    // Whether the row as it was made is still known makes no difference.
    #expect([Self.updated].settled(rules) == shown(row("Växjö-Kalmar", older)))
    #expect([Self.updated, Self.later].settled(rules) == [Self.made, Self.updated, Self.later].settled(rules))
  }

  @Test(arguments: [
    (ConflictRules.Rule.newest, true), (.target, true), (.insertOnly, true), (.source, false),
  ])
  func `a row that the client deletes and the server updated later`(rule: ConflictRules.Rule, comesBack: Bool) {
    let deleted = RowVersion.by("client", at: 113_000, knowing: [Self.made], .delete(before: row("Växjö-Kalmar", 0)))
    var rules = Self.rules(rule)
    if rule == .source { rules.deletes = .deleteWins }
    #expect(
      [Self.made, deleted, Self.later].settled(rules)
        == (comesBack ? shown(row("Växjö-Kalmar", 0, "later")) : [["gone"]]))
  }

  @Test(arguments: [ConflictRules.Rule.newest, .target, .source, .insertOnly])
  func `a row that the server has deleted stays deleted, and the client learns it`(rule: ConflictRules.Rule) {
    let deleted = RowVersion.by("server", 2, at: 112_500, knowing: [Self.made], .delete(before: row("Växjö-Kalmar", 0)))
    var rules = Self.rules(rule)
    rules.deletes = .deleteWins
    #expect([Self.made, deleted, Self.updated].settled(rules) == [["gone"]])
    let met = Conflict.all(
      of: Self.updated, in: RowHistory([Self.made, deleted]), rules, columnCount: columnCount)
    #expect(met.map(\.kind) == [.updateDeleted])
  }

  @Test func `under insert-only rows come in, and nothing that is there is changed`() throws {
    let rules = Self.rules(.insertOnly)
    let new = RowVersion.by("client", at: 5, .insert(row("new", 1)))
    let changed = RowVersion.by("client", 2, at: 6, .update(before: row("new", 1), after: row("new", 2)))
    let gone = RowVersion.by("client", 3, at: 7, .delete(before: row("new", 2)))
    #expect([new].settled(rules) == shown(row("new", 1)))
    #expect([new, changed].settled(rules) == shown(row("new", 1)))
    #expect([new, changed, gone].settled(rules) == shown(row("new", 1)))
    let own = RowVersion.by("server", at: 8, knowing: [new], .update(before: row("new", 1), after: row("new", 9)))
    #expect([new, changed, own].settled(rules) == shown(row("new", 9)))
    func leftOut(_ versions: [RowVersion]) throws -> Set<VersionStamp> {
      try ConflictResolution(RowHistory(versions), rules, columnCount: columnCount).leftOut
    }
    #expect(try leftOut([new]).isEmpty)
    #expect(try leftOut([new, changed, gone]) == [changed.stamp, gone.stamp])
    #expect(try leftOut([new, changed, own]) == [new.stamp, changed.stamp])
    #expect(try leftOut([changed]) == [changed.stamp])
    #expect([new, own, RowVersion.by("server", 2, at: 9, .delete(before: row("new", 9)))].settled(rules) == [["gone"]])
  }

  // MARK: Merge replication as SQL Server has it
  // Two subscribers change one row: columns C1 and C2 (stock and note), or both C1.

  private static let base = row("part", 100, "one\ntwo\nthree")
  private static let first = RowVersion.by(
    "alpha", at: 10, .update(before: base, after: row("part", 110, "one\ntwo\nthree")))
  private static let second = RowVersion.by(
    "delta", at: 18, .update(before: base, after: row("part", 100, "one\nzwei\nthree")))
  private static let rival = RowVersion.by(
    "beta", at: 20, .update(before: base, after: row("part", 130, "one\ntwo\nthree\nfour")))

  private func conflicts(_ one: RowVersion, _ other: RowVersion, _ rules: ConflictRules) -> [[Int]] {
    Conflict.all(of: one, in: RowHistory([other]), rules, columnCount: columnCount).map(\.columns)
  }

  @Test func `row tracking flags different columns of one row, column tracking does not`() {
    #expect(conflicts(Self.first, Self.second, ConflictRules()) == [[0, 1, 2, 3]])
    #expect([Self.first, Self.second].settled(ConflictRules()) == shown(row("part", 100, "one\nzwei\nthree")))
    let byColumn = ConflictRules(tracking: .column)
    #expect(conflicts(Self.first, Self.second, byColumn) == [])
    #expect([Self.first, Self.second].settled(byColumn) == shown(row("part", 110, "one\nzwei\nthree")))
    #expect(conflicts(Self.first, Self.rival, byColumn) == [[2]])
  }

  @Test(arguments: [
    (ConflictRules.Rule.priority(["alpha", "beta"]), Int64(110)), (.priority(["beta", "alpha"]), 130), (.min, 110),
    (.max, 130), (.delta, 140), (.average, 120), (.newest, 130), (.oldest, 110), (.sql("half"), 65),
  ])
  func `its resolvers: priority, minimum, maximum, additive, averaging, later and earlier, a procedure`(
    rule: ConflictRules.Rule, stock: Int64
  ) throws {
    let rules = ConflictRules(tracking: .column, columns: [2: rule])
    let half = RuleCode(
      expression: { expression, rows in
        guard expression == "half", case .integer(let now) = rows.incoming[2], rows.before?[2] == .integer(100) else {
          return nil
        }
        return .integer(now / 2)
      }, function: { _, _ in nil })
    let rows = try [[Self.first, Self.rival], [Self.rival, Self.first]].map { versions in
      try ConflictResolution(RowHistory(versions), rules, columnCount: columnCount, code: half).row?[2]
    }
    #expect(rows == [.integer(stock), .integer(stock)])
  }

  @Test(arguments: [false, true])
  func `its resolvers that see whole rows: a condition, and a procedure`(byColumn: Bool) throws {
    let code = RuleCode(
      expression: { _, rows in
        .integer(rows.column == nil && ColumnVersions.isLess(rows.local[2]!, rows.incoming[2]!) ? 1 : 0)
      },
      function: { _, rows in
        var row = rows.local
        row[2] = .integer(1)
        row[3] = rows.incoming[3]
        return row
      })
    func settled(_ rule: ConflictRules.Rule, _ versions: RowVersion...) throws -> RowVersion.Row? {
      let rules = ConflictRules(tracking: byColumn ? .column : .row, rule: rule)
      return try ConflictResolution(RowHistory(versions), rules, columnCount: columnCount, code: code).row
    }
    // Who has more stock, in whatever order they come; of columns each its own.
    let (more, less) = (Self.rival.after, byColumn ? Self.rival.after : Self.first.after)
    #expect(try settled(.sql("more"), Self.first, Self.rival) == more)
    #expect(try settled(.sql("more"), Self.rival, Self.first) == more)
    #expect(less != nil)
    let made = try #require(try settled(.function("public.f"), Self.rival, Self.first))
    #expect(made[2] == .integer(1) && made[3] == Self.rival.after?[3])
  }

  @Test func `its resolver of texts`() {
    let rules = ConflictRules(tracking: .column, columns: [3: .mergeText])
    let third = RowVersion.by(
      "gamma", at: 15, .update(before: Self.base, after: row("part", 100, "zero\none\ntwo\nthree")))
    #expect(
      [Self.second, third, Self.rival].settled(rules) == shown(row("part", 130, "zero\none\nzwei\nthree\nfour")))
  }
}
