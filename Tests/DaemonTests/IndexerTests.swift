import Changes
import Configuring
import ControlAPI
import Foundation
import ServiceKit
import SystemKit
import Testing

@testable import Daemon
@testable import Trails

/// Segments of a peer cost other work of the daemon little.
@Suite struct IndexerTests {
  private static func id(_ number: UInt8) throws -> TrailID {
    try #require(TrailID([UInt8](repeating: number, count: 16)))
  }

  private func fill(_ folder: String, _ name: TrailName) throws {
    let table = TableSchema(
      epoch: 1, engine: .sqlite, name: "item",
      columns: [.init(name: "id", declaredType: "INTEGER", keyOrdinal: 1), .init(name: "label")])
    var options = TrailOptions()
    (options.segmentBytes, options.compress) = (70_000, false)
    let writer = try TrailWriter.open(folder: folder, name: name, options: options, now: { 1_700_000_000_000_000 })
    for row in 0..<90 {
      _ = try writer.begin(TransactionHeader(commitTime: 1_700_000_000_000_000))
      let id = try writer.schemaID(table, token: 1)
      var payload = ByteWriter()
      payload.append(Changes.Operation.insert.rawValue)
      payload.append(2)
      payload.appendVarint(id)
      payload.appendImage([.integer(Int64(row)), .blob([UInt8](repeating: 7, count: 2000))])
      try writer.append(kind: RecordKind.change, payload.bytes)
      try writer.commit()
      try writer.sync()
    }
    try writer.close()
  }

  @Test func `one thread indexes all trails, purges wait for none, and it ends at once`() throws {
    let state = FileManager.default.temporaryDirectory.appending(path: "cairn-indexer-\(UUID().uuidString)").path()
    defer { try? FileManager.default.removeItem(atPath: state) }
    let names = [TrailName(origin: "evil", name: "x"), TrailName(origin: "store", name: "y")]
    for name in names {
      try FileManager.default.createDirectory(atPath: "\(state)/\(name)", withIntermediateDirectories: true)
      try fill("\(state)/\(name)", name)
    }
    let context = ServiceContext(Configuration(node: .init(name: "hub", state: state)), log: ServiceLog(level: .error))
    func hasIndexes() -> Bool {
      names.allSatisfy { FileManager.default.fileExists(atPath: "\(state)/\($0)/00000001.idx") }
    }
    // A purge builds none.
    let stop = StopSignal()
    let purge = PurgeWorker(
      .purgeOfCopies, "", every: .seconds(1), context, trails: { names },
      plan: { RetentionPlan(.init(), trails: [], readers: [], isPaused: false, now: 0) })
    let thread = try WorkerThread { try? purge.run(stop: stop) }
    while context.trailInfos.count < 2 { Clock.sleep(milliseconds: 10) }
    Clock.sleep(milliseconds: 300)
    stop.set()
    _ = thread.join()
    #expect(!hasIndexes())
    let indexer = Indexer(context, pauseMilliseconds: 10)
    indexer.keep()
    let limit = Clock.monotonicMilliseconds + 20_000
    while !hasIndexes(), Clock.monotonicMilliseconds < limit { Clock.sleep(milliseconds: 10) }
    #expect(hasIndexes())
    let before = Clock.monotonicMilliseconds
    indexer.end()
    #expect(Clock.monotonicMilliseconds - before < 2_000)
  }

  @Test func `an apply that has expired is back after the segment for which it expired, not before the purge`() throws {
    let (old, new) = (try Self.id(1), try Self.id(2))
    let expiry = Expiry(trail: old, segment: 7)
    #expect(!expiry.isOver(needs: 7, of: old, first: 7))
    #expect(!expiry.isOver(needs: 8, of: old, first: 9))
    #expect(expiry.isOver(needs: 8, of: old, first: 8))
    // A trail that begins again has other segments of the same numbers.
    #expect(expiry.isOver(needs: 1, of: new, first: 1))
  }

  @Test func `a reader that expires again and again is reported once in ten minutes`() {
    let (one, two) = (
      RetentionPlan.ReaderID(WorkerName(.apply, "x"), "evil.x"),
      RetentionPlan.ReaderID(WorkerName(.apply, "y"), "evil.x")
    )
    var notes = ExpiryNotes()
    let times: [Int64] = [0, 1_000, 599_999, 600_000]
    #expect(times.map { notes.take(one, now: $0) } == [true, false, false, true])
    #expect(notes.take(two, now: 600_001) && !notes.take(two, now: 600_002))
  }

  @Test func `many small segments of a peer are refused, and many large ones are not`() {
    #expect(!IntakeRoom.isCrowd(segments: 10_000, bytes: 6_140_000))
    #expect(IntakeRoom.isCrowd(segments: 10_001, bytes: 6_140_614))
    #expect(!IntakeRoom.isCrowd(segments: 200_000, bytes: 200_000 * 16 << 20))
    // The more segments there are, the larger they must be.
    #expect(!IntakeRoom.isCrowd(segments: 20_000, bytes: 20_000 * 65_800))
    #expect(IntakeRoom.isCrowd(segments: 20_001, bytes: 20_001 * 65_800))
    #expect(IntakeRoom.isCrowd(segments: 40_000, bytes: 40_000 << 20))
    #expect(!IntakeRoom.isCrowd(segments: 0, bytes: 0))
    let gate = IntakeGate()
    _ = gate.isFull(now: 0) { IntakeRoom(crowds: ["evil": 10_001]) }
    #expect(gate.crowd(of: "evil") == 10_001 && gate.crowd(of: "store") == nil)
  }

  @Test func `the small segments of a peer are counted over its trails, without a disk limit too`() throws {
    var conf = Configuration(node: .init(name: "hub", state: "/nowhere"))
    conf.peers = [.init(name: "evil", push: TrailPatterns(["evil.*"]), pull: TrailPatterns([]))]
    let context = ServiceContext(conf, log: ServiceLog(level: .error))
    for name in ["x", "y"] {
      let segments = (1...UInt64(6000)).map {
        TrailInfo.Segment(number: $0, bytes: 614, isSealed: true, firstTransaction: $0, created: 0)
      }
      context.note(
        TrailInfo(
          folder: "", name: TrailName(origin: "evil", name: name), id: try Self.id(1), segments: segments,
          firstPosition: .start, end: Checkpoint(trail: try Self.id(1), position: .start, chain: .zero),
          lastTransaction: 1,
          bytes: 6000 * 614))
    }
    let plan = { RetentionPlan(.init(), trails: [], readers: [], isPaused: false, now: 0) }
    let error = try #require(context.obstacle(for: "evil", plan))
    #expect(error.code == .diskBudget && error.message.contains("12000 segments"))
    #expect(context.obstacle(for: "store", plan) == nil)
  }
}
