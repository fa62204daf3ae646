import Changes
import Conflicts
import TestServers
import Testing

@testable import Versions

/// The id of the trail with a name, in these tests.
private func trailID(_ name: String) -> TrailID? {
  TrailID((Array(name.utf8) + Array(repeating: 0, count: 16)).prefix(16))
}

private func known(_ name: String, _ number: UInt64) -> TransactionHeader.Dependency {
  .init(origin: name, number: number, id: trailID(name))
}

/// Transactions of three origins that know of each other what they happen to, each of one row.
private struct Histories {
  struct Transaction {
    var stamp: VersionStamp
    var seen: [String: UInt64]
    var row: Int64

    var place: VersionPlace {
      VersionPlace(stamp: stamp, begin: Position(segment: 1, offset: stamp.number))
    }
    var version: RowVersion { RowVersion(stamp, seen: seen, .insert([])) }
    var dependencies: [TransactionHeader.Dependency] {
      seen.map { known($0.key, $0.value) }
    }
  }

  static let names = ["a.db", "b.db", "c.db"]
  var random: Seeded
  var made: [[Transaction]] = [[], [], []]

  mutating func make(_ origin: Int) {
    var (seen, clock) = (made[origin].last?.seen ?? [:], made[origin].last?.stamp.clock ?? 0)
    for other in 0..<3 where other != origin && random.below(2) == 0 {
      let known = seen[Self.names[other]] ?? 0
      let more = min(UInt64(made[other].count), known + UInt64(random.below(6)))
      if more > 0 {
        seen[Self.names[other]] = more
        clock = max(clock, made[other][Int(more) - 1].stamp.clock)
        // Who knows a transaction knows what that one knew.
        for (name, number) in made[other][Int(more) - 1].seen where name != Self.names[origin] {
          seen[name] = max(seen[name] ?? 0, number)
        }
      }
    }
    let stamp = VersionStamp(
      clock: clock + 1 + UInt64(random.below(3)), origin: Self.names[origin],
      number: UInt64(made[origin].count + 1))
    made[origin].append(Transaction(stamp: stamp, seen: seen, row: Int64(random.below(3))))
  }
}

@Suite struct WindowIndexTests {
  private func index(_ names: [String] = Histories.names, spillRows: Int = 1000) throws
    -> WindowIndex
  {
    var index = WindowIndex(own: names[0], spillRows: spillRows)
    for name in names.dropFirst() { index.add(name) }
    for name in names { if let id = trailID(name) { _ = index.identify(name, id) } }
    for name in names { try index.endReading(name, through: 0) }
    return index
  }

  private func stamp(_ origin: String, _ number: UInt64) -> VersionStamp {
    VersionStamp(clock: number, origin: origin, number: number)
  }

  private func place(_ origin: String, _ number: UInt64) -> VersionPlace {
    VersionPlace(stamp: stamp(origin, number), begin: .start)
  }

  @Test(arguments: 1...30)
  func `a row keeps what the history of it keeps`(seed: Int) throws {
    var histories = Histories(random: Seeded(UInt64(seed)))
    var index = try index(spillRows: seed % 2 == 0 ? 8 : 1000)
    var model: [Int64: RowHistory] = [:]
    var (taken, settled) = ([0, 0, 0], [0, 0, 0])
    for step in 0..<400 {
      let origin = histories.random.below(3)
      switch histories.random.below(8) {
      case 0...2: histories.make(origin)
      case 3...5 where taken[origin] < histories.made[origin].count:
        let one = histories.made[origin][taken[origin]]
        index.learn(one.stamp.origin, number: one.stamp.number, clock: one.stamp.clock, knew: one.dependencies)
        let row = rowName(one.row)
        #expect(
          try index.concurrent(row, with: one.stamp, seen: one.seen).map(\.stamp)
            == (model[one.row] ?? RowHistory()).versions.filter {
              !one.version.follows($0) && $0.stamp != one.stamp
            }
            .map(\.stamp))
        try index.note(row, one.place)
        model[one.row, default: RowHistory()].add(one.version)
        taken[origin] += 1
      case 6:
        index.forgetMet(Histories.names[origin])
        taken[origin] = settled[origin]
      default:
        index.settle(Histories.names[origin])
        settled[origin] = taken[origin]
        try index.sweep()
        for row in model.keys {
          model[row]?.forget { stamp in
            (0..<3).allSatisfy { other in
              Histories.names[other] == stamp.origin
                || settled[other] > 0
                  && histories.made[other][settled[other] - 1].seen[stamp.origin] ?? 0
                    >= stamp.number
            }
          }
        }
        for row in Int64(0)..<3 {
          let kept = model[row]?.versions.map(\.stamp) ?? []
          #expect(
            try index.versions(rowName(row)).map(\.stamp) == kept, "seed \(seed), step \(step)")
        }
        #expect(index.count == model.values.reduce(0) { $0 + $1.versions.count })
        for origin in 0..<3 {
          let first = model.values.flatMap(\.versions).map(\.stamp).filter {
            $0.origin == Histories.names[origin]
          }
          .map(\.number).min()
          #expect(try index.oldest(of: Histories.names[origin])?.number == first)
        }
      }
    }
  }

  @Test(arguments: 1...12)
  func `a delete unknown to an author that referred to the row is reported for as long as it is kept`(seed: Int) throws
  {
    var histories = Histories(random: Seeded(UInt64(seed)))
    var index = try index(spillRows: seed % 2 == 0 ? 8 : 1000)
    var taken = [0, 0, 0]
    /// Every other transaction refers to its row, the others delete it.
    func refers(_ one: Histories.Transaction) -> Bool { one.stamp.number % 2 == 0 }
    func isReferred(_ delete: Histories.Transaction) -> Bool {
      zip(histories.made, taken).contains { made, count in
        made.prefix(count).contains {
          refers($0) && $0.row == delete.row && $0.version.isConcurrent(with: delete.version)
        }
      }
    }
    for step in 0..<150 {
      let origin = histories.random.below(3)
      if histories.random.below(2) == 0 { histories.make(origin) }
      if taken[origin] < histories.made[origin].count {
        let one = histories.made[origin][taken[origin]]
        index.learn(one.stamp.origin, number: one.stamp.number, clock: one.stamp.clock, knew: one.dependencies)
        taken[origin] += 1
        let row = rowName(one.row)
        try index.note(refers(one) ? row.reference : row, one.place)
      }
      if histories.random.below(4) == 0 {
        for name in Histories.names { index.settle(name) }
        try index.sweep()
      }
      for row in Int64(0)..<3 {
        for version in try index.versions(rowName(row)) {
          let made = histories.made[Histories.names.firstIndex(of: version.stamp.origin) ?? 0]
          let delete = made[Int(version.stamp.number) - 1]
          #expect(
            try index.isReferred(rowName(row), beside: delete.stamp, seen: delete.seen) == isReferred(delete),
            "seed \(seed), step \(step)")
        }
      }
    }
    // Each learns of all.
    for name in Histories.names {
      let all = zip(Histories.names, histories.made).filter { $0.0 != name }.map {
        known($0, UInt64($1.count))
      }
      index.learn(name, number: 1000, clock: .max, knew: all)
      index.settle(name)
    }
    try index.sweep()
    #expect(index.count == 0)
  }

  @Test func `a rollback teaches nothing`() throws {
    var index = try index(["a.db", "b.db"])
    try index.note(rowName(1), place("a.db", 1))
    index.settle("a.db")
    index.learn("b.db", number: 2, clock: 2, knew: [known("a.db", 1)])
    index.forgetMet("b.db")
    index.settle("b.db")
    try index.sweep()
    #expect(index.count == 1)
    index.learn("b.db", number: 2, clock: 2, knew: [known("a.db", 1)])
    index.settle("b.db")
    try index.sweep()
    #expect(index.count == 0)
  }

  @Test func `nothing is forgotten that a table which waits may meet`() throws {
    var index = try index(["a.db", "b.db"])
    index.learn("b.db", number: 4, clock: 4, knew: [])
    index.hold("b.db", through: 4)
    try index.note(rowName(1), place("a.db", 1))
    index.learn("b.db", number: 9, clock: 9, knew: [known("a.db", 1)])
    index.settle("b.db")
    try index.sweep()
    #expect(index.count == 1)
    index.hold("b.db", through: nil)
    try index.sweep()
    #expect(index.count == 0)
  }

  @Test func `a peer that has never written keeps all`() throws {
    var index = try index()
    for number in UInt64(1)...50 {
      index.learn("a.db", number: number, clock: number + 1, knew: [known("b.db", number)])
      index.learn("b.db", number: number, clock: number + 1, knew: [known("a.db", number)])
      for name in ["a.db", "b.db"] {
        try index.note(rowName(Int64(number)), place(name, number))
        index.settle(name)
      }
      try index.sweep()
    }
    #expect(index.count == 100)
    index.learn("c.db", number: 1, clock: 60, knew: ["a.db", "b.db"].map { known($0, 50) })
    index.settle("c.db")
    try index.sweep()
    #expect(index.count == 0)
  }

  @Test func `a claim to know what is still to be written makes no node forget it`() throws {
    for spillRows in [1, 1000] {
      var index = try index(spillRows: spillRows)
      // With clock 5, c claims to know all that b will ever write.
      index.learn("c.db", number: 1, clock: 5, knew: ["a.db", "b.db"].map { known($0, 4_000_000_000) })
      index.settle("c.db")
      for number in UInt64(1)...9 {
        index.learn("b.db", number: number, clock: number, knew: [])
        for row in [1, 2, Int64(10 + number)] { try index.note(rowName(row), place("b.db", number)) }
        index.learn("a.db", number: number, clock: number + 1, knew: [known("b.db", number)])
        for name in ["a.db", "b.db"] { index.settle(name) }
        try index.sweep()
      }
      // b itself knows nothing of a, which has no versions.
      for row in Int64(11)...14 { #expect(try index.versions(rowName(row)).isEmpty) }
      for row in Int64(15)...19 { #expect(try index.versions(rowName(row)).count == 1) }
      let lie = VersionStamp(clock: 6, origin: "c.db", number: 2)
      let concurrent = try index.concurrent(rowName(1), with: lie, seen: ["b.db": 4_000_000_000])
      #expect(concurrent.map(\.stamp.number).suffix(4) == [6, 7, 8, 9])
      // Its later writes show that it may know them now.
      index.learn("c.db", number: 3, clock: 20, knew: [])
      index.settle("c.db")
      try index.sweep()
      #expect(index.count == 0)
    }
  }

  @Test func `a version is noted once, and itself is no conflict`() throws {
    var index = try index()
    for _ in 0..<3 {
      for number in UInt64(1)...3 { try index.note(rowName(1), place("b.db", number)) }
    }
    #expect(index.count == 3)
    #expect(try index.concurrent(rowName(1), with: stamp("b.db", 3), seen: [:]).isEmpty)
    #expect(
      try index.concurrent(rowName(1), with: stamp("b.db", 2), seen: [:]).map(\.stamp.number) == [3]
    )
    #expect(
      try index.concurrent(rowName(1), with: VersionStamp(clock: 2, origin: "c.db", number: 1), seen: ["b.db": 1]).map(
        \.stamp.number) == [2, 3])
    // No author knew a transaction whose clock is not earlier.
    #expect(
      try index.concurrent(rowName(1), with: VersionStamp(clock: 2, origin: "c.db", number: 1), seen: ["b.db": 9]).map(
        \.stamp.number) == [2, 3])
    #expect(try index.concurrent(rowName(2), with: stamp("c.db", 1), seen: [:]).isEmpty)
  }

  @Test func `versions of a table that waited find their place`() throws {
    for spillRows in [4, 1000] {
      var index = try index(["a.db", "b.db"], spillRows: spillRows)
      for number in [UInt64(5), 6, 9, 2, 3, 7, 1] {
        try index.note(rowName(Int64(number) % 3), place("b.db", number))
      }
      #expect(try index.oldest(of: "b.db")?.number == 1)
      #expect(index.isSpilled == (spillRows == 4))
      index.learn("a.db", number: 1, clock: 10, knew: [known("b.db", 6)])
      index.settle("a.db")
      try index.sweep()
      #expect(try index.oldest(of: "b.db")?.number == 7)
      #expect(!index.isSpilled)
      #expect(index.count == 2)
    }
  }

  @Test func `steps that are left out only make an origin know less`() {
    var steps = KnowledgeSteps()
    for number in UInt64(1)...20_000 { steps.add(number * 2, clock: number, knows: number * 3) }
    for number in stride(from: UInt64(0), through: 41_000, by: 7) {
      #expect(steps.known(at: number) <= min(number / 2, 20_000) * 3)
    }
    #expect(steps.known(at: 40_000) == 60_000)
    #expect(steps.known(at: 30_000) > 40_000)
    steps.forget(before: 39_000)
    #expect(steps.known(at: 40_000) == 60_000)
    #expect(steps.known(at: 39_000) > 57_000)
  }

  // MARK: Trails that are begun again

  @Test func `the knowledge of an author counts if it is of the trail that is here`() throws {
    let ids = try (0..<3).map { try #require(TrailID(Array(repeating: UInt8($0), count: 16))) }
    var index = WindowIndex(own: "a.db", spillRows: 1000)
    for name in ["b.db", "c.db"] { index.add(name) }
    func seen(_ index: inout WindowIndex, _ known: (String, UInt64, TrailID?)...) -> [String: UInt64] {
      let known = known.map { TransactionHeader.Dependency(origin: $0.0, number: $0.1, id: $0.2) }
      return index.seen(TransactionHeader(commitTime: 0, dependencies: known))
    }
    let identified1 = index.identify("b.db", ids[1])
    #expect(identified1)
    #expect(seen(&index, ("b.db", 20, ids[0]), ("b.db", 2, ids[1])) == ["b.db": 2], "beside the trail before")
    #expect(seen(&index, ("b.db", 20, ids[0])).isEmpty)
    #expect(seen(&index, ("b.db", 20, nil)).isEmpty, "of any trail of that name")
    #expect(seen(&index, ("a.db", 20, ids[0])).isEmpty, "the own trail has not begun")
    let identified2 = index.identify("a.db", ids[0])
    #expect(identified2)
    #expect(seen(&index, ("a.db", 20, ids[0])) == ["a.db": 20])
    let identified3 = index.identify("a.db", ids[1])
    #expect(!identified3, "another trail under the same name")
    // The trail of c has not come; a trail that other nodes name is taken for it.
    #expect(seen(&index, ("c.db", 5, ids[1])) == ["c.db": 5])
    #expect(seen(&index, ("c.db", 7, ids[2])).isEmpty)
    let identified4 = index.identify("c.db", ids[2])
    #expect(!identified4)
    let identified5 = index.identify("c.db", ids[1])
    #expect(identified5)
  }
}
