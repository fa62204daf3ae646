import Changes
import Testing

@testable import Comparing

struct NarrowingTests {
  private struct Row {
    let key: Int64?
    let hash: UInt64
    init(_ key: Int64?, _ hash: UInt64) { (self.key, self.hash) = (key, hash) }
  }

  private func mark(_ row: Row, _ take: (borrowing RowMark) -> Void) {
    var key = ByteWriter()
    if let number = row.key { key.appendInteger(number) }
    take(
      RowMark(
        keyHash: row.key.map { UInt64($0) } ?? row.hash, rowHash: row.hash, bytes: 10,
        key: UnsafeRawBufferPointer(rebasing: key.bytes[..<key.count])))
  }

  /// `source key / target key` of each suspect in order, `whole HASH` of those without one.
  private func suspects(_ source: [Row], _ target: [Row], isUnique: Bool = false) -> [String] {
    var narrowing = Narrowing(rows: source.count, isUnique: isUnique)
    var found: [String] = []
    func take(_ suspect: Suspect) {
      func shown(_ key: [Value]?) -> String { key.map { $0.map(\.shown).joined(separator: ",") } ?? "-" }
      found.append(
        suspect.isKeyed ? "\(shown(suspect.sourceKey)) / \(shown(suspect.targetKey))" : "whole \(suspect.hash)")
    }
    for row in source { mark(row) { narrowing.takeSource($0) } }
    for row in target {
      mark(row) { narrowing.takeTarget($0) }
      narrowing.drain(take)
    }
    narrowing.finish(take)
    return found.sorted()
  }

  @Test func `missing, extra and different rows are suspects, equal ones are not`() {
    let source = [Row(1, 100), Row(2, 200), Row(3, 300)]
    let target = [Row(1, 100), Row(2, 201), Row(4, 400)]
    for isUnique in [false, true] {
      #expect(suspects(source, target, isUnique: isUnique) == ["- / 4", "2 / 2", "3 / -"])
    }
  }

  @Test func `several rows of one key at the target are one suspect`() {
    let source = [Row(1, 100), Row(2, 200)]
    let target = [Row(1, 100), Row(1, 100), Row(2, 201), Row(2, 200), Row(3, 300), Row(3, 301), Row(1, 101)]
    #expect(suspects(source, target) == ["- / 3", "1 / 1", "2 / 2"])
  }

  @Test func `rows without a key are counted`() {
    let source = [Row(nil, 7), Row(nil, 7), Row(nil, 8), Row(nil, 9)]
    let target = [Row(nil, 8), Row(nil, 7), Row(nil, 6), Row(nil, 9)]
    #expect(suspects(source, target) == ["whole 6", "whole 7"])
  }

  @Test func `a list gives back the suspects that it holds`() {
    var list = SuspectList()
    list.append(Suspect(hash: 1, sourceKey: [.integer(-5), .text(Array("a".utf8))], rowBytes: 3))
    list.append(Suspect(hash: 2, targetKey: [.exact([]), .null]))
    list.append(Suspect(hash: 3))
    #expect(list.count == 3)
    #expect(list[0].sourceKey == [.integer(-5), .text(Array("a".utf8))])
    #expect(list[0].targetKey == nil && list[0].rowBytes == 3)
    #expect(list[1].targetKey == [.exact([]), .null])
    #expect(list[2].hash == 3 && !list[2].isKeyed)
  }

  @Test func `only the rows that are asked for are counted, and shown`() {
    let counts = RowCounts([3, 5, 90])
    for hash: UInt64 in [90, 4, 3, 90, 91, 1] { counts.add(hash) { [.integer(Int64(hash)), .null] } }
    #expect([3, 4, 5, 90].map { counts[$0] } == [1, 0, 0, 2])
    #expect(counts.row(90) == [.integer(90), .null] && counts.row(5) == nil && counts.row(91) == nil)
    counts.forgetRows()
    #expect(counts[90] == 2 && counts.row(90) == nil)
  }
}
