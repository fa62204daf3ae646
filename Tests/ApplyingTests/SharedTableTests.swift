import Changes
import Mapping
import SQLiteKit
import TestServers
import Testing
import Trails
import Transforming

@testable import Applying

/// A target table with rows of two trails, and a unique column that the operator gave it. Its values know no shares.
@Suite struct SharedTableTests {
  private static let sales = "CREATE TABLE sale(id INTEGER PRIMARY KEY, code TEXT)"
  private static let target = "CREATE TABLE sale(store TEXT, id BIGINT, code TEXT UNIQUE, PRIMARY KEY(store, id))"
  private static let rows = "SELECT store, id, code FROM sale ORDER BY store, id"

  /// The records that write a row in the place of what the target has.
  enum Writing: CaseIterable {
    case copied, copiedAlone, tolerated
  }

  private func check(
    _ writing: Writing, _ one: Handmade, _ two: Handmade, _ replay: (Handmade) throws -> Void,
    _ rows: () throws -> [String]
  ) throws {
    for (made, store) in [(one, "'1'"), (two, "'2'")] {
      var rule = TableRule(from: "sale")
      rule.columns = [.init("store", store), .init("*", "*")]
      made.options.rules = [rule]
      try made.shape(Self.sales)
    }
    try one.transaction { try one.copy("sale", [[1, "INV-1"], [2, "INV-2"]]) }
    try replay(one)
    try two.transaction { try two.copy("sale", [[1, "INV-3"], [2, "INV-4"]]) }
    try replay(two)
    // The second trail's own rows may change their values in a copy, chunk by chunk.
    try two.transaction {
      try two.refresh("sale", .start(.lostChanges, .byKey, estimatedRows: 2))
      try two.refresh("sale", .chunk(.keys(after: nil, through: [1, nil])))
      try two.row("sale", [1, "INV-4"])
      try two.refresh("sale", .chunk(.keys(after: [1, nil], through: nil)))
      try two.row("sale", [2, "INV-3"])
      try two.refresh("sale", .end(rows: 2))
    }
    try replay(two)
    let before = ["1|1|INV-1", "1|2|INV-2", "2|1|INV-4", "2|2|INV-3"]
    #expect(try rows() == before)
    // The value belongs to a row of the first trail.
    try two.transaction {
      switch writing {
      case .copied: try two.copy("sale", [[7, "INV-1"]], reason: .lostChanges)
      case .copiedAlone:
        try two.refresh("sale", .start(.lostChanges, .rows, estimatedRows: 1))
        try two.refresh("sale", .chunk(.some))
        try two.row("sale", [7, "INV-1"])
        try two.refresh("sale", .end(rows: 1))
      case .tolerated:
        try two.refresh("sale", .start(.lostChanges, .byKey, estimatedRows: 2))
        try two.update("sale", [1, "INV-4"], [nil, "INV-1"])
      }
    }
    let error = failure { try replay(two) }
    #expect(
      error?.code == .rowExists && error?.hint.contains("one of another trail") == true, "\(String(describing: error))")
    #expect(try rows() == before)
  }

  @Test(arguments: Writing.allCases) func `a copy removes no row of another trail`(writing: Writing) throws {
    let folder = try TempFolder()
    let one = try Handmade(folder, trail: "one", name: TrailName(origin: "far", name: "one"))
    let two = try Handmade(folder, trail: "two", name: TrailName(origin: "far", name: "two"))
    try one.run(Self.target)
    try check(writing, one, two, { try $0.replay() }) {
      try one.rows(Self.rows).map { row in row.map { $0.shown.filter { $0 != "'" } }.joined(separator: "|") }
    }
  }

  @Test(.enabled(if: PostgresServer.isAvailable, "needs a PostgreSQL server"), arguments: Writing.allCases)
  func `a copy removes no row of another trail in PostgreSQL`(writing: Writing) throws {
    let target = try PostgresTarget()
    let two = try Handmade(TempFolder(), trail: "two", name: TrailName(origin: "far", name: "two"))
    _ = try target.psql(Self.target)
    try check(writing, target.trail, two, { try target.replay($0, $0.options) }) {
      try target.psql(Self.rows).split(separator: "\n").map(String.init)
    }
  }
}
