import Changes
import SQLiteKit
import SystemKit
import Testing

@testable import Capturing

@Suite struct LayoutHistoryTests {
  private func layout(
    _ id: Int64, _ name: String, columns: [String] = ["id", "v"], uniques: [[Int]] = [], after previous: Int64? = nil,
    since: Int64, ended: Int64? = nil, _ action: DDL.Action? = .create, refresh: Refresh.Reason? = nil,
    firstNew: Int? = nil, isExact: Bool = false, objects: [String] = []
  ) throws -> CaptureInstance {
    var schema = TableSchema(
      epoch: 0, engine: .sqlite, name: name,
      columns: columns.enumerated().map { index, column in
        .init(
          name: column, declaredType: "INTEGER", isNotNull: index == 0, keyOrdinal: index == 0 ? 1 : 0)
      })
    schema.uniques = uniques
    schema.objects = uniques.map { .init(name: "u\($0)", text: "CREATE UNIQUE INDEX") }
    schema.objects += objects.map { .init(name: $0, text: "") }
    var writer = ByteWriter()
    writer.append(schema)
    func value(_ number: Int64?) -> Value { number.map { .integer($0) } ?? .null }
    return try CaptureInstance(row: [
      .integer(id), value(previous), .integer(since), value(ended),
      CaptureInstance.code(action, isSame: previous != nil, isExact: isExact),
      CaptureInstance.code(refresh, firstNew: firstNew),
      .blob(Array(writer.bytes)),
    ])
  }

  private func history(_ layouts: [CaptureInstance]) -> LayoutHistory {
    var history = LayoutHistory()
    history.set(Dictionary(uniqueKeysWithValues: layouts.map { ($0.id, $0) }))
    return history
  }

  private func words(_ changes: [ShapeChange]) -> [String] {
    changes.map { "\($0.action) \($0.before?.schema.name ?? "-") \($0.after?.schema.name ?? "-")" }
  }

  private func words(_ steps: [LayoutHistory.Step]) -> [String] {
    steps.flatMap { step in
      switch step {
      case .change(let change): words([change])
      case .beginRows(let layout): ["rows \(layout.schema.name)"]
      }
    }
  }

  @Test func `tables come, change and go at their markers`() throws {
    var history = history([
      try layout(1, "a", since: 5, ended: 9),
      try layout(2, "a", columns: ["id", "v", "w"], after: 1, since: 9, .reshape),
      try layout(3, "b", since: 5, ended: 9),
    ])
    #expect(try words(history.changes(at: 5)) == ["create - a", "create - b"])
    #expect(try words(history.changes(at: 7)).isEmpty)
    #expect(try words(history.changes(at: 9)) == ["drop b -", "reshape a a"])
  }

  @Test func `tables that swap their names step aside first`() throws {
    var history = history([
      try layout(1, "a", since: 5, ended: 9), try layout(2, "b", since: 5, ended: 9),
      try layout(3, "b", after: 1, since: 9, .rename), try layout(4, "a", after: 2, since: 9, .rename),
    ])
    let steps = try words(history.changes(at: 9))
    #expect(
      steps == [
        "rename a cairn_moving_3", "rename b cairn_moving_4", "rename cairn_moving_3 b", "rename cairn_moving_4 a",
      ])
  }

  @Test func `rows of new columns begin after the shape`() throws {
    var history = history([
      try layout(1, "a", since: 5, ended: 9),
      try layout(
        2, "a", columns: ["id", "v", "w"], after: 1, since: 9, .reshape, refresh: .schemaChange, firstNew: 2),
    ])
    let steps = try history.changes(at: 9)
    #expect(words(steps) == ["reshape a a", "rows a"])
    guard case .change(let change)? = steps.first else {
      Issue.record("no change")
      return
    }
    #expect(!change.isRefreshed && change.origins == [0, 1, nil])
  }

  @Test func `a dropped index goes before the rows that it no longer held for`() throws {
    let layouts = [
      try layout(1, "a", uniques: [[1]], since: 5, ended: 9), try layout(2, "a", after: 1, since: 9, .reshape),
    ]
    var history = history(layouts)
    let dropped = try history.dropIndexes(behind: 6, told: nil)
    #expect(words(dropped) == ["reshape a a"] && history.hasDroppedIndexes)
    let drop = try #require(dropped.first)
    #expect(drop.before?.schema.uniques == [[1]] && drop.after?.schema.uniques == [])
    guard case .change(let change)? = try history.changes(at: 9).first else {
      Issue.record("no change")
      return
    }
    #expect(change.before == drop.after, "the change begins with the shape without the index")
    history.forgetDroppedIndexes()
    #expect(!history.hasDroppedIndexes)
    #expect(
      try history.dropIndexes(behind: 6, told: 9).isEmpty && history.hasDroppedIndexes, "the trail has it already")
    #expect(try history.dropIndexes(behind: 2, told: nil).isEmpty, "the shape before is to come itself")
    #expect(try words(history.changes(at: 5)) == ["create - a", "reshape a a"])
  }

  @Test func `an index that was dropped at the very marker is not dropped before`() throws {
    var history = history([
      try layout(1, "a", uniques: [[1]], since: 5, ended: 9),
      try layout(2, "a", after: 1, since: 9, .reshape, isExact: true),
    ])
    #expect(try history.dropIndexes(behind: 6, told: nil).isEmpty && !history.hasDroppedIndexes)
  }

  /// In pairs, these would be a hundred million comparisons for each schema change.
  @Test func `the indexes and columns of a schema change are not compared in pairs`() throws {
    let names = (0..<10_000).map { String($0) }
    let (before, after) = (names.map { "a\($0)" }, names.map { "b\($0)" })
    var history = history([
      try layout(1, "a", columns: before, since: 5, ended: 9, objects: before),
      try layout(2, "a", columns: after, after: 1, since: 9, .reshape, refresh: .schemaChange, objects: after),
    ])
    let begun = ContinuousClock.now
    let dropped = try history.dropIndexes(behind: 6, told: nil)
    let steps = try words(history.changes(at: 9))
    #expect(ContinuousClock.now - begun < .seconds(10))
    #expect(dropped.first?.after?.schema.objects == [] && steps == ["reshape a a"])
  }

  @Test func `the indexes of two shapes are not compared in pairs`() throws {
    let old = TableSchema(
      epoch: 0, engine: .sqlite, name: "t", columns: [],
      objects: (0..<20_000).map { .init(name: "i\($0)", text: "CREATE INDEX i\($0) ON t(x)") })
    var new = old
    #expect(!TriggerSync.hasNewUniqueIndex(old, new))
    new.objects.append(.init(name: "u", text: "CREATE UNIQUE INDEX u ON t(x)"))
    #expect(TriggerSync.hasNewUniqueIndex(old, new))
  }

  @Test func `each layout is a sign of life, and a place to stop`() throws {
    let stop = StopSignal()
    let pulse = Pulse(stop: stop)
    var history = history([
      try layout(1, "a", since: 5, ended: 9), try layout(2, "a", after: 1, since: 9, .reshape),
      try layout(3, "b", since: 5),
    ])
    try pulse.attached {
      _ = try history.changes(at: 9)
      let value = pulse.value
      #expect(value >= 3)
      _ = try history.dropIndexes(behind: 6, told: nil)
      #expect(pulse.value >= value + 3)
      stop.set()
      #expect(throws: CaptureStopped.self) { try history.changes(at: 9) }
      #expect(throws: CaptureStopped.self) { try history.dropIndexes(behind: 6, told: nil) }
    }
  }

  @Test func `a change is left out if a later chunk shows it`() throws {
    let copied = try layout(1, "a", since: 5, refresh: .firstCopy)
    let whole = SourcePosition.RefreshState(layout: 1, rows: 0, cursor: [.integer(5)], isDone: false)
    #expect(!copied.wantsChange(of: 3, during: nil) && copied.wantsChange(of: 3, during: whole))
    #expect(try layout(1, "a", since: 5).wantsChange(of: 3, during: nil))
    #expect(try layout(1, "a", since: 5, refresh: .asked).wantsChange(of: 3, during: nil), "the reader has the rows")
    var other = whole
    other.layout = 2
    #expect(!copied.wantsChange(of: 3, during: other))
  }
}
