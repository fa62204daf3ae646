import Changes
import ControlAPI
import Testing

@testable import Daemon

/// The reports of a listener about peers that connect.
@Suite struct PeerContactsTests {
  private let book = PeerContacts()
  private let trail = TrailName(origin: "shop", name: "pos")

  private func bring(
    _ problem: NodeStatus.Problem? = nil, _ peer: String = "shop", _ trail: TrailName? = nil, isHere: Bool = true,
    now: Int64
  ) {
    let trail = trail ?? self.trail
    book.begin(peer, trail, .received, now: now)
    book.end(peer, trail, .received, bytes: 10, problem: problem, isHere: isHere, now: now)
  }

  private func problem(_ code: String) -> NodeStatus.Problem {
    NodeStatus.Problem(code: code, message: "no room", hint: "make some", times: 1)
  }

  @Test func `a full disk is reported at the receiver until bytes pass, also when a connection breaks meanwhile`() {
    var notes = PeerNotes()
    bring(now: 0)
    #expect(book.problems(now: 0).isEmpty && notes.note(book.problems(now: 0), now: 0).isEmpty)
    bring(problem("disk-full"), now: 1)
    book.begin("shop", trail, .received, now: 2)
    book.abandon("shop", trail, .received, bytes: 5, isHere: true, now: 2)
    #expect(book.problems(now: 2)["shop"]?["shop.pos from shop"]?.code == .diskFull)
    #expect(notes.note(book.problems(now: 3), now: 3).map(\.text) == ["trail shop.pos from shop: no room"])
    #expect(notes.note(book.problems(now: 3), now: 3).isEmpty)
    #expect(book.paths(now: 3).first?.state == .failed)
    bring(now: 4)
    #expect(notes.note(book.problems(now: 4), now: 4).map(\.text) == ["trail shop.pos from shop continues"])
    #expect(book.paths(now: 5).first?.state == .connected && book.paths(now: 5).first?.bytes == 35)
  }

  @Test func `a copy that never began leaves no row, but the report that it has no room stays for ten minutes`() {
    bring(now: 0)
    book.begin("shop", trail, .received, now: 1)
    book.begin("shop", trail, .received, now: 1)
    book.abandon("shop", trail, .received, bytes: 0, isHere: false, now: 2)
    #expect(book.paths(now: 2).count == 1)
    book.abandon("shop", trail, .received, bytes: 0, isHere: false, now: 2)
    #expect(book.paths(now: 2).isEmpty)
    bring(problem("disk-budget"), isHere: false, now: 3)
    #expect(book.problems(now: 3).count == 1 && book.paths(now: 599_000_000).count == 1)
    #expect(book.problems(now: 601_000_000).isEmpty && book.paths(now: 601_000_000).isEmpty)
  }

  @Test func `a peer fills no more than its own entries, whatever names it invents`() {
    for number in 0..<100 {
      bring(problem("disk-budget"), "evil", TrailName(origin: "evil", name: "t\(number)"), isHere: false, now: 0)
    }
    #expect(book.paths(now: 1).count == PeerContacts.refusedMax)
    // Those that are no longer tried make room for others.
    for number in 100..<200 {
      let name = TrailName(origin: "evil", name: "t\(number)")
      bring(problem("disk-budget"), "evil", name, isHere: false, now: 700_000_000)
    }
    #expect(book.paths(now: 700_000_000).count == PeerContacts.refusedMax)
    for number in 0..<PeerContacts.entriesMax + 5 {
      book.begin("evil", TrailName(origin: "evil", name: "u\(number)"), .served, now: 700_000_000)
    }
    #expect(book.paths(now: 700_000_000).count == PeerContacts.entriesMax)
    bring(now: 700_000_000)
    #expect(book.paths(now: 700_000_000).contains { $0.peer == "shop" })
  }

  @Test func `problems that a peer causes are logged at a bounded rate, and the last ones in the end`() {
    var notes = PeerNotes()
    func problems(_ number: Int64) -> [NameKey: [String: CairnError]] {
      let error = CairnError(.diskBudget, "no room for \(number)", hint: "", remedy: .retry)
      return [
        "evil": Dictionary(uniqueKeysWithValues: (0..<50).map { ("evil.t\($0) from evil", error) }),
        "good": ["good.pos from good": CairnError(.diskFull, "no room", hint: "", remedy: .retry)],
      ]
    }
    var lines: [String] = []
    for number in 0..<Int64(1000) { lines += notes.note(problems(number), now: number * 250_000).map(\.text) }
    #expect(lines.count { $0.contains("good") } == 1)
    #expect(lines.count <= 1 + 10 * 11)
    #expect(lines.contains("40 more messages about trails of peer 'evil' left out; see 'cairn status'"))
    let last = notes.note(problems(999), now: 400_000_000).map(\.text)
    #expect(last.first == "trail evil.t0 from evil: no room for 999")
  }

  @Test func `who was not heard of for long is not connected, whatever is still to be answered`() {
    let second: Int64 = 1_000_000
    bring(now: 0)
    #expect(book.peersNow(now: 24 * second) == 1)
    #expect(book.paths(now: 26 * second).first?.state == .waiting)
    #expect(book.paths(now: 26 * second).first?.seenAt == 0)
    // A long poll is an answer that takes its time; that it is over is no word of the peer.
    book.begin("shop", trail, .served, now: 30 * second)
    #expect(book.peersNow(now: 60 * second) == 1)
    book.end("shop", trail, .served, bytes: 0, problem: nil, isHere: true, now: 60 * second)
    #expect(book.peersNow(now: 60 * second) == 0)
  }
}
