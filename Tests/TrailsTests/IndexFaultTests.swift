import Changes
import CodecKit
import Foundation
import SystemKit
import TestServers
import Testing

@testable import Trails

/// Indexes of segments that cannot be indexed, or not in the time that there is. A peer may send any segment.
@Suite struct IndexFaultTests {
  private static let table = TableSchema(
    epoch: 1, engine: .sqlite, name: "item",
    columns: [.init(name: "id", declaredType: "INTEGER", keyOrdinal: 1), .init(name: "label")])

  /// Writes transactions of one row each, with random labels. The row `damaged` has a value that cannot be decoded.
  private func fill(_ folder: String, rows: Range<Int64>, label: Int = 2000, damaged: Int64? = nil) throws {
    var options = TrailOptions()
    (options.segmentBytes, options.contentBytes, options.compress) = (80_000, 1 << 30, label > 2000)
    let writer = try openWriter(folder, options)
    var random = Seeded(1)
    for row in rows {
      _ = try writer.begin(TransactionHeader(commitTime: 1_700_000_000_000_000 + row))
      let id = try writer.schemaID(Self.table, token: 1)
      let bytes =
        label > 2000
        ? [UInt8](repeating: 65, count: label) : (0..<label).map { _ in UInt8.random(in: 0...255, using: &random) }
      var payload = ByteWriter()
      payload.append(Changes.Operation.insert.rawValue)
      payload.append(2)
      payload.appendVarint(id)
      if row == damaged {
        payload.appendCounted([2, 2, 99] as [UInt8])
      } else {
        payload.appendImage([.integer(row), .blob(bytes)])
      }
      try writer.append(kind: RecordKind.change, payload.bytes)
      try writer.commit()
      try writer.sync()
    }
    try writer.close()
  }

  private func found(_ folder: String, _ key: String, from: UInt64 = 0) throws -> Int {
    var count = 0
    var bounds = TrailSearch.Bounds()
    bounds.from = Position(segment: from, offset: 0)
    try TrailSearch(folder: folder, filter: RowFilter(table: "item", key: key), bounds: bounds)
      .run(newestFirst: false) { _ in
        count += 1
      } done: {
        .more
      }
    return count
  }

  private func sealed(_ folder: String) throws -> [UInt64] {
    try Trail.info(folder: folder).segments.dropLast().map(\.number)
  }

  @Test func `a segment that cannot be indexed is not tried again, and later ones are indexed`() throws {
    let folder = try TempFolder()
    try fill(folder("t"), rows: 1..<150, damaged: 20)
    var failures: [CairnError] = []
    let all = try sealed(folder("t"))
    #expect(all.count > 2)
    #expect(try Trail.buildIndexes(folder: folder("t"), failed: { failures.append($0) }) == all)
    #expect(failures.count == 1 && failures.first?.code == .trailDamaged)
    #expect(try Trail.buildIndexes(folder: folder("t"), failed: { failures.append($0) }).isEmpty && failures.count == 1)
    // A search reads the segment, and says what is wrong in it. It finds what is in other ones.
    #expect(throws: CairnError.self) { try found(folder("t"), "10") }
    #expect(try found(folder("t"), "140", from: 2) == 1)
  }

  @Test func `an index that takes too much time is empty, and a search finds all rows`() throws {
    let folder = try TempFolder()
    try fill(folder("t"), rows: 1..<150)
    let all = try sealed(folder("t"))
    #expect(try Trail.buildIndexes(folder: folder("t"), processorMilliseconds: 0) == all)
    let empty = try contents(folder("t/00000001.idx"))
    #expect(empty.count < 100)
    #expect(try Trail.buildIndexes(folder: folder("t")).isEmpty)
    for key in [1, 40, 149] { #expect(try found(folder("t"), "\(key)") == 1) }
    // The search has built the index.
    #expect(try contents(folder("t/00000001.idx")).count > empty.count)
  }

  @Test func `an index without stretches hides nothing, whatever segment it names`() throws {
    let folder = try TempFolder()
    try fill(folder("t"), rows: 1..<90)
    _ = try Trail.buildIndexes(folder: folder("t"))
    let good = try #require(SegmentIndex(header: try header(folder("t/00000001.idx"))))
    try put(SegmentIndex.empty(good.identity), folder("t/00000001.idx"))
    #expect(try found(folder("t"), "3") == 1)
  }

  private func header(_ path: String) throws -> [UInt8] {
    let bytes = try contents(path)
    return Array(bytes[..<(try #require(SegmentIndex.length(of: bytes)))])
  }

  @Test func `the work on an index ends inside of a segment`() throws {
    let folder = try TempFolder()
    try fill(folder("t"), rows: 1..<90)
    var asked = 0
    let built = try Trail.buildIndexes(
      folder: folder("t"),
      isEnding: {
        asked += 1
        return asked > 1
      })
    #expect(built.isEmpty && asked == 2)
    #expect(!FileManager.default.fileExists(atPath: folder("t/00000001.idx")))
  }

  @Test func `stretches of blocks that unpack to much count in the share of an index`() throws {
    let folder = try TempFolder()
    // 80 KB of file have 40 MB of content.
    try fill(folder("t"), rows: 1..<800, label: 65_000)
    let info = try Trail.info(folder: folder("t"))
    #expect(info.segments.count > 1)
    _ = try Trail.buildIndexes(folder: folder("t"))
    for segment in info.segments.dropLast() {
      let size = try contents(folder("t/\(segment.number.hex(8)).idx")).count
      #expect(size * 100 <= Int(segment.bytes) * 3)
    }
    #expect(try found(folder("t"), "3") == 1)
    #expect(try contents(folder("t/00000001.idx")).count < 200)
  }

  @Test func `entries are sorted once, and stay distinct`() {
    var entries = IndexEntries(most: 1000)
    for hash in 1...UInt64(999) { entries.add(hash &* 0x9e37_79b9_7f4a_7c15, stretch: 0) }
    for row in 0..<20_000 { entries.add((UInt64(row) % 999 + 1) &* 0x9e37_79b9_7f4a_7c15, stretch: 0) }
    entries.finish()
    #expect(entries.all.count == 999 && !entries.isTooLarge && entries.sortedCount <= 20_999)
    #expect(zip(entries.all, entries.all.dropFirst()).allSatisfy { $0 < $1 })
    entries.add(7, stretch: 1)
    entries.add(7, stretch: 2)
    entries.finish()
    #expect(entries.isTooLarge && entries.all.isEmpty)
  }

  @Test func `a segment of the far future counts as written when it came`() throws {
    let folder = try TempFolder()
    let before = Clock.system.microseconds()
    let writer = try TrailWriter.open(
      folder: folder("t"), name: till, options: .small(), now: { 250_000_000_000_000_000 })
    try writer.close()
    let info = try Trail.info(folder: folder("t"))
    #expect(info.segments.allSatisfy { $0.created <= Clock.system.microseconds() && $0.created > before - 60_000_000 })
  }

  @Test func `an index whose pages all begin with one hash is read in one pass`() throws {
    let trail = try #require(TrailID(Array(repeating: 1, count: 16)))
    var index = SegmentIndex(.init(trail: trail, segment: 1, bytes: 1 << 30, chain: ChainHash.zero))
    index.widths = .init(hash: 8, remainder: 2, group: 2, shift: 0)
    index.pages = (0..<400_000).map { .init(first: 7, offset: UInt64($0) * 8, length: 8) }
    index.pages.insert(.init(first: 3, offset: 0, length: 8), at: 0)
    index.pages.append(.init(first: 9, offset: 0, length: 8))
    let start = ContinuousClock.now
    #expect(index.pages(of: 7 << 56).count == 400_001)
    #expect(index.pages(of: 2 << 56).isEmpty && index.pages(of: 8 << 56).count == 1)
    #expect(start.duration(to: .now) < .seconds(5))
  }
}
