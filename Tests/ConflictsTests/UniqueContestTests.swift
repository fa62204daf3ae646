import Changes
@testable import Conflicts
import TestServers
import Testing

/// A row with two columns that are unique, each by itself; nil: NULL, which all may have.
private struct Item: Hashable {
  var key: Int
  var values: [Int?]

  func isInTheWay(of other: Item) -> Bool { zip(values, other.values).contains { $0 != nil && $0 == $1 } }
}

/// A write to a row; no item: it deleted the row.
private struct Write {
  var key: Int
  var item: Item?
  var rank: UniqueRank
}

/// A node to which writes come in any order.
private final class Table: UniqueContest {
  var standing: [Int: Item] = [:]
  var waiting: [Int: UniqueConflict<Item>] = [:]
  /// The last write to each row.
  private var ranks: [Int: UniqueRank] = [:]
  /// Rows whose history is forgotten, or not known yet.
  var unknown: Set<Int> = []

  /// The number of calls of ``rows(inTheWayOf:)``.
  var reads = 0

  func rows(inTheWayOf row: Item) -> [Item] {
    reads += 1
    return standing.values.filter { $0.key != row.key && $0.isInTheWay(of: row) }.sorted { $0.key < $1.key }
  }

  func mark(of row: Item) -> RowMark {
    RowMark(UInt64(row.key), row.values.reduce(0) { $0 * 9 + UInt64($1.map { $0 + 1 } ?? 0) })
  }

  func rank(of row: Item, against _: UniqueConflict<Item>) -> UniqueRank? {
    unknown.contains(row.key) ? nil : ranks[row.key]
  }

  func settle(_ claim: UniqueConflict<Item>, insteadOf others: [(row: Item, rank: UniqueRank)]) -> Bool {
    for other in others {
      standing[other.row.key] = nil
      waiting[other.row.key] = UniqueConflict(other.row, other.rank, isNew: false)
    }
    waiting[claim.row.key] = nil
    standing[claim.row.key] = claim.row
    return true
  }

  func note(_ claim: UniqueConflict<Item>, waitsFor _: (row: Item, rank: UniqueRank?)) {}

  func wait(_ claim: UniqueConflict<Item>) {
    waiting[claim.row.key] = UniqueConflict(claim.row, claim.rank, isNew: false, earlier: claim.earlier)
  }

  func take(_ write: Write) {
    if let rank = ranks[write.key], rank > write.rank { return }
    ranks[write.key] = write.rank
    unknown.remove(write.key)
    (standing[write.key], waiting[write.key]) = (nil, nil)
    guard let item = write.item else { return }
    if rows(inTheWayOf: item).isEmpty {
      standing[write.key] = item
    } else {
      waiting[write.key] = UniqueConflict(item, write.rank, isNew: true)
    }
  }

  func judge() throws { _ = try judge(Array(waiting.values)) }

  /// Forgets what is older than all that is still to come.
  func forget(before rank: UniqueRank?) {
    for (key, known) in ranks where rank.map({ known < $0 }) ?? true { unknown.insert(key) }
  }

  /// From the latest row to the earliest.
  static func decided(_ writes: [Write]) -> [Int: Item] {
    let last = Dictionary(grouping: writes, by: \.key).compactMapValues { $0.max { $0.rank < $1.rank } }
    var standing: [Int: Item] = [:]
    for write in last.values.sorted(by: { $0.rank > $1.rank }) {
      guard let item = write.item, !standing.values.contains(where: { $0.isInTheWay(of: item) }) else { continue }
      standing[item.key] = item
    }
    return standing
  }
}

@Suite struct UniqueContestTests {
  private static func rank(_ clock: Int) -> UniqueRank {
    UniqueRank(VersionStamp(clock: UInt64(clock), origin: "n\(clock % 3).shop", number: UInt64(clock)), tie: 0)
  }

  private static func item(_ key: Int, _ random: inout Seeded) -> Item {
    Item(
      key: key, values: (0..<2).map { _ in Bool.random(using: &random) ? Int.random(in: 0..<3, using: &random) : nil })
  }

  @Test("which rows stand is the same in whatever order they come, and whatever is forgotten", arguments: 0..<20)
  func anyOrder(_ part: UInt64) throws {
    for seed in part * 100..<part * 100 + 100 {
      var random = Seeded(seed)
      var clock = 0
      var all: [Write] = []
      for _ in 0..<24 {
        clock += Int.random(in: 1...3, using: &random)
        let key = Int.random(in: 0..<7, using: &random)
        let isDelete = Int.random(in: 0..<4, using: &random) == 0
        all.append(Write(key: key, item: isDelete ? nil : Self.item(key, &random), rank: Self.rank(clock)))
      }
      let table = Table()
      var coming = all.shuffled(using: &random)
      while !coming.isEmpty {
        for _ in 0..<Int.random(in: 1...3, using: &random) where !coming.isEmpty { table.take(coming.removeLast()) }
        try table.judge()
        table.forget(before: coming.map(\.rank).min())
        guard Int.random(in: 0..<5, using: &random) == 0 else { continue }
        // A program writes here what its table takes. Its place in time is not known yet, only that it is later than
        // all that has come.
        let known = all.filter { one in !coming.contains { $0.rank == one.rank } }.map(\.rank.stamp.clock).max() ?? 0
        let item = Self.item(Int.random(in: 7..<9, using: &random), &random)
        let rank = UniqueRank(VersionStamp(clock: known, origin: "n9.shop", number: UInt64(all.count * 10)), tie: 0)
        guard table.rows(inTheWayOf: item).isEmpty, !all.contains(where: { $0.key == item.key }) else { continue }
        let write = Write(key: item.key, item: item, rank: rank)
        all.append(write)
        table.take(write)
        table.unknown.insert(item.key)
        try table.judge()
        table.unknown.remove(item.key)
      }
      #expect(table.standing == Table.decided(all), "seed \(seed)")
      let rows = Dictionary(grouping: all, by: \.key).compactMap { $1.max { $0.rank < $1.rank }?.item?.key }
      #expect(Set(table.waiting.keys) == Set(rows).subtracting(table.standing.keys), "seed \(seed)")
    }
  }

  @Test("rows in the way are read a few times for each row that waits, not for each pair of rows")
  func linear() throws {
    let (table, count) = (Table(), 300)
    // Rows whose writes all nodes know, and rows that wait for one of them.
    table.take(Write(key: 0, item: Item(key: 0, values: [nil, 0]), rank: Self.rank(1)))
    for key in 1...count {
      table.take(Write(key: key, item: Item(key: key, values: [key, nil]), rank: Self.rank(1 + key)))
      let old = Item(key: 1000 + key, values: [nil, 0])
      table.waiting[old.key] = UniqueConflict(old, Self.rank(0), isNew: false)
    }
    table.forget(before: nil)
    for key in 1...count {
      table.take(Write(key: 2000 + key, item: Item(key: 2000 + key, values: [key, nil]), rank: Self.rank(1000 + key)))
    }
    table.reads = 0
    try table.judge()
    #expect(table.standing.keys.filter { $0 > 2000 }.count == count)
    #expect(table.reads <= 8 * count, "\(table.reads) reads")
  }

  @Test("a row that comes back moves an earlier one that was there meanwhile, and the one behind that comes back")
  func chain() throws {
    let table = Table()
    table.take(Write(key: 1, item: Item(key: 1, values: [1, nil]), rank: Self.rank(9)))
    for write in [
      Write(key: 2, item: Item(key: 2, values: [1, 2]), rank: Self.rank(5)),
      Write(key: 3, item: Item(key: 3, values: [3, 2]), rank: Self.rank(4)),
      Write(key: 4, item: Item(key: 4, values: [3, nil]), rank: Self.rank(3)),
    ] {
      table.take(write)
      try table.judge()
    }
    #expect(Set(table.standing.keys) == [1, 3])
    table.take(Write(key: 1, item: nil, rank: Self.rank(10)))
    try table.judge()
    #expect(Set(table.standing.keys) == [2, 4])
  }
}

@Suite struct UniqueRankTests {
  @Test(arguments: [0, 1, NumberBounds.numbers - 2, NumberBounds.numbers - 1, .max])
  func `the next rank is one that can be stored`(
    number: UInt64
  ) {
    let rank = UniqueRank(VersionStamp(clock: 5, origin: "a.b", number: number), tie: 0)
    #expect(NumberBounds.isNumber(rank.next.stamp.number))
    if number < NumberBounds.numbers - 1 { #expect(rank.next > rank) }
  }
}
