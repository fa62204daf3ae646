import Changes
@testable import Conflicts
import Testing

@Suite struct ConflictResolutionTests {
  private let base = row("tea", 10)

  private func update(_ after: RowVersion.Row) -> RowVersion.Write { .update(before: base, after: after) }

  @Test func `who knew the other version replaces it, whatever the rule`() {
    let first = RowVersion.by("a", at: 9, update(row("tea", 11)))
    let second = RowVersion.by("b", at: 10, knowing: [first], .update(before: row("tea", 11), after: row("tea", 12)))
    for rule in [ConflictRules.Rule.newest, .oldest, .priority(["a"])] {
      #expect([first, second].settled(ConflictRules(rule: rule)) == shown(row("tea", 12)))
    }
    #expect(Conflict.all(of: second, in: RowHistory([first]), ConflictRules(), columnCount: columnCount).isEmpty)
    #expect(Conflict.all(of: first, in: RowHistory([second]), ConflictRules(), columnCount: columnCount).isEmpty)
  }

  @Test(arguments: [
    (ConflictRules.Rule.newest, "b"), (.oldest, "a"), (.priority(["a", "b"]), "a"), (.priority(["c", "b"]), "b"),
    (.priority([]), "b"), (.priority(["a.db"]), "a"),
  ])
  func `the rule takes one of two that knew nothing of each other`(rule: ConflictRules.Rule, winner: String) {
    let a = RowVersion.by("a", at: 5, update(row("a", 1)))
    let b = RowVersion.by("b", at: 6, update(row("b", 2)))
    #expect([a, b].settled(ConflictRules(rule: rule)) == shown(winner == "a" ? row("a", 1) : row("b", 2)))
    let conflicts = Conflict.all(of: b, in: RowHistory([a]), ConflictRules(rule: rule), columnCount: columnCount)
    #expect(
      conflicts == [Conflict(kind: .updateOriginDiffers, incoming: b.stamp, other: a.stamp, columns: [0, 1, 2, 3])])
  }

  @Test(arguments: [(ConflictRules.Rule.newest, UInt64(6)), (.oldest, 4)])
  func `a column that the winner did not have is settled among those who had it`(rule: ConflictRules.Rule, at: UInt64) {
    let a = RowVersion.by("a", at: 5, update(row("tea", 10, "hot")))
    let old: RowVersion.Row = [.integer(1), .text(Array("tea".utf8)), .integer(10), nil]
    let new: RowVersion.Row = [.integer(1), .text(Array("milk".utf8)), .integer(5), nil]
    var b = RowVersion.by("b", at: at, .update(before: old, after: new))
    b.lacks = [3]
    #expect([a, b].settled(ConflictRules(rule: rule)) == shown(row("milk", 5, "hot")))
    // A node that inserts the row again ends what was written to it before.
    let gone = RowVersion.by("b", at: 6, .delete(before: old))
    var again = RowVersion.by("b", 2, at: 7, knowing: [gone], .insert(new))
    again.lacks = [3]
    #expect([a, gone, again].settled(ConflictRules()) == shown(row("milk", 5)))
    // So under a rule of its own.
    var rules = ConflictRules(rule: rule)
    rules.columns[3] = .max
    #expect([a, b].settled(rules) == shown(row("milk", 5, "hot")))
  }

  @Test func `the name of the node orders equal clocks`() {
    let a = RowVersion.by("a", at: 5, update(row("a", 1)))
    let b = RowVersion.by("b", at: 5, update(row("b", 2)))
    #expect([a, b].settled(ConflictRules()) == shown(row("b", 2)))
  }

  @Test func `a version that was replaced does not come back because its replacement loses`() {
    // B is known to C; A is known to no other version and the newest of all.
    let a = RowVersion.by("a", at: 5, update(row("tea", 1)))
    let b = RowVersion.by("b", at: 3, update(row("tea", 1)))
    let c = RowVersion.by("c", at: 4, knowing: [b], .update(before: row("tea", 1), after: row("tea", 2)))
    #expect([a, b, c].settled(ConflictRules()) == shown(row("tea", 1)))
    #expect([a, b, c].settled(ConflictRules(rule: .oldest)) == shown(row("tea", 2)))
    #expect([a, b, c].settled(ConflictRules(columns: [2: .max])) == shown(row("tea", 2)))
    #expect([a, b, c].settled(ConflictRules(columns: [2: .min])) == shown(row("tea", 1)))
  }

  @Test func `columns that only one changed are kept where columns are tracked, and lost where rows are`() {
    let a = RowVersion.by("a", at: 5, update(row("green tea", 10)))
    let b = RowVersion.by("b", at: 6, update(row("tea", 7)))
    #expect([a, b].settled(ConflictRules(tracking: .column)) == shown(row("green tea", 7)))
    #expect([a, b].settled(ConflictRules(tracking: .row)) == shown(row("tea", 7)))
    let history = RowHistory([a])
    #expect(Conflict.all(of: b, in: history, ConflictRules(tracking: .column), columnCount: columnCount).isEmpty)
    #expect(Conflict.all(of: b, in: history, ConflictRules(), columnCount: columnCount).count == 1)
  }

  @Test(arguments: [
    (ConflictRules.Rule.max, Int64(12)), (.min, 7), (.delta, 9), (.newest, 7), (.oldest, 12),
  ])
  func `a column goes by its own rule`(rule: ConflictRules.Rule, stock: Int64) {
    let a = RowVersion.by("a", at: 5, update(row("a", 12)))
    let b = RowVersion.by("b", at: 6, update(row("b", 7)))
    #expect([a, b].settled(ConflictRules(columns: [2: rule])) == shown(row("b", stock)))
  }

  @Test func `differences add up over versions that followed each other and those that did not`() {
    let rules = ConflictRules(columns: [2: .delta])
    let a = RowVersion.by("a", at: 5, update(row("tea", 12)))
    let b = RowVersion.by("b", at: 6, update(row("tea", 7)))
    // C had both: 10 + 2 - 3 = 9, and takes 4.
    let c = RowVersion.by("c", at: 7, knowing: [a, b], .update(before: row("tea", 9), after: row("tea", 5)))
    let d = RowVersion.by("d", at: 4, update(row("tea", 11)))
    #expect([a, b, c, d].settled(rules) == shown(row("tea", 6)))
  }

  @Test func `values are averaged and joined`() {
    let a = RowVersion.by("a", at: 5, update(row("tea", 12, "hot")))
    let b = RowVersion.by("b", at: 6, update(row("tea", 7, "cold")))
    let c = RowVersion.by("c", at: 7, update(row("tea", 8, "hot")))
    #expect([a, b, c].settled(ConflictRules(columns: [2: .average])) == shown(row("tea", 9, "hot")))
    #expect(
      [a, b, c].settled(ConflictRules(columns: [3: .combine(separator: " / ")])) == shown(row("tea", 8, "hot / cold")))
  }

  @Test(arguments: [
    (ConflictRules.DeleteRule.deleteWins, UInt64(4), false), (.deleteWins, 9, false), (.updateWins, 4, true),
    (.updateWins, 9, true), (.newest, 4, true), (.newest, 9, false),
  ])
  func `a delete meets an update`(rule: ConflictRules.DeleteRule, deletedAt: UInt64, isThere: Bool) {
    let updated = RowVersion.by("a", at: 5, update(row("tea", 12)))
    let deleted = RowVersion.by("b", at: deletedAt, .delete(before: base))
    #expect([updated, deleted].settled(ConflictRules(deletes: rule)) == (isThere ? shown(row("tea", 12)) : [["gone"]]))
    func kinds(_ one: RowVersion, _ other: RowVersion) -> [Conflict.Kind] {
      Conflict.all(of: one, in: RowHistory([other]), ConflictRules(), columnCount: columnCount).map(\.kind)
    }
    #expect(kinds(updated, deleted) == [.updateDeleted])
    #expect(kinds(deleted, updated) == [.deleteOriginDiffers])
    #expect(kinds(deleted, RowVersion.by("c", at: 1, .delete(before: base))) == [.deleteMissing])
  }

  @Test func `a row that is inserted again stays, whichever node deletes the old one`() {
    let one = RowVersion.by("a", at: 3, .delete(before: base))
    let anew = RowVersion.by("a", 2, at: 4, .insert(row("coffee", 1)))
    let other = RowVersion.by("b", at: 9, .delete(before: base))
    #expect([one, anew, other].settled(ConflictRules(deletes: .deleteWins)) == shown(row("coffee", 1)))
    let rival = RowVersion.by("c", at: 8, .insert(row("cocoa", 2)))
    #expect([one, anew, rival].settled(ConflictRules()) == shown(row("cocoa", 2)))
    #expect(
      Conflict.all(of: rival, in: RowHistory([one, anew]), ConflictRules(), columnCount: columnCount).map(\.kind)
        == [.insertExists])
  }

  @Test func `a value that a version leaves out is that of the version before it`() {
    var left = row("oolong", 3)
    left[3] = nil
    let first = RowVersion.by("a", at: 1, update(row("tea", 10, "a long text")))
    let second = RowVersion.by(
      "a", 2, at: 2, .update(before: [.integer(1), nil, nil, nil], after: left))
    #expect([first, second].settled(ConflictRules()) == shown(row("oolong", 3, "a long text")))
    #expect([second].settled(ConflictRules()) == [["1", "'oolong'", "3", "?"]])
  }

  /// The merge rules of a published offline-sync study (the server's row was made at 11:21:02 or 11:45:05,
  /// the client's update at 11:30:00).
  @Test(arguments: [
    (UInt64(112_102), ConflictRules.Rule.newest, Int64(1)), (112_102, .priority(["client"]), 1),
    (114_505, .newest, 0), (114_505, .priority(["server"]), 0), (114_505, .priority(["client"]), 1),
  ])
  func `an update made offline meets the server's row`(at: UInt64, rule: ConflictRules.Rule, stock: Int64) {
    let old = RowVersion.by("server", at: 112_102, .insert(row("Växjö-Kalmar", 0)))
    let client = RowVersion.by(
      "client", at: 113_000, knowing: [old], .update(before: row("Växjö-Kalmar", 0), after: row("Växjö-Kalmar", 1)))
    var versions = [old, client]
    if at > 112_102 {
      versions.append(
        RowVersion.by("server", 2, at: at, .update(before: row("Växjö-Kalmar", 0), after: row("Växjö-Kalmar", 0, "!"))))
    }
    #expect(
      versions.settled(ConflictRules(tracking: .row, rule: rule))
        == shown(row("Växjö-Kalmar", stock, at > 112_102 && stock == 0 ? "!" : "")))
  }
}
