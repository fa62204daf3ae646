import Changes
import PostgresKit
import Testing

@testable import Capturing

@Suite struct ChunkPlaceTests {
  private func chunk(_ snapshot: String, end: UInt64) throws -> PostgresChunk {
    PostgresChunk(
      table: Shapes.table(1, "t"), part: .next, snapshot: try #require(PostgresSnapshot(snapshot)), stored: nil,
      end: LSN(end))
  }

  private func placed(_ place: inout ChunkPlace) { if let chunk = place.chunk { place.placed(chunk) } }

  @Test func `a chunk goes before the first transaction that it does not show`() throws {
    var place = ChunkPlace()
    place.open(try chunk("100:105:102", end: 900))
    #expect(!place.isEmpty && !place.isDue(before: 101) && place.isDue(before: 102) && place.isDue(before: 105))
    placed(&place)
    #expect(place.isDue(before: 102) == false, "it is placed once")
    place.pass(102)
    #expect(place.next(received: LSN(899)) == .nothing && place.next(received: LSN(900)) == .end)
    #expect(place.take()?.isRaced == false)
    #expect(place.isEmpty && place.take() == nil)
  }

  @Test func `a chunk is placed at the latest when all that it shows has arrived`() throws {
    var place = ChunkPlace()
    #expect(place.next(received: LSN(1000)) == .nothing && !place.isDue(before: 1))
    place.open(try chunk("100:105:", end: 900))
    place.pass(101)
    #expect(place.next(received: LSN(900)) == .place)
    placed(&place)
    #expect(place.next(received: LSN(900)) == .end)
    #expect(place.take()?.isRaced == false)
  }

  @Test func `a chunk is raced if a transaction that it shows comes after it`() throws {
    var place = ChunkPlace()
    place.open(try chunk("100:105:102", end: 900))
    placed(&place)
    place.pass(103)
    #expect(place.take()?.isRaced == true)
    place.open(try chunk("100:105:102", end: 900))
    placed(&place)
    #expect(place.take()?.isRaced == false, "the next chunk is not")
    place.open(try chunk("100:105:102", end: 900))
    place.drop()
    #expect(place.isEmpty && place.next(received: LSN(900)) == .nothing)
  }

  /// The model: transactions commit in the order of the stream; the snapshot shows some of those before its end.
  @Test(arguments: 0..<60) func `a chunk that is not raced is exact at its place`(_ seed: Int) throws {
    var random = SeededRandom(UInt64(seed))
    let count = Int.random(in: 1...12, using: &random)
    let order = (0..<count).map { UInt64(100 + $0) }.shuffled(using: &random)
    // Visible are those that committed first, except for one that became visible later, or earlier.
    let border = Int.random(in: 0...count, using: &random)
    var shown = Set(order.prefix(border))
    if Int.random(in: 0..<3, using: &random) == 0, let other = order.randomElement(using: &random) {
      if shown.remove(other) == nil { shown.insert(other) }
    }
    let hidden = order.filter { !shown.contains($0) }.sorted()
    let last = order.lastIndex { shown.contains($0) } ?? -1
    let snapshot = "\(hidden.first ?? 200):200:\(hidden.map(String.init).joined(separator: ","))"
    var place = ChunkPlace()
    // The end of the log when the snapshot was taken: everything shown had committed.
    let end = LSN(UInt64(1000 + 10 * (Int.random(in: last...max(last, count - 1), using: &random) + 1)))
    place.open(try chunk(snapshot, end: end.value))
    var before: Set<UInt64>?
    var passed: Set<UInt64> = []
    for (index, xid) in order.enumerated() {
      if place.isDue(before: UInt32(xid)) {
        before = passed
        placed(&place)
      }
      place.pass(UInt32(xid))
      passed.insert(xid)
      let step = place.next(received: LSN(UInt64(1000 + 10 * (index + 1))))
      if step == .place {
        before = passed
        placed(&place)
      }
      guard step != .nothing else { continue }
      let isRaced = place.take()?.isRaced
      #expect(isRaced == (before != shown), "\(order) shows \(shown.sorted()), placed after \(before ?? [])")
      break
    }
  }
}
