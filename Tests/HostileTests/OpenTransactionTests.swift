import Changes
import Foundation
import HostilePeer
import TestServers
import Testing

@testable import Trails

/// Transactions of a peer that unpack to far more than their stored bytes explain.
struct OpenTransactionTests {
  private static let name = TrailName(origin: "evil", name: "x")

  /// The error with which a copy refuses a segment, and the number of stored bytes that it took.
  private static func refusal(_ segment: HostileSegment) throws -> (error: CairnError?, taken: UInt64) {
    let folder = try makeTemporaryFolder("open-transaction")
    defer { try? FileManager.default.removeItem(atPath: folder) }
    let copy = try TrailCopy.open(folder: folder + "/evil.x", name: name)
    let place = TrailPlace(segment: 1, offset: 0, chain: segment.start)
    let feed = CopyFeed(trail: segment.id, at: place, from: "evil")
    do {
      try segment.bytes.withUnsafeBytes { try feed.take($0, for: copy) }
      return (nil, try copy.sync()?.end.offset ?? 0)
    } catch let error as CairnError {
      // It goes on where it stopped, with the same limits.
      return (error, try copy.sync()?.end.offset ?? 0)
    }
  }

  @Test func `a transaction may not unpack to gigabytes of content`() throws {
    var segment = HostileSegment(Self.name)
    for block in 0..<20 { segment.largeBlock(zeros: 60 << 20, begins: block == 0, ends: false) }
    let (error, taken) = try Self.refusal(segment)
    #expect(error?.code == .usage)
    #expect(error?.message.contains("of content in") == true)
    #expect(taken < UInt64(segment.bytes.count) - 4096)
  }

  @Test func `content that is large in many transactions is taken`() throws {
    var segment = HostileSegment(Self.name)
    segment.largeTransaction(zeros: 60 << 20)
    #expect(try Self.refusal(segment).error == nil)
  }

  @Test func `the number of a transaction's records is bounded by its stored bytes`() throws {
    var records = HostileRecords()
    records.begin(1)
    for _ in 0..<100 { records.marker("") }
    let place = Position(segment: 1, offset: 0)
    func scan(_ most: UInt64) throws {
      var scan = RecordScan(SegmentRecords(TransactionTracker(lastNumber: 0)))
      try records.bytes.withUnsafeBytes { try scan.follow($0, at: place, [], recordsMax: most) }
    }
    try scan(101)
    #expect(throws: CairnError.self) { try scan(100) }
    #expect(OpenTransactionSize(contentBytes: 64 << 20, storedBytes: 6500).recordsMax < 22_000_000)
    #expect(OpenTransactionSize(contentBytes: 64 << 20, storedBytes: 8 << 20).recordsMax > 100_000_000)
  }
}
