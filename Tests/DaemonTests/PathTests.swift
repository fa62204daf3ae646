import Changes
import Configuring
import ControlAPI
import Testing
@testable import Trails

@testable import Daemon

/// The state of trails on their way, and the workers by which they go.
@Suite struct PathTests {
  private static let trail = TrailName(origin: "hq", name: "erp")

  private func conf() -> Configuration {
    var conf = Configuration(node: .init(name: "hq", state: "/state"))
    conf.receive = .init(host: "::", port: 7420)
    conf.peers = [.init(name: "store", push: TrailPatterns([]), pull: TrailPatterns(["hq.*"]))]
    if let url = PeerURL("https://backup") {
      conf.pumps = [
        .init(name: "out", trails: TrailPatterns(["hq.*"]), way: .push, url: url),
        .init(name: "in", trails: TrailPatterns(["till.*"]), way: .pull, url: url),
      ]
    }
    return conf
  }

  @Test func `a worker for each pump, one that listens, and one that deletes of copies`() {
    let plan = WorkerPlan(conf())
    #expect(plan.names.map(\.description) == ["pump.in", "pump.out", "receive", "purge.*"])
    #expect(plan.specs[WorkerName(.pump, "in")]?.bringsIn == true)
    #expect(plan.specs[WorkerName(.pump, "out")]?.bringsIn == false)
    for name in plan.names { #expect(WorkerName(name.description) == name) }
  }

  @Test func `grants concern no worker; another port concerns the listener alone`() {
    var other = conf()
    other.peers[0].push = TrailPatterns(["store.*"])
    #expect(WorkerPlan(conf()).change(to: WorkerPlan(other)).isNothing)
    other.receive?.port = 7421
    #expect(WorkerPlan(conf()).change(to: WorkerPlan(other)) == .init(altered: [.receive]))
    other = conf()
    other.pumps[0].bytesPerSecond = 1000
    #expect(WorkerPlan(conf()).change(to: WorkerPlan(other)) == .init(altered: [WorkerName(.pump, "out")]))
  }

  private func board(
    _ board: inout TransferStatus, _ transfers: [NodeStatus.Path], _ entry: PeerRegistry.Entry?, end: UInt64,
    now: Int64,
    givenUp: Set<RetentionPlan.ReaderID> = []
  ) throws -> [NodeStatus.Path] {
    let id = try #require(TrailID(Array(repeating: 7, count: 16)))
    let standing = TrailStanding(
      name: Self.trail, id: id, oldest: 1, end: TrailPlace(segment: 2, offset: end, chain: .zero),
      position: Position(segment: 2, offset: end), lastTransaction: 1)
    let segments = (1...2).map {
      TrailInfo.Segment(number: $0, bytes: 100, isSealed: $0 == 1, firstTransaction: 1, created: 0)
    }
    let info = TrailInfo(
      folder: "", name: Self.trail, id: id, segments: segments, firstPosition: Position(segment: 1, offset: 0),
      end: Checkpoint(trail: id, position: Position(segment: 2, offset: end), chain: .zero), lastTransaction: 1,
      bytes: 200)
    var known = entry
    known?.id = id.description
    return board.paths(
      transfers: transfers, keys: [.init(WorkerName(.peer, "store"), Self.trail)], book: { _ in known },
      givenUp: givenUp,
      pumpPeers: [:], standings: ["hq.erp": standing], infos: ["hq.erp": info], now: now, monotonic: now / 1000)
  }

  @Test func `a peer that may pull is shown before it ever came, then with how far it lags`() throws {
    var paths = TransferStatus()
    let never = try board(&paths, [], nil, end: 40, now: 1_000_000)
    #expect(never.count == 1 && never[0].way == .served && never[0].state == .waiting && never[0].seenAt == nil)
    #expect(!never[0].isWell(lagMilliseconds: 60_000))
    var live = NodeStatus.Path("hq.erp", "store", .served, .connected)
    live.bytes = 100
    let entry = PeerRegistry.Entry(
      id: "", segment: 1, offset: 60, applied: Position(segment: 2, offset: 40), seenAt: 5_000_000)
    let behind = try board(&paths, [live], entry, end: 70, now: 9_000_000)
    #expect(behind.count == 1 && behind[0].state == .connected && behind[0].bytes == 100)
    #expect(behind[0].behindBytes == 110 && behind[0].durable == "00000001:60")
    // Its place is before all that is remembered; its applied position lags only by what came since.
    #expect(behind[0].durableLagMilliseconds == nil && behind[0].appliedLagMilliseconds == 0)
    let later = try board(&paths, [live], entry, end: 70, now: 12_000_000)
    #expect(later[0].appliedLagMilliseconds == 3_000)
    let givenUp = try board(
      &paths, [live], entry, end: 70, now: 12_000_000, givenUp: [.init(WorkerName(.peer, "store"), "hq.erp")])
    #expect(givenUp[0].state == .givenUp && !givenUp[0].isWell(lagMilliseconds: 60_000))
    // The distance between two histories is not known.
    live.problem = NodeStatus.Problem(code: "trail-forked", message: "", hint: "", times: 1)
    let forked = try board(&paths, [live], entry, end: 70, now: 13_000_000)
    #expect(forked[0].behindBytes == nil && forked[0].durableLagMilliseconds == nil && !forked[0].durable.isEmpty)
    live.problem = nil
    #expect(try board(&paths, [live], entry, end: 50, now: 14_000_000)[0].behindBytes == 90)
    // A part of what it lacks was deleted.
    let gone = PeerRegistry.Entry(id: "", segment: 0, offset: 90, seenAt: 5_000_000)
    #expect(try board(&paths, [live], gone, end: 70, now: 15_000_000)[0].behindBytes == nil)
    let ahead = PeerRegistry.Entry(id: "", segment: 2, offset: 71, seenAt: 5_000_000)
    #expect(try board(&paths, [live], ahead, end: 70, now: 15_000_000)[0].behindBytes == nil)
  }

  @Test func `a problem of a transfer is reported once, and when it is over`() {
    var notes = TransferNotes()
    let down = CairnError(.peerUnreachable, "cannot reach hq:7420: refused", hint: "wait")
    #expect(notes.note(["hq.erp": down]).map(\.text) == ["trail hq.erp: cannot reach hq:7420: refused"])
    #expect(notes.note(["hq.erp": down]).isEmpty)
    #expect(notes.note([:]).map(\.text) == ["trail hq.erp continues"])
    #expect(notes.note([:]).isEmpty)
    let forked = CairnError(.trailForked, "trail hq.erp has two histories", hint: "look")
    #expect(notes.note(["hq.erp": forked]).map(\.text) == ["trail hq.erp has two histories"])
    // The same words with another code mean something else: this pump waits, and that one has stopped.
    let elsewhere = CairnError(.trailElsewhere, forked.message, hint: forked.hint)
    #expect(notes.note(["hq.erp": elsewhere]).map { $0.error?.code } == [.trailElsewhere])
    #expect(notes.note(["hq.erp": forked]).map { $0.error?.code } == [.trailForked])
  }
}
