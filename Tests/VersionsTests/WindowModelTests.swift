import Changes
import Conflicts
import TestServers
import Testing

@testable import Versions

/// The store and the index of the window beside plain lists, in random orders.
@Suite struct WindowModelTests {
  private struct Version: Hashable {
    var row: UInt64
    var origin: Int
    var number: UInt64

    var entry: WindowEntry {
      WindowEntry(origin: origin, number: number, clock: number * 2, begin: Position(segment: number, offset: 7))
    }
  }

  /// Rows in one place of the hash table, and rows in others.
  private static let rows: [UInt64] = [0, 64, 128, 192, 1, 65, 1 << 32, 5, 1 << 63, 77]

  @Test("the store has the versions that a list has", arguments: Seeds.range(reduced: 9).map(Int.init))
  func store(seed: Int) throws {
    var random = Seeded(UInt64(seed))
    var store = VersionStore(spillRows: seed % 3 == 0 ? 1 << 20 : seed % 3 == 1 ? 12 : 60)
    var model: Set<Version> = []
    // Versions up to these are removed, and none of them is listed by its transaction again.
    var (floors, next): ([UInt64], [UInt64]) = ([0, 0, 0], [0, 0, 0])
    func of(_ row: UInt64) -> [Version] {
      model.filter { $0.row == row }.sorted { ($0.origin, $1.number) < ($1.origin, $0.number) }
    }
    for step in 0..<300 {
      let (row, origin) = (Self.rows[random.below(Self.rows.count)], random.below(3))
      switch random.below(10) {
      case 0...5:
        // Most transactions come in their order; those of a table that was suspended come later.
        if random.below(3) > 0 { next[origin] += UInt64(random.below(3)) }
        let late = UInt64(random.below(4) == 0 ? random.below(5) : 0)
        let number = max(floors[origin] + 1, next[origin] > late ? next[origin] - late : 0)
        next[origin] = max(next[origin], number)
        let version = Version(row: row, origin: origin, number: number)
        try store.add(row, version.entry)
        model.insert(version)
      case 6:
        guard let old = of(row).first(where: { $0.origin == origin }) else { continue }
        let new = Version(row: row, origin: origin, number: max(next[origin], old.number) + 1)
        next[origin] = new.number
        if try store.replace(of: row, old.entry, by: new.entry) {
          model.remove(old)
          model.insert(new)
        }
      case 7:
        let floor = floors[origin] + UInt64(random.below(4))
        let listed = try Set(store.rows(of: origin, after: floors[origin], through: floor))
        let written = Set(
          model.filter { $0.origin == origin && $0.number > floors[origin] && $0.number <= floor }.map(\.row))
        #expect(listed.isSuperset(of: written), "seed \(seed), step \(step)")
        floors[origin] = floor
        let known = floors.map { KnownFloor(number: $0, clock: .max) }
        for row in Self.rows {
          if random.below(2) == 0, store.remove(row, below: known) {
            #expect(of(row).allSatisfy { $0.number <= floors[$0.origin] }, "seed \(seed), step \(step)")
            model = model.filter { $0.row != row }
          } else {
            try store.remove(of: row) { $0.number <= floors[$0.origin] }
            model = model.filter { $0.row != row || $0.number > floors[$0.origin] }
          }
        }
      case 8: try store.tidy()
      default: break
      }
      #expect(store.count == model.count, "seed \(seed), step \(step)")
      for row in Self.rows {
        var found: [WindowEntry] = []
        try store.forEach(of: row) { found.append($0) }
        let wanted = of(row).map(\.entry)
        try #expect(store.holds(row) == !wanted.isEmpty)
        // Those of one trail are in descending order.
        for origin in 0..<3 {
          #expect(
            found.filter { $0.origin == origin } == wanted.filter { $0.origin == origin }, "seed \(seed), step \(step)")
        }
      }
      for origin in 0..<3 {
        let oldest = model.filter { $0.origin == origin }.map(\.number).min()
        try #expect(store.oldest(of: origin)?.number == oldest, "seed \(seed), step \(step)")
      }
    }
  }

  // MARK: The index

  /// The transactions and versions that the index got, as plain lists.
  private struct Model {
    struct Origin {
      var steps: [[(number: UInt64, clock: UInt64, known: UInt64)]] = [[], [], []]
      var (reached, met): (UInt64, UInt64) = (0, 0)
      var (reachedClock, metClock): (UInt64, UInt64) = (0, 0)
      var held: UInt64?
    }
    struct Noted: Hashable {
      var row: Int64
      var isReference: Bool
      var stamp: VersionStamp
    }
    var origins = [Origin(), Origin(), Origin()]
    var noted: Set<Noted> = []
    /// For each trail, what all nodes knew at each sweep.
    var floors: [[(number: UInt64, clock: UInt64)]] = [[], [], []]

    mutating func sweep() {
      for place in 0..<3 {
        var floor: (number: UInt64, clock: UInt64) = (.max, .max)
        for (index, other) in origins.enumerated() where index != place {
          let border = min(other.reached, other.held ?? .max)
          let step = other.steps[place].last { $0.number <= border } ?? (0, 0, 0)
          let clock = other.held == nil ? max(step.clock, other.reachedClock) : step.clock
          floor = (min(floor.number, step.known), min(floor.clock, clock))
        }
        floors[place].append(floor)
      }
    }

    func isKnownToAll(_ place: Int, _ stamp: VersionStamp) -> Bool {
      floors[place].contains { stamp.number <= $0.number && stamp.clock < $0.clock }
    }
  }

  @Test(
    "the index forgets only what all nodes know, whatever they claim", arguments: Seeds.range(reduced: 12).map(Int.init)
  )
  func index(seed: Int) throws {
    var random = Seeded(UInt64(seed))
    let names = ["a.db", "b.db", "c.db"]
    let ids = names.compactMap { TrailID((Array($0.utf8) + Array(repeating: 0, count: 16)).prefix(16)) }
    var index = WindowIndex(own: names[0], spillRows: seed % 3 == 0 ? 6 : 1000)
    if seed % 2 == 0 { index.keepLasts() }
    for name in names { index.add(name) }
    for (name, id) in zip(names, ids) { _ = index.identify(name, id) }
    for name in names { try index.endReading(name, through: 0) }
    var model = Model()
    var clocks: [UInt64] = [0, 0, 0]
    let lies = seed % 4 == 3
    for step in 0..<200 {
      let origin = random.below(3)
      switch random.below(12) {
      case 0...6:
        let number = model.origins[origin].met + 1
        var knew: [TransactionHeader.Dependency] = []
        for other in 0..<3 where other != origin && random.below(3) > 0 {
          let met = model.origins[other].met
          let known = lies ? UInt64(random.below(Int(met) + 4)) : met > 0 ? UInt64(random.below(Int(met) + 1)) : 0
          guard known > 0 else { continue }
          knew.append(.init(origin: names[other], number: known, id: ids[other]))
          // An author that does not lie has a later clock than all that it knew.
          if !lies { clocks[origin] = max(clocks[origin], clocks[other]) }
        }
        clocks[origin] += 1 + UInt64(random.below(3))
        let stamp = VersionStamp(clock: clocks[origin], origin: names[origin], number: number)
        index.learn(names[origin], number: number, clock: stamp.clock, knew: knew)
        for one in knew {
          guard let other = names.firstIndex(of: one.origin) else { continue }
          if let last = model.origins[origin].steps[other].last, number <= last.number || one.number <= last.known {
            continue
          }
          model.origins[origin].steps[other].append((number, stamp.clock, one.number))
        }
        model.origins[origin].met = number
        model.origins[origin].metClock = stamp.clock
        for _ in 0...random.below(4) {
          let (row, isReference) = (Int64(random.below(5)), random.below(3) == 0)
          let name = isReference ? rowName(row).reference : rowName(row).ended(random.below(4) == 0)
          try index.note(name, VersionPlace(stamp: stamp, begin: Position(segment: number, offset: 0)))
          model.noted.insert(.init(row: row, isReference: isReference, stamp: stamp))
        }
      case 7:
        index.hold(names[origin], through: model.origins[origin].held == nil ? model.origins[origin].reached : nil)
        model.origins[origin].held = model.origins[origin].held == nil ? model.origins[origin].reached : nil
      default:
        index.settle(names[origin])
        model.origins[origin].reached = model.origins[origin].met
        model.origins[origin].reachedClock = model.origins[origin].metClock
        model.sweep()
        try index.sweep()
      }
      for row in Int64(0)..<5 where step % 3 == 0 {
        let all = model.noted.filter { $0.row == row && !$0.isReference }.map(\.stamp).sorted()
        let kept = try index.versions(rowName(row)).map(\.stamp)
        #expect(
          kept == all.filter(kept.contains), "seed \(seed), step \(step): in order, once, and none of another row")
        for stamp in all where !kept.contains(stamp) {
          let place = try #require(names.firstIndex(of: stamp.origin))
          #expect(model.isKnownToAll(place, stamp), "seed \(seed), step \(step): \(stamp) of row \(row) was forgotten")
        }
        let references = model.noted.filter { $0.row == row && $0.isReference }.map(\.stamp).sorted()
        let keptReferences = try index.versions(rowName(row).reference).map(\.stamp)
        #expect(keptReferences == references.filter(keptReferences.contains), "seed \(seed), step \(step)")
        for stamp in references where !keptReferences.contains(stamp) {
          let place = try #require(names.firstIndex(of: stamp.origin))
          // A later reference of the same trail counts for both.
          let isReplaced = references.contains { $0.origin == stamp.origin && $0.number > stamp.number }
          #expect(
            isReplaced || model.isKnownToAll(place, stamp), "seed \(seed), step \(step): a reference was forgotten")
        }
      }
    }
  }

  @Test func `what all nodes know stays known when a later claim has an earlier clock`() {
    var floor = KnownFloor(number: 9, clock: 8)
    let known = WindowEntry(origin: 0, number: 9, clock: 7, begin: .start)
    #expect(floor.includes(known))
    floor.raise(to: KnownFloor(number: 12, clock: 6))
    #expect(floor.includes(known))
    floor.raise(to: KnownFloor(number: 12, clock: 8))
    #expect(floor.number == 12 && floor.includes(known))
    floor.raise(to: KnownFloor(number: 12, clock: 9))
    #expect(floor.clock == 9)
    floor.raise(to: KnownFloor(number: 11, clock: 20))
    #expect(floor == KnownFloor(number: 12, clock: 9))
  }
}
