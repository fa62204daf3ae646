import Changes
import Foundation
import Testing

@testable import Daemon

/// Copies that are asked for over the network: once for each id, and until they have come.
@Suite struct RefreshRequestsTests {
  private static let trail = TrailName(origin: "hq", name: "erp")

  private func inFolder(_ body: (String) throws -> Void) throws {
    let folder = FileManager.default.temporaryDirectory.appending(path: "cairn-requests-\(UUID().uuidString)")
    try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
    defer { try? FileManager.default.removeItem(at: folder) }
    try body(folder.path())
  }

  @Test func `a request is there after a new start, and is made once`() throws {
    try inFolder { state in
      let book = RefreshRequests(state: state)
      try book.ask(Self.trail, ["orders"], for: "copy", behind: 7, now: 1)
      try book.ask(Self.trail, ["orders"], for: "copy", behind: 7, now: 2)
      try book.ask(Self.trail, [], for: "copy", behind: 7, now: 3)
      #expect(book.all.count == 2)
      #expect(RefreshRequests(state: state).all.sorted { $0.askedAt < $1.askedAt } == book.all)
      book.settle { $0.tables.isEmpty }
      #expect(RefreshRequests(state: state).all.map(\.tables) == [["orders"]])
    }
  }

  @Test func `a request that is taken back while it is carried out is not carried out again`() throws {
    try inFolder { state in
      let book = RefreshRequests(state: state)
      book.note("a1", Self.trail, ["orders"], from: "store", now: 1)
      let request = book.all[0]
      // An older word of the peer comes after the one that asked.
      book.settle(of: "store", Self.trail, besides: [])
      book.carriedOut(request)
      book.note("a1", Self.trail, ["orders"], from: "store", now: 2)
      #expect(book.open(Self.trail).isEmpty)
    }
  }

  @Test func `an id of another node counts once, also when it has been carried out`() throws {
    try inFolder { state in
      let book = RefreshRequests(state: state)
      #expect(book.note("a1", Self.trail, [], from: "store", now: 1))
      #expect(book.note("a1", Self.trail, [], from: "store", now: 2))
      #expect(book.all.count == 1 && book.open(Self.trail).count == 1)
      book.carriedOut(book.all[0])
      let again = RefreshRequests(state: state)
      #expect(again.note("a1", Self.trail, [], from: "store", now: 3))
      #expect(again.open(Self.trail).isEmpty && again.all.map(\.isDone) == [true])
      // A peer that asks no more does not make us forget what was done.
      again.settle(of: "store", Self.trail, besides: [])
      #expect(again.all.count == 1)
      again.forgetOld(now: 9 * 86_400_000_000)
      #expect(again.all.isEmpty)
    }
  }

  @Test func `a request of this node's own comes back over a ring, and counts for nothing`() throws {
    try inFolder { state in
      let book = RefreshRequests(state: state)
      try book.ask(Self.trail, [], for: "copy", behind: 7, now: 1)
      let id = book.all[0].id
      book.settle { _ in true }
      #expect(book.note(id, Self.trail, [], from: "ring", now: 2))
      #expect(book.all.isEmpty)
    }
  }

  @Test func `a request that a peer no longer makes is handed on no more`() throws {
    try inFolder { state in
      let book = RefreshRequests(state: state)
      for id in ["a", "b"] { book.note(id, Self.trail, [], from: "store", now: 1) }
      book.note("c", Self.trail, [], from: "other", now: 1)
      book.settle(of: "store", Self.trail, besides: ["b"])
      #expect(book.open(Self.trail).map(\.id) == ["b", "c"])
    }
  }

  @Test(arguments: ["", "../../etc/passwd", "a/b", "a.b", "a b", String(repeating: "a", count: 65)])
  func `an id that is none is refused`(_ id: String) throws {
    try inFolder { state in
      #expect(!RefreshRequests(state: state).note(id, Self.trail, [], from: "store", now: 1))
    }
  }

  @Test func `a peer has so many open at a time`() throws {
    try inFolder { state in
      let book = RefreshRequests(state: state)
      for number in 0..<RefreshRequests.ofPeerMax { book.note("n\(number)", Self.trail, [], from: "store", now: 1) }
      #expect(!book.note("more", Self.trail, [], from: "store", now: 1))
      #expect(book.note("n1", Self.trail, [], from: "store", now: 1))
      #expect(book.note("more", Self.trail, [], from: "other", now: 1))
    }
  }

  @Test func `it is answered when copies of every table that was meant have begun after it`() {
    var request = RefreshRequests.Request(
      id: "a", trail: "hq.erp", tables: ["orders", "i*"], asker: .apply("x"), askedAt: 1)
    request.behind = 7
    #expect(!request.isAnswered(begun: ["orders": 8], awaitsMore: false))
    #expect(!request.isAnswered(begun: ["orders": 7, "item": 9], awaitsMore: false))
    #expect(request.isAnswered(begun: ["orders": 8, "item": 9], awaitsMore: true))
    request.tables = []
    #expect(!request.isAnswered(begun: [:], awaitsMore: false))
    #expect(!request.isAnswered(begun: ["orders": 8], awaitsMore: true))
    #expect(request.isAnswered(begun: ["orders": 8], awaitsMore: false))
  }
}
