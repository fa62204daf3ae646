import Changes
import Configuring
import ControlAPI
import Foundation
import Testing
@testable import Trails

@testable import Daemon

/// The knowledge about other nodes, and what it keeps from being deleted.
@Suite struct PeerRegistryTests {
  private static let trail = TrailName(origin: "hq", name: "erp")
  private static let key = PeerRegistry.Key(WorkerName(.peer, "store.example"), trail)
  private static let id = TrailID(Array(repeating: 7, count: 16))

  private func inFolder(_ body: (String) throws -> Void) throws {
    let folder = FileManager.default.temporaryDirectory.appending(path: "cairn-peers-\(UUID().uuidString)")
    try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
    defer { try? FileManager.default.removeItem(at: folder) }
    try body(folder.path())
  }

  private func info(_ numbers: ClosedRange<UInt64>) throws -> TrailInfo {
    let segments = numbers.map {
      TrailInfo.Segment(number: $0, bytes: 100, isSealed: $0 < numbers.upperBound, firstTransaction: $0, created: 0)
    }
    let (id, end) = (try #require(Self.id), Position(segment: numbers.upperBound, offset: 100))
    return TrailInfo(
      folder: "", name: Self.trail, id: id, segments: segments,
      firstPosition: Position(segment: numbers.lowerBound, offset: 0),
      end: Checkpoint(trail: id, position: end, chain: .zero), lastTransaction: 9, bytes: 0)
  }

  private func entry(_ segment: UInt64, _ offset: UInt64 = 50) throws -> PeerRegistry.Entry {
    PeerRegistry.Entry(id: try #require(Self.id).description, segment: segment, offset: offset, seenAt: 1_000_000)
  }

  @Test func `a peer's report is there after a new start, and gone when it is no longer kept`() throws {
    try inFolder { state in
      let book = PeerRegistry(state: state)
      var entry = try entry(3)
      entry.applied = Position(segment: 2, offset: 77)
      book.note(entry, of: Self.key)
      // If an entry says nothing of applies, the earlier entry holds.
      book.note(try self.entry(4), of: Self.key)
      var expected = try self.entry(4)
      expected.applied = entry.applied
      #expect(book[Self.key] == expected)
      #expect(PeerRegistry(state: state)[Self.key] == expected)
      book.keep { _ in false }
      #expect(book[Self.key] == nil && PeerRegistry(state: state)[Self.key] == nil)
    }
  }

  @Test func `a step inside of a segment is written seldom`() throws {
    try inFolder { state in
      let book = PeerRegistry(state: state)
      book.note(try entry(3, 10), of: Self.key)
      book.note(try entry(3, 20), of: Self.key)
      #expect(book[Self.key]?.offset == 20 && PeerRegistry(state: state)[Self.key]?.offset == 10)
      var late = try entry(3, 30)
      late.seenAt += 31_000_000
      book.note(late, of: Self.key)
      #expect(PeerRegistry(state: state)[Self.key]?.offset == 30)
    }
  }

  @Test func `a file that was cut counts for nothing`() throws {
    try inFolder { state in
      PeerRegistry(state: state).note(try entry(3), of: Self.key)
      try "07 3".write(toFile: "\(state)/readers/peer.store.example/hq.erp", atomically: true, encoding: .utf8)
      #expect(PeerRegistry(state: state)[Self.key] == nil)
    }
  }

  @Test func `peers that may pull read, and so do targets of pushes; no peer reads its own trail`() {
    var conf = Configuration(node: .init(name: "hq"))
    conf.receive = .init(host: "::", port: 7420)
    conf.peers = [
      .init(name: "store-1", push: TrailPatterns(["store-1.*"]), pull: TrailPatterns(["*"])),
      .init(name: "store-2", push: TrailPatterns(["store-2.*"]), pull: TrailPatterns([])),
    ]
    if let url = PeerURL("https://backup") {
      conf.pumps = [.init(name: "b", trails: TrailPatterns(["hq.*"]), way: .push, url: url)]
    }
    let trails = [Self.trail, TrailName(origin: "store-1", name: "pos"), TrailName(origin: "store-2", name: "pos")]
    let keys = PeerReaders.keys(conf, trails, besides: [])
    #expect(
      keys.map { "\($0.reader) \($0.trail)" } == [
        "pump.b hq.erp", "peer.store-1 hq.erp", "peer.store-1 store-2.pos",
      ])
    #expect(PeerReaders.keys(conf, trails, besides: [keys[0]]).count == 2)
    conf.receive = nil
    #expect(PeerReaders.keys(conf, trails, besides: []).map(\.reader.name) == ["b"])
  }

  @Test func `one that never came needs all, one whose place is gone is given up until it has moved on`() throws {
    let info = try info(3...9)
    func reader(_ entry: PeerRegistry.Entry?, givenUpIn segment: UInt64? = nil) -> RetentionPlan.Reader {
      PeerReaders.reader(Self.key, entry, info, givenUpIn: segment)
    }
    #expect(reader(nil).segment == nil && !reader(nil).isExpired)
    #expect(reader(nil, givenUpIn: 0).isExpired)
    #expect(reader(try entry(2)).isExpired)
    let fourth = reader(try entry(4))
    #expect(!fourth.isExpired && fourth.segment == 4)
    #expect(reader(try entry(4), givenUpIn: 4).isExpired)
    #expect(!reader(try entry(5), givenUpIn: 4).isExpired)
    #expect(reader(try entry(9, 100)).isAtEnd)
    #expect(!reader(try entry(9, 99)).isAtEnd)
    // An entry about another trail of this name says nothing.
    var other = try entry(4)
    other.id = "other"
    #expect(reader(other).segment == nil)
  }

  @Test func `a peer keeps a trail as an apply does, up to the limits`() throws {
    var limits = Configuration.Limits()
    let info = try info(3...9)
    let trail = RetentionPlan.Trail(name: "hq.erp", segments: info.segments)
    let apply = RetentionPlan.Reader(name: WorkerName(.apply, "a"), trail: "hq.erp", segment: 9, isExpired: false)
    let peer = PeerReaders.reader(Self.key, try entry(5), info, givenUpIn: nil)
    let plan = RetentionPlan(limits, trails: [trail], readers: [apply, peer], isPaused: false, now: 0)
    #expect(plan.purgeBelow == ["hq.erp": 5] && plan.expired.isEmpty)
    limits.diskBytes = 300
    let tight = RetentionPlan(limits, trails: [trail], readers: [apply, peer], isPaused: false, now: 0)
    #expect(tight.purgeBelow == ["hq.erp": 9] && tight.expired == [.init(Self.key.reader, "hq.erp")])
  }

  @Test func `the clock of a trail says how long there has been more`() {
    var clock = PlaceClock<Int>()
    #expect(clock.lagMilliseconds(at: 5, now: 0) == nil)
    for step in 0..<3 { clock.note(step * 10, at: Int64(step) * 1_000_000) }
    #expect(clock.lagMilliseconds(at: 20, now: 9_000_000) == 0)
    #expect(clock.lagMilliseconds(at: 12, now: 9_000_000) == 7_000)
    #expect(clock.lagMilliseconds(at: 10, now: 9_000_000) == 7_000)
    #expect(clock.lagMilliseconds(at: 0, now: 9_000_000) == 8_000)
    #expect(clock.lagMilliseconds(at: -1, now: 9_000_000) == nil)
    for step in 3..<5000 { clock.note(step * 10, at: Int64(step) * 1_000_000) }
    let old = clock.lagMilliseconds(at: 20_000, now: 4999_000_000) ?? 0
    #expect(old > 2_900_000 && old <= 2_999_000)
    clock.note(1, at: 5_000_000_000)
    #expect(clock.lagMilliseconds(at: 1, now: 5_000_000_000) == 0)
  }
}
