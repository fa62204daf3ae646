import Changes
import Steering
import Testing

@testable import Serving

/// The reports of a listener about peers that connect.
@Suite struct PeerContactsTests {
  private let book = PeerContacts()
  private let trail = TrailName(origin: "shop", name: "pos")

  private func bring(_ problem: NodeStatus.Problem? = nil, now: Int64) {
    book.begin("shop", trail, .received, now: now)
    book.end("shop", trail, .received, bytes: 10, problem: problem, now: now)
  }

  @Test func `a full disk is reported at the receiver until bytes pass, also when a connection breaks meanwhile`() {
    let full = NodeStatus.Problem(code: "disk-full", message: "no room", hint: "make some", times: 1)
    var notes = TransferNotes()
    bring(now: 0)
    #expect(book.problems.isEmpty && notes.note(book.problems).isEmpty)
    bring(full, now: 1)
    book.begin("shop", trail, .received, now: 2)
    book.abandon("shop", trail, .received, bytes: 5)
    #expect(book.problems["shop.pos from shop"]?.code == .diskFull)
    #expect(notes.note(book.problems).map(\.text) == ["trail shop.pos from shop: no room"])
    #expect(notes.note(book.problems).isEmpty)
    #expect(book.paths(now: 3).first?.state == .failed)
    bring(now: 4)
    #expect(notes.note(book.problems).map(\.text) == ["trail shop.pos from shop continues"])
    #expect(book.paths(now: 5).first?.state == .connected && book.paths(now: 5).first?.bytes == 35)
  }

  @Test func `a copy that never began leaves no row, but the report that it has no room stays`() {
    bring(now: 0)
    book.begin("shop", trail, .received, now: 1)
    book.forget("shop", trail, .received)
    #expect(book.paths(now: 2).count == 1)
    book.abandon("shop", trail, .received, bytes: 0)
    book.forget("shop", trail, .received)
    #expect(book.paths(now: 2).isEmpty)
    bring(NodeStatus.Problem(code: "disk-budget", message: "no room", hint: "make some", times: 1), now: 3)
    book.forget("shop", trail, .received)
    #expect(book.problems.count == 1)
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
    book.end("shop", trail, .served, bytes: 0, problem: nil, now: 60 * second)
    #expect(book.peersNow(now: 60 * second) == 0)
  }
}
