import Changes
import SQLiteKit
import TestServers
import Testing

@testable import Capturing

@Suite struct ReadLayoutsTests {
  private func row(
    _ id: Int64, _ name: String = "item", columns: Int = 10, since: Int64 = 1, ended: Int64? = nil,
    after previous: Int64? = nil
  ) -> [Value] {
    var writer = ByteWriter()
    writer.append(
      TableSchema(
        epoch: 0, engine: .sqlite, name: name,
        columns: (0..<columns).map { .init(name: "column_\($0)", declaredType: "VARCHAR(100) NOT NULL") },
        createText: String(repeating: "x", count: 40 * columns)))
    let numbers = [id, previous, since, ended, nil, nil].map { $0.map { Value.integer($0) } ?? .null }
    return numbers + [.blob(Array(writer.bytes))]
  }

  private func read(_ rows: [[Value]], room: Int = TableSchema.memoryMax, countMax: Int = 100) throws {
    var layouts = ReadLayouts(room: room, countMax: countMax)
    for row in rows { try layouts.add(row) }
  }

  @Test func `the layouts of a file share one bound of memory and one of number`() throws {
    let rows = (1...20).map { row($0) }
    let bytes = try CaptureInstance(row: rows[0]).schema.memoryBytes
    try read(rows, room: 20 * bytes, countMax: 20)
    #expect(code { try read(rows, room: 20 * bytes - 1) } == .databaseUnsafe)
    #expect(code { try read(rows, countMax: 19) } == .databaseUnsafe)
    // One layout alone ends before its columns are in memory.
    #expect(code { try read([row(1, columns: 30_000)], room: 100_000) } == .databaseUnsafe)
  }

  /// A file has some 3,500 captured tables of ten columns at most: the parsed schema takes more memory.
  @Test func `the largest source has room for more than twenty schema changes of each table`() throws {
    let bytes = try CaptureInstance(row: row(1)).schema.memoryBytes
    #expect(3500 * 21 * bytes < TableSchema.memoryMax && 3500 * 21 < ReadLayouts.countMax)
  }

  @Test func `the layout in use is found for all layouts at once`() throws {
    var layouts: [Int64: CaptureInstance] = [:]
    // Two tables of 10,000 layouts each. The second one is no longer captured.
    for id in Int64(1)...20_000 {
      let ended: Int64? = id == 19_999 ? nil : id
      layouts[id] = try CaptureInstance(row: row(id, columns: 1, ended: ended, after: id > 2 ? id - 2 : nil))
    }
    let begun = ContinuousClock.now
    let present = PresentLayouts(layouts)
    #expect(ContinuousClock.now - begun < .seconds(10))
    #expect(present[1] == 19_999 && present[9999] == 19_999 && present[19_999] == 19_999)
    #expect(present[2] == nil && present[20_000] == nil && present[30_000] == nil)
  }

  @Test(arguments: Seeds.range(reduced: 20))
  func `the rows at which a table was captured are those of a plain model`(seed: UInt64) throws {
    var random = Seeded(seed)
    let layouts = try (1...Int64(1 + random.below(12))).map { id in
      let since = Int64(random.below(20))
      let ended = random.below(4) == 0 ? nil : (since + Int64(random.below(6))) * (random.below(3) == 0 ? -1 : 1)
      return try CaptureInstance(row: row(id, ["a", "B"][random.below(2)], columns: 1, since: since, ended: ended))
    }
    let spans = CapturedSpans(layouts)
    for name in ["A", "b", "c"] {
      for before in Int64(0)..<25 {
        for last in before..<26 {
          let expected = layouts.contains {
            $0.since <= last && ($0.ended.map { abs($0) > before } ?? true)
              && $0.schema.name.sqliteKey == name.sqliteKey
          }
          #expect(spans.hasTable(name, after: before, through: last) == expected, "seed \(seed)")
        }
      }
    }
  }
}
