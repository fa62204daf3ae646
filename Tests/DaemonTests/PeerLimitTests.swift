import Changes
import Configuring
import Foundation
import Testing

@testable import Daemon

/// The share of a node that one peer may take, as its `[peer.NAME]` says.
@Suite struct PeerLimitTests {
  private static let trail = TrailName(origin: "hq", name: "erp")

  private func inFolder(_ body: (String) throws -> Void) throws {
    let folder = FileManager.default.temporaryDirectory.appending(path: "cairn-limits-\(UUID().uuidString)")
    try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
    defer { try? FileManager.default.removeItem(at: folder) }
    try body(folder.path())
  }

  @Test func `rates of many askers take bounded memory, and no asker gains by another name`() {
    var copies = Allowances(burst: 2, refill: 1_000)
    func taken(_ asker: String, now: Int64) -> Int { (0..<3).count { _ in copies.take(asker, now: now) } }
    for number in 0..<Allowances.most { _ = copies.take("n\(number)", now: 5) }
    #expect(taken("one more", now: 5) == 0 && copies.count == Allowances.most)
    #expect(taken("n7", now: 5) == 1)
    // Those that have rested are forgotten, and lose nothing by it.
    #expect(taken("one more", now: 1_005) == 2 && copies.count == 2)
    #expect(taken("n7", now: 1_005) == 1 && taken("n8", now: 1_005) == 2)
  }

  @Test func `an allowance is so many at once, then one after each pause`() {
    var copies = Allowance(burst: 3, refill: 60)
    let times: [Int64] = [1000, 1000, 1000, 1000, 1059, 1060, 1061, 1120, 1121, 9999, 9999, 9999, 9999]
    let taken = times.map { copies.take(now: $0) }
    #expect(
      taken == [true, true, true, false, false, true, false, true, false, true, true, true, false])
    // A clock that goes back gives nothing, and takes nothing for ever.
    let back = [0, 59, 60].map { copies.take(now: $0) }
    #expect(back == [false, false, true])
  }

  @Test func `a peer that asks without an end is refused, whatever it takes back meanwhile`() throws {
    try inFolder { state in
      let book = RefreshRequests(state: state)
      var taken = 0
      for n in 0..<500 {
        if book.note("a\(n)", Self.trail, ["t"], from: "evil", now: 1_000_000) { taken += 1 }
        book.settle(of: "evil", Self.trail, besides: [])
      }
      #expect(taken == 128)
      // Another peer is not concerned, and this one may ask again later.
      #expect(book.note("b", Self.trail, ["t"], from: "store", now: 1_000_000))
      #expect(book.note("c", Self.trail, ["t"], from: "evil", now: 6_000_000))
    }
  }

  @Test func `requests that were carried out do not grow without bound`() throws {
    try inFolder { state in
      let book = RefreshRequests(state: state)
      for n in 0..<400 {
        let now = Int64(n) * 10_000_000
        #expect(book.note("a\(n)", Self.trail, ["t"], from: "evil", now: now))
        for request in book.open(Self.trail) { book.carriedOut(request) }
      }
      #expect(book.all.count == 256)
      #expect(!book.all.contains { $0.id == "a0" } && book.all.contains { $0.id == "a399" })
      #expect(RefreshRequests(state: state).all.count == 256)
    }
  }

  @Test func `a peer has so many bodies under way, and its own room`() {
    let gate = IntakeGate()
    #expect(gate.begin("evil", most: 2) && gate.begin("evil", most: 2) && !gate.begin("evil", most: 2))
    #expect(gate.begin("store", most: 2))
    gate.end("evil")
    #expect(gate.begin("evil", most: 2))
    _ = gate.isFull(now: 0) { IntakeRoom(peers: ["evil": .init(allowed: 100, held: 90)]) }
    #expect(!gate.isFull(for: "evil") && !gate.isFull(for: "store"))
    gate.note(11, of: "evil")
    #expect(gate.isFull(for: "evil") && !gate.isFull(for: "store"))
    // The next look counts what has come.
    _ = gate.isFull(now: 1000) { IntakeRoom(peers: ["evil": .init(allowed: 100, held: 101)]) }
    #expect(gate.isFull(for: "evil"))
  }

  @Test func `an unfinished transaction counts, however little of it is whole`() {
    // Nothing may be deleted, and nothing of it is applied.
    #expect(IntakeRoom(allowed: 64, held: 113, left: 113, live: 1).isFull(0))
  }

  @Test func `a node that is dialled has the share of a peer`() throws {
    let url = try #require(PeerURL("https://src.example:7420"))
    var conf = Configuration(node: .init(name: "hq", state: "/state"))
    conf.limits.diskBytes = 100
    conf.pumps = [
      .init(name: "a", trails: TrailPatterns(["src.*"]), way: .pull, url: url),
      .init(name: "b", trails: TrailPatterns(["*"]), way: .push, url: url),
    ]
    let share = try #require(conf.shares.first)
    #expect(conf.shares.count == 1 && share.node == "src.example" && share.diskBytes == 50 && share.trails == 1000)
    #expect(share.includes(TrailName(origin: "src", name: "a")) && !share.includes(Self.trail))
    // With a section of its own, that counts, for what it pushes and for what is fetched from it.
    conf.pumps[0].peer = "src"
    var peer = Configuration.Peer(name: "src", push: TrailPatterns(["hq.*"]), pull: TrailPatterns(["none.*"]))
    (peer.diskBytes, peer.trails) = (7, 3)
    conf.peers = [peer]
    let own = try #require(conf.shares.first)
    #expect(conf.shares.count == 1 && own.diskBytes == 7 && own.trails == 3)
    #expect(own.includes(TrailName(origin: "src", name: "a")) && own.includes(Self.trail))
  }

  @Test func `if nothing can be deleted before more has come, a share grows by what is applied`() {
    let share = IntakeRoom.Share(allowed: 100, held: 150, left: 150, live: 60)
    #expect(!share.isFull(10) && share.isFull(11))
    #expect(IntakeRoom.Share(allowed: 100, held: 150, left: 120, live: 60).isFull(0))
    #expect(IntakeRoom(peers: ["a": .init(allowed: 10, held: 20, left: 5)]).isPurgeDue)
    #expect(!IntakeRoom(peers: ["a": .init(allowed: 10, held: 20, left: 20)]).isPurgeDue)
  }
}
