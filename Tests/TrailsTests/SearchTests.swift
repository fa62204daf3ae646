import Changes
import CodecKit
import Foundation
import TestServers
import Testing

@testable import Trails

/// Searches in trails, and the indexes that they use.
@Suite struct SearchTests {
  private static let plain = TableSchema(
    epoch: 1, engine: .sqlite, name: "Item",
    columns: [.init(name: "id", declaredType: "INTEGER", keyOrdinal: 1), .init(name: "label"), .init(name: "price")])
  private static let composite = TableSchema(
    epoch: 1, engine: .postgres, namespace: "sales", name: "line",
    columns: [.init(name: "no", keyOrdinal: 2), .init(name: "text"), .init(name: "order", keyOrdinal: 1)])
  private static let keyless = TableSchema(
    epoch: 1, engine: .sqlite, name: "log", flags: [.wholeRow], columns: [.init(name: "a"), .init(name: "b")])
  private static let tables = [plain, composite, keyless]

  /// A row change as a model keeps it.
  private struct Change: Equatable {
    var transaction: UInt64
    var time: Int64
    var table: Int
    var operation: Changes.Operation
    var before: [Value?]
    var after: [Value?]
    var keys: [String]?

    /// Returns the keys before and after, as an operator writes them; nil for a change of all rows.
    func makeKeys() -> [String]? {
      guard operation != .truncate else { return nil }
      let columns = SearchTests.tables[table].key.isEmpty ? [0, 1] : SearchTests.tables[table].key
      func text(_ row: [Value?], _ other: [Value?]) -> String? {
        guard !row.isEmpty else { return nil }
        let parts = columns.map { column -> String in
          switch row[column] ?? (other.isEmpty ? nil : other[column]) {
          case .integer(let n): String(n)
          case .text(let bytes): String(decoding: bytes, as: UTF8.self)
          case .blob(let bytes): "x'\(bytes.hex)'"
          case .real(let r): r == r.rounded() ? String(Int(r)) : r.description
          default: "NULL"
          }
        }
        // Quotes keep commas and quotes of a value together.
        return columns.count == 1
          ? parts[0] : parts.map { "'\($0.replacing("'", with: "''"))'" }.joined(separator: ",")
      }
      return [text(before, after), text(after, before)].compactMap(\.self)
    }
  }

  private static func value(_ random: inout Seeded, _ range: Int) -> Value {
    let n = Int.random(in: 0..<range, using: &random)
    return switch Int.random(in: 0..<6, using: &random) {
    case 0: .text("k,'\(n)")
    case 1: .blob([UInt8(n & 255), 7])
    case 2: .real(Double(n) / 2)
    default: .integer(Int64(n))
    }
  }

  /// Writes random transactions, and returns their changes.
  private func fill(_ writer: TrailWriter, _ random: inout Seeded, transactions: Int) throws -> [Change] {
    var all: [Change] = []
    var time: Int64 = 1_700_000_000_000_000
    for _ in 0..<transactions {
      time += Int64.random(in: -5...50, using: &random) * 1_000_000
      let header = try writer.begin(TransactionHeader(commitTime: time))
      let isLarge = Int.random(in: 0..<40, using: &random) == 0
      for _ in 0..<(isLarge ? 3000 : Int.random(in: 1...5, using: &random)) {
        let table = Int.random(in: 0..<3, using: &random)
        let schema = Self.tables[table]
        let id = try writer.schemaID(schema, token: UInt64(table))
        func row() -> [Value?] {
          schema.columns.indices.map { column in
            schema.columns[column].keyOrdinal > 0 ? Self.value(&random, 400) : Self.value(&random, 1 << 40)
          }
        }
        var change = Change(
          transaction: header.number, time: time, table: table, operation: .insert, before: [], after: [])
        switch Int.random(in: 0..<(isLarge ? 100 : 200), using: &random) {
        case 0 where !isLarge: change.operation = .truncate
        case 0..<60:
          change.operation = .update
          (change.before, change.after) = (row(), row())
          if table < 2, Bool.random(using: &random) {
            for column in schema.key { change.after[column] = nil }
          }
        case 60..<90: (change.operation, change.before) = (.delete, row())
        default: change.after = row()
        }
        var payload = ByteWriter()
        payload.append(change.operation.rawValue)
        payload.append((change.before.isEmpty ? 0 : 1) | (change.after.isEmpty ? 0 : 2))
        payload.appendVarint(id)
        if !change.before.isEmpty { payload.appendImage(change.before) }
        if !change.after.isEmpty { payload.appendImage(change.after) }
        try writer.append(kind: RecordKind.change, payload.bytes)
        change.keys = change.makeKeys()
        all.append(change)
      }
      try writer.commit()
      if Int.random(in: 0..<4, using: &random) == 0 { try writer.sync() }
    }
    try writer.sync()
    return all
  }

  private func found(
    _ folder: String, _ filter: RowFilter, _ bounds: TrailSearch.Bounds = .init(), newestFirst: Bool = false
  ) throws -> [Change] {
    var all: [Change] = []
    var stretch: [Change] = []
    try TrailSearch(folder: folder, filter: filter, bounds: bounds).run(newestFirst: newestFirst) { hit in
      guard case .change(let change) = hit.record, let schema = hit.schema(change.schemaID) else { return }
      var found = Change(
        transaction: hit.transaction.number, time: hit.transaction.commitTime,
        table: Self.tables.firstIndex { $0.name == schema.name } ?? -1, operation: change.operation,
        before: try change.before?.values() ?? [], after: try change.after?.values() ?? [])
      found.keys = found.makeKeys()
      stretch.append(found)
    } done: {
      all += newestFirst ? stretch.reversed() : stretch
      stretch = []
      return .more
    }
    return all
  }

  @Test(arguments: Seeds.half(of: [0, 1, 2, 3])) func `a search finds what a scan finds`(seed: UInt64) throws {
    let folder = try TempFolder()
    var random = Seeded(seed)
    var options = TrailOptions()
    (options.segmentBytes, options.blockBytes) = (seed < 2 ? 200_000 : 150_000, seed % 2 == 0 ? 4096 : 65_536)
    let writer = try openWriter(folder("t"), options)
    var all = try fill(writer, &random, transactions: 300)
    for round in 0..<2 {
      for _ in 0..<12 {
        let table = Int.random(in: 0..<3, using: &random)
        let name = ["item", "SALES.line", "log"][table]
        let some = all.filter { $0.table == table && $0.keys != nil }
        let key = Bool.random(using: &random) ? some.randomElement(using: &random)?.keys?.randomElement() : "9999999"
        var bounds = TrailSearch.Bounds()
        let times = [all.randomElement(using: &random)?.time, all.randomElement(using: &random)?.time].compactMap(
          \.self)
        if Bool.random(using: &random) { (bounds.since, bounds.until) = (times.min(), times.max()) }
        let wanted = all.filter { change in
          change.table == table && (key.map { change.keys?.contains($0) ?? true } ?? true)
            && change.time >= bounds.since ?? .min && change.time < bounds.until ?? .max
        }
        #expect(try found(folder("t"), RowFilter(table: name, key: key), bounds) == wanted, "\(name) \(key ?? "")")
        #expect(
          try found(folder("t"), RowFilter(table: name, key: key), bounds, newestFirst: true) == wanted.reversed())
      }
      guard round == 0 else { break }
      // The second round uses the files, and more transactions.
      all += try fill(writer, &random, transactions: 100)
      let built = try Trail.buildIndexes(folder: folder("t"))
      let files = try FileManager.default.contentsOfDirectory(atPath: folder("t")).filter { $0.hasSuffix(".idx") }
      #expect(files.count >= built.count && !files.isEmpty)
      for file in files {
        let segment = file.replacing(".idx", with: ".seg")
        #expect(try contents(folder("t/" + file)).count * 100 <= contents(folder("t/" + segment)).count * 3)
      }
    }
  }

  @Test func `a damaged index is built again, and hides nothing`() throws {
    let folder = try TempFolder()
    var random = Seeded(7)
    var options = TrailOptions()
    options.segmentBytes = 80_000
    let writer = try openWriter(folder("t"), options)
    let all = try fill(writer, &random, transactions: 200)
    _ = try Trail.buildIndexes(folder: folder("t"))
    let path = folder("t/00000001.idx")
    let good = try contents(path)
    let change = try #require(all.first { $0.table == 0 && $0.keys != nil })
    let key = try #require(change.keys?.first)
    let wanted = all.filter { $0.table == 0 && $0.keys?.contains(key) ?? true }
    for _ in 0..<40 {
      var bad = good
      switch Int.random(in: 0..<4, using: &random) {
      case 0: bad.removeLast(Int.random(in: 1...bad.count, using: &random))
      case 1: bad = (0..<bad.count).map { _ in UInt8.random(in: 0...255, using: &random) }
      default: bad[Int.random(in: bad.indices, using: &random)] ^= UInt8.random(in: 1...255, using: &random)
      }
      try put(bad, path)
      #expect(try found(folder("t"), RowFilter(table: "item", key: key)) == wanted)
    }
    try? FileManager.default.removeItem(atPath: path)
    #expect(try found(folder("t"), RowFilter(table: "item", key: key)) == wanted)
    #expect(try contents(path) == good)
  }

  @Test func `an index with right checksums and impossible content does no harm`() throws {
    let folder = try TempFolder()
    var random = Seeded(11)
    var options = TrailOptions()
    options.segmentBytes = 80_000
    let writer = try openWriter(folder("t"), options)
    let all = try fill(writer, &random, transactions: 200)
    _ = try Trail.buildIndexes(folder: folder("t"))
    let path = folder("t/00000001.idx")
    let good = try contents(path)
    let length = try #require(SegmentIndex.length(of: good))
    let change = try #require(all.first { $0.table == 0 && $0.keys != nil })
    for _ in 0..<300 {
      var bad = good
      for _ in 0..<Int.random(in: 1...4, using: &random) {
        bad[Int.random(in: 10..<length - 4, using: &random)] = UInt8.random(in: 0...255, using: &random)
      }
      let sum = CRC32C.of(Array(bad[..<(length - 4)]))
      withUnsafeBytes(of: sum.littleEndian) { bad.replaceSubrange(length - 4..<length, with: $0) }
      try put(bad, path)
      // It may miss changes, since it is forged; it must neither crash nor hang.
      _ = try? found(folder("t"), RowFilter(table: "item", key: change.keys?.first))
    }
  }

  @Test func `a purge removes the index of a segment with it`() throws {
    let folder = try TempFolder()
    var random = Seeded(3)
    var options = TrailOptions()
    options.segmentBytes = 200_000
    let writer = try openWriter(folder("t"), options)
    _ = try fill(writer, &random, transactions: 400)
    let built = try Trail.buildIndexes(folder: folder("t"))
    #expect(built.count > 1 && built.first == 1)
    #expect(try Trail.info(folder: folder("t")).segments[0].indexed > 0)
    _ = try Trail.purge(folder: folder("t"), below: Position(segment: built[1], offset: 0))
    #expect(!FileManager.default.fileExists(atPath: folder("t/00000001.idx")))
    #expect(FileManager.default.fileExists(atPath: folder("t/\(built[1].hex(8)).idx")))
    #expect(try Trail.buildIndexes(folder: folder("t")).isEmpty)
  }

  @Test func `the newest schema of a table, or the names of those that there are`() throws {
    let folder = try TempFolder()
    var random = Seeded(5)
    let writer = try openWriter(folder("t"))
    _ = try fill(writer, &random, transactions: 30)
    #expect(
      try TrailSearch(folder: folder("t"), filter: RowFilter(table: "Sales.Line")).newestSchema().schema
        == Self.composite)
    let none = try TrailSearch(folder: folder("t"), filter: RowFilter(table: "itme")).newestSchema()
    #expect(none.schema == nil && none.names == ["item", "log", "sales.line"])
  }

  @Test func `keys are read as an operator writes them`() {
    #expect(RowKey.parts("7") == [Array("7".utf8)])
    #expect(RowKey.parts("a,'b,''c',") == ["a", "b,'c", ""].map { Array($0.utf8) })
    #expect(RowKey.parse("a'b").count == 1)
  }
}
