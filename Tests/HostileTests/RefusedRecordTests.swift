import Changes
import Foundation
import HostilePeer
import TestServers
import Testing

@testable import Trails

/// Records that no reader of a trail can use. A copy must not take them, since readers of the copy would stop there.
struct RefusedRecordTests {
  private static let name = TrailName(origin: "evil", name: "x")
  private static let items = TableSchema(
    epoch: 1, engine: .sqlite, name: "item",
    columns: [.init(name: "id", declaredType: "INTEGER", keyOrdinal: 1), .init(name: "name", declaredType: "TEXT")])
  private static let keyless = TableSchema(
    epoch: 1, engine: .sqlite, name: "note", columns: items.columns.map { .init(name: $0.name, declaredType: "") })

  private static let records: [(what: String, add: @Sendable (inout HostileRecords) -> Void, isRow: Bool)] = [
    ("an image of one column", { $0.change(.insert, 1, before: nil, after: [.integer(1)]) }, true),
    ("an insert without the row", { $0.change(.insert, 1, before: nil, after: nil) }, true),
    ("an update without the row", { $0.change(.update, 1, before: [.integer(1), .null], after: nil) }, true),
    ("a delete without the row", { $0.change(.delete, 1, before: nil, after: [.integer(1), .null]) }, true),
    ("a schema that is missing", { $0.change(.insert, 2, before: nil, after: [.integer(1), .null]) }, true),
    ("a TRUNCATE of a schema that is missing", { $0.change(.truncate, 2, before: nil, after: nil) }, true),
    (
      "a value that cannot be decoded",
      {
        $0.add(RecordKind.change) {
          $0.append([1, 2, 1, 1, 0xee])
        }
      }, true
    ),
    ("a refreshed row of three columns", { $0.row(1, [.integer(1), .null, .null]) }, true),
    ("a chunk with a key of one column", { $0.refresh(1, .chunk(.row([.integer(1)]))) }, false),
    (
      "a key of a table without a key",
      {
        $0.schema(2, keyless)
        $0.refresh(2, .chunk(.row([.integer(1), .null])))
      }, false
    ),
    ("a refresh of a schema that is missing", { $0.refresh(7, .end(rows: 0)) }, false),
    ("a waiting row of one column", { $0.waiting(1, [.integer(1)], clock: 1, origin: "", number: 0) }, false),
    ("a schema change to a schema that is missing", { $0.ddl(DDL(action: .reshape, before: 1, after: 9)) }, false),
    ("a schema change without tables", { $0.ddl(DDL(action: .create, before: 0, after: 0)) }, false),
  ]

  @Test(arguments: records.indices, [1, 40])
  func `a copy takes no record that a reader refuses, and goes on with a good one`(index: Int, blocks: Int) throws {
    let (what, add, isRow) = Self.records[index]
    let folder = try makeTemporaryFolder("refused-record")
    defer { try? FileManager.default.removeItem(atPath: folder) }
    var segment = HostileSegment(Self.name)
    // Many blocks are opened by several threads.
    for number in 1...UInt64(blocks) {
      var records = HostileRecords()
      records.begin(number)
      if number == 1 { records.schema(1, Self.items) }
      records.change(.insert, 1, before: nil, after: [.integer(Int64(number)), .null])
      records.commit(number, changes: 1)
      segment.block(records.bytes)
    }
    let number = UInt64(blocks) + 1
    func end(_ add: (inout HostileRecords) -> Void, isRow: Bool) -> HostileSegment {
      var (all, records) = (segment, HostileRecords())
      records.begin(number)
      add(&records)
      records.commit(number, changes: isRow ? 1 : 0)
      all.block(records.bytes)
      return all
    }
    var copy = try TrailCopy.open(folder: folder + "/evil.x", name: Self.name)
    func push(_ all: HostileSegment) throws {
      let place = copy.end ?? TrailPlace(segment: 1, offset: 0, chain: all.start)
      let feed = CopyFeed(trail: all.id, at: place, from: "evil")
      try all.bytes.dropFirst(Int(place.offset)).withUnsafeBytes { try feed.take($0, for: copy) }
    }
    for _ in 0..<2 {
      let error = #expect(throws: CairnError.self, "\(what)") { try push(end(add, isRow: isRow)) }
      #expect(error?.code == .trailDamaged, "\(what): \(String(describing: error))")
      let standing = try #require(try copy.sync())
      #expect(standing.end.offset == UInt64(segment.bytes.count) && standing.lastTransaction == UInt64(blocks))
      // It is read as it is, also after it was opened again.
      _ = try Trail.verify(folder: folder + "/evil.x")
      try copy.close()
      copy = try TrailCopy.open(folder: folder + "/evil.x", name: Self.name)
      #expect(copy.recovery == nil)
    }
    try push(end({ $0.change(.delete, 1, before: [.integer(1), .null], after: nil) }, isRow: true))
    #expect(try copy.sync()?.lastTransaction == number)
    try copy.close()
    _ = try Trail.verify(folder: folder + "/evil.x")
  }
}
