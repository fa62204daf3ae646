import Applying
import Changes
import Foundation
import Mapping
import SQLiteKit
import TestServers
import Testing
import Transforming

/// Every case of filter and mapping under random changes, from both engines to both, against rows computed in Swift.
///
/// Invariants 4 and 6: nothing is lost, doubled, altered or left over under a rule.
@Suite struct ReshapeTests {
  /// The form in which the source records its changes.
  enum Telling: CaseIterable {
    case sqlite
    /// PostgreSQL with whole rows.
    case full
    /// PostgreSQL with keys alone.
    case keys
  }

  private static let seeds = Seeds.range(reduced: 2)

  @Test(arguments: Telling.allCases, seeds)
  func `rows under every rule are those that the rule means, in SQLite`(_ telling: Telling, seed: UInt64) throws {
    let made = try Handmade(TempFolder())
    let run = try ReshapeRun(made, telling, seed)
    made.options.rules = run.rules
    for step in 0..<ReshapeRun.stepCount {
      try run.write(step)
      try made.replay()
      try run.check { table, order, columns in
        try made.rows("SELECT \(columns) FROM \(table) ORDER BY \(order)").map { row in row.map(Self.shown) }
      }
    }
  }

  @Test(
    .enabled(if: PostgresServer.isAvailable, "needs a PostgreSQL server"), arguments: Telling.allCases,
    Seeds.range(from: 3, reduced: 1))
  func `rows under every rule are those that the rule means, in PostgreSQL`(_ telling: Telling, seed: UInt64) throws {
    let target = try PostgresTarget()
    let run = try ReshapeRun(target.trail, telling, seed)
    target.options.rules = run.rules
    for step in 0..<ReshapeRun.stepCount {
      try run.write(step)
      try target.replay()
      try run.check(inPostgres: true) { table, order, columns in
        let texts = columns.split(separator: ", ").map { "coalesce(\($0)::text, '~')" }.joined(separator: ", ")
        let text = try target.psql("SELECT \(texts) FROM \(table) ORDER BY \(order)")
        return text.split(separator: "\n").map { line in
          line.split(separator: "|", omittingEmptySubsequences: false).map { $0 == "~" ? nil : String($0) }
        }
      }
    }
  }

  private static func shown(_ value: Value) -> String? {
    switch value {
    case .null: nil
    case .integer(let number): String(number)
    case .real(let number): String(number)
    case .text(let bytes), .exact(let bytes), .blob(let bytes): String(decoding: bytes, as: UTF8.self)
    }
  }
}

/// One trail with a table for each case, and what their targets are to hold.
final class ReshapeRun {
  static let stepCount = 4
  private let trail: Handmade
  private let telling: ReshapeTests.Telling
  private var models: [ReshapeModel]
  private var random: Seeded
  var rules: [TableRule] { models.map(\.rule.rule) }

  init(_ trail: Handmade, _ telling: ReshapeTests.Telling, _ seed: UInt64) throws {
    (self.trail, self.telling) = (trail, telling)
    random = Seeded(seed)
    models = ReshapeCase.cases.enumerated().map { index, rule in
      var rule = rule
      rule.rule.from = "src\(index)"
      rule.rule.to = index % 5 == 0 ? "sales.dst\(index)" : "dst\(index)"
      return ReshapeModel(rule)
    }
    // Keys alone do not say whether a row that was kept is the one whose key changes.
    if telling == .keys { models.removeAll { $0.rule.rule.filter != nil && $0.rule.rule.delete != .apply } }
    for model in models {
      let name = model.rule.rule.from
      if telling == .sqlite {
        try trail.shape(
          "CREATE TABLE \(name)(id INTEGER PRIMARY KEY, grp INTEGER, total DECIMAL(10,2), note TEXT, flag BOOLEAN)")
      } else {
        let columns = [
          ("id", "bigint"), ("grp", "integer"), ("total", "numeric(10,2)"), ("note", "text"), ("flag", "boolean"),
        ]
        trail.shape(
          TableSchema(
            epoch: 1, engine: .postgres, namespace: "public", name: name,
            columns: columns.map {
              .init(name: $0.0, declaredType: $0.1, isNotNull: $0.0 == "id", keyOrdinal: $0.0 == "id" ? 1 : 0)
            }))
      }
    }
  }

  // MARK: The trail

  func write(_ step: Int) throws {
    if step == 0 {
      try trail.transaction {
        for index in models.indices {
          try trail.create(models[index].rule.rule.from)
          let items = (1...8).map { item($0) }
          models[index].copy(items)
          try copy(models[index], reason: .firstCopy)
        }
      }
    } else if step == 2 {
      // Changes were lost: the source is another, and is copied.
      try trail.transaction {
        for index in models.indices {
          let items = (1...12).filter { _ in below(3) > 0 }.map { item($0) }
          models[index].copy(items)
          try copy(models[index], reason: .lostChanges)
        }
      }
    }
    for _ in 0..<6 {
      try trail.transaction {
        for index in models.indices { for _ in 0..<3 { try change(index) } }
      }
    }
    if step == 1 {
      try trail.transaction {
        for index in models.indices where index % 3 == 0 {
          models[index].truncate()
          try trail.truncate(models[index].rule.rule.from)
          try change(index)
        }
      }
    }
  }

  private func copy(_ model: ReshapeModel, reason: Refresh.Reason) throws {
    let table = model.rule.rule.from
    let items = model.source.values.sorted { $0.id < $1.id }
    try trail.refresh(table, .start(reason, .byKey, estimatedRows: UInt64(items.count)))
    func bound(_ id: Int) -> [Value?] { [image(SourceItem(id: id, flag: true))[0], nil, nil, nil, nil] }
    for (after, through) in [(nil, 4), (4, 9), (9, nil)] as [(Int?, Int?)] {
      try trail.refresh(table, .chunk(.keys(after: after.map(bound), through: through.map(bound))))
      for item in items where item.id > after ?? 0 && item.id <= through ?? .max { try trail.row(table, image(item)) }
    }
    try trail.refresh(table, .end(rows: UInt64(items.count)))
  }

  private func change(_ index: Int) throws {
    let table = models[index].rule.rule.from
    let items = models[index].source.values.sorted { $0.id < $1.id }
    let free = (1...14).filter { models[index].source[$0] == nil }
    let kind = below(10)
    if items.isEmpty || (kind < 3 && !free.isEmpty) {
      let item = item(free[below(free.count)])
      models[index].insert(item)
      return try trail.insert(table, image(item))
    }
    let old = items[below(items.count)]
    if kind < 5 {
      models[index].delete(old)
      let before = image(old) as [Value?]
      return try trail.delete(table, telling == .keys ? [before[0], nil, nil, nil, nil] : before)
    }
    var new = item(old.id)
    // Some updates change little.
    if below(2) == 0 { (new.grp, new.total) = (old.grp, old.total) }
    if below(2) == 0 { (new.note, new.flag) = (old.note, old.flag) }
    if kind == 9, !free.isEmpty { new.id = free[below(free.count)] }
    models[index].update(old, new)
    var after = image(new) as [Value?]
    let before = image(old) as [Value?]
    switch telling {
    case .sqlite:
      for column in after.indices where after[column] == before[column] { after[column] = nil }
      try trail.update(table, before, after)
    case .full:
      if new.note == old.note { after[3] = nil }
      try trail.update(table, before, after)
    case .keys:
      old.id == new.id
        ? try trail.update(table, to: after) : try trail.update(table, [before[0], nil, nil, nil, nil], after)
    }
  }

  private func item(_ id: Int) -> SourceItem {
    let notes = [nil, "abc", "ABC", "a", "xyz", "long note of some length"]
    let totals = [nil, 1230, 0, 5000, 5001, 999_999, 1050]
    return SourceItem(
      id: id, grp: [nil, 0, 1, 2][below(4)], total: totals[below(totals.count)], note: notes[below(notes.count)],
      flag: below(2) == 0)
  }

  private func image(_ item: SourceItem) -> [Value] {
    let total = item.total.map { total -> String in
      let rest = String(total % 100)
      return "\(total / 100).\(rest.count < 2 ? "0" : "")\(rest)"
    }
    if telling == .sqlite {
      let number = total.flatMap(Double.init).map { $0 == $0.rounded() ? Value.integer(Int64($0)) : .real($0) }
      return [
        .integer(Int64(item.id)), item.grp.map { .integer(Int64($0)) } ?? .null, number ?? .null,
        item.note.map { .text($0) } ?? .null, .integer(item.flag ? 1 : 0),
      ]
    }
    return [
      .exact(String(item.id)), item.grp.map { .exact(String($0)) } ?? .null, total.map { .exact($0) } ?? .null,
      item.note.map { .exact($0) } ?? .null, .exact(item.flag ? "t" : "f"),
    ]
  }

  private func below(_ limit: Int) -> Int { Int.random(in: 0..<limit, using: &random) }

  // MARK: The target

  /// `read(table, order, columns)` gives the rows as texts.
  func check(inPostgres isPostgres: Bool = false, _ read: (String, String, String) throws -> [[String?]]) throws {
    for model in models {
      let rule = model.rule.rule
      let to = rule.to ?? ""
      let table = isPostgres || !to.contains(".") ? to : "sales_" + to.dropFirst(6)
      let names = rule.columns?.flatMap { $0.name == "*" ? others(rule) : [$0.name] } ?? Self.names
      let key = rule.columns?.first { $0.expression == "id" }?.name ?? "id"
      let rows = try read(table, key, names.joined(separator: ", "))
      let expected = model.rows
      let isSame =
        rows.count == expected.count
        && zip(rows, expected).allSatisfy { row, cells in
          row.count == cells.count && zip(row, cells).allSatisfy { $1.matches($0) }
        }
      #expect(isSame, "\(model.rule.name) (\(telling)): \(rows), expected \(expected)")
      guard case .mark(let column) = rule.delete else { continue }
      let marks = try read(table, key, column).map { $0[0] != nil }
      #expect(marks == model.marks, "\(model.rule.name) (\(telling)): marks")
    }
  }

  private static let names = ["id", "grp", "total", "note", "flag"]

  private func others(_ rule: TableRule) -> [String] {
    let taken = rule.columns?.map(\.expression) ?? []
    return Self.names.filter { !taken.contains($0) }
  }
}
