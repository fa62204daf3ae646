import Conflicts
import Testing

@Suite struct GeneratedKeyTests {
  private func sequence(
    _ increment: Int64 = 1, from start: Int64 = 1, last: Int64? = nil, _ range: ClosedRange<Int64> = 1...(.max)
  ) -> GeneratedKey.Sequence {
    GeneratedKey.Sequence(
      name: "s", increment: increment, start: start, last: last, least: range.lowerBound, greatest: range.upperBound)
  }

  private func key(_ source: GeneratedKey.Source) -> GeneratedKey {
    GeneratedKey(table: "t", column: "id", source: source)
  }

  private func alike(_ one: GeneratedKey.Source, _ other: GeneratedKey.Source) -> Bool {
    #expect(key(one).isAlike(key(other)) == key(other).isAlike(key(one)))
    return key(one).isAlike(key(other))
  }

  @Test func `keys of tables that only look alike are of two tables`() {
    let keys = ["caf\u{e9}", "cafe\u{301}"].map {
      GeneratedKey(table: $0, column: "id", source: .rowid(isMonotonic: true))
    }
    #expect(GeneratedKey.alike([keys[0]], [keys[1]]).isEmpty)
    #expect(GeneratedKey.alike(keys, keys).count == 2)
    #expect(GeneratedKey.commonName(ofTable: "a.\u{301}b").hasSameBytes(as: "a_\u{301}b"))
  }

  @Test func `keys that two databases draw by themselves are alike`() {
    #expect(alike(.rowid(isMonotonic: false), .rowid(isMonotonic: true)))
    #expect(alike(.rowid(isMonotonic: true), .sequence(sequence())))
    #expect(alike(.sequence(sequence()), .sequence(sequence())))
    // A stride at one side does not help, nor does the same one at both.
    #expect(alike(.sequence(sequence(2)), .sequence(sequence())))
    #expect(alike(.sequence(sequence(2, from: 11)), .sequence(sequence(2, from: 1))))
    #expect(alike(.sequence(sequence(4, from: 2)), .sequence(sequence(6, from: 4))))
    // An SQLite file meets every number that goes up.
    #expect(alike(.rowid(isMonotonic: false), .sequence(sequence(2, from: 1))))
  }

  @Test func `keys that were separated are not`() {
    #expect(!alike(.sequence(sequence(2, from: 1)), .sequence(sequence(2, from: 12))))
    #expect(!alike(.sequence(sequence(4, from: 1)), .sequence(sequence(6, from: 4))))
    let below = sequence(-1, from: -1, (.min)...(-1))
    #expect(!alike(.rowid(isMonotonic: false), .sequence(below)) && !alike(.sequence(sequence()), .sequence(below)))
    #expect(alike(.sequence(sequence(1, from: -5, (-5)...5)), .sequence(below)))
    #expect(key(.sequence(below)).isSeparated && key(.sequence(sequence(2))).isSeparated)
    #expect(!key(.sequence(sequence())).isSeparated && !key(.rowid(isMonotonic: true)).isSeparated)
  }

  @Test(arguments: [
    (Int64(1), false, Int64?.none, Int64?.none, Int64(1)), (2, false, nil, nil, 2), (1, false, 10, 10, 13),
    (2, false, 10, 10, 11), (3, false, 10, 10, 12), (3, false, 10, 12, 15), (2, false, 13, 12, 14),
    (1, false, 5, -3, 7),
    (1, true, 500, nil, -1), (2, true, 500, -2, -5), (3, true, nil, -7, -9), (1, true, 500, 4, -1),
  ])
  func `a node of three gets numbers of its own after those that are there`(
    node: Int64, isBelowZero: Bool, last: Int64?, extreme: Int64?, start: Int64
  ) throws {
    let share = try #require(KeyShare(node: node, of: 3, isBelowZero: isBelowZero))
    let own = try #require(share.separated(sequence(last: last), extreme: extreme))
    #expect(own.start == start && own.increment == (isBelowZero ? -3 : 3))
    #expect((own.start - (isBelowZero ? -node : node)) % 3 == 0)
    #expect(own.least <= start && start <= own.greatest)
  }

  @Test func `nodes that were separated are not alike, from whatever numbers they begin`() throws {
    for isBelowZero in [false, true] {
      let own = try (Int64(1)...4).map { node in
        let share = try #require(KeyShare(node: node, of: 4, isBelowZero: isBelowZero))
        let extreme = (node * 37) % 11 * (isBelowZero ? -1 : 1)
        return try #require(share.separated(sequence(last: node * 3), extreme: extreme))
      }
      for one in own.indices {
        for other in own.indices where one != other {
          #expect(!alike(.sequence(own[one]), .sequence(own[other])), "\(own[one]) \(own[other])")
        }
      }
    }
  }

  @Test func `a sequence without numbers left, and nodes that there are not, are refused`() throws {
    let share = try #require(KeyShare(node: 1, of: 2))
    #expect(share.separated(sequence(last: 32767, 1...32767), extreme: nil) == nil)
    #expect(share.separated(sequence(last: 32766, 1...32767), extreme: nil)?.start == 32767)
    #expect(share.separated(sequence(last: .max), extreme: nil) == nil)
    #expect(KeyShare(node: 0, of: 2) == nil && KeyShare(node: 3, of: 2) == nil && KeyShare(node: 1, of: 0) == nil)
  }

  @Test(arguments: [
    (Int64(2), Int64(1), Int64(10), Int64?(11)), (2, 1, 11, 13), (2, 20, 11, 20), (-2, -1, -4, -5), (-2, -1, 3, -1),
    (1, 1, .max, nil),
  ])
  func `the next number after those that came is one of its own`(
    increment: Int64, start: Int64, floor: Int64, next: Int64?
  ) {
    let range = increment > 0 ? 1...Int64.max : (Int64.min)...(-1)
    #expect(sequence(increment, from: start, range).next(behind: floor) == next)
  }

  @Test func `tables are the same by the names that they have in either engine`() {
    let files = ["item", "Sales_Orders", "notes"].map {
      GeneratedKey(table: $0, column: "ID", source: .rowid(isMonotonic: false))
    }
    let server = [("public", "item"), ("sales", "orders"), ("other", "notes")].map {
      GeneratedKey(namespace: $0, table: $1, column: "id", source: .sequence(sequence()))
    }
    #expect(GeneratedKey.alike(files, server).map { $0.1.fullName } == ["item", "sales.orders"])
    #expect(GeneratedKey.alike(server, files).map { $0.1.fullName } == ["item", "Sales_Orders"])
    #expect(GeneratedKey.alike(files, []).isEmpty)
  }
}
