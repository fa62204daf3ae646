import Changes

// The versions that no query can ask for any more, and what the index forgets of the own trail.
extension WindowIndex {
  /// Removes the versions that no later call can need, because every node knows them. Does nothing until all trails
  /// have been read.
  mutating func sweep() throws {
    guard isRead else { return }
    let before = origins.map(\.floor)
    for place in origins.indices { origins[place].floor.raise(to: floor(of: place)) }
    let floors = origins.map(\.floor)
    var rows = Array(late)
    late = []
    if zip(before, floors).contains(where: { $0.clock < $1.clock }) {
      rows += claimed
      claimed = []
    }
    for place in origins.indices where floors[place].number > before[place].number {
      rows += try store.rows(of: place, after: before[place].number, through: floors[place].number)
    }
    // A row that is written continuously is listed once for each of its transactions.
    var left: Set<UInt64> = []
    for row in rows where !left.contains(row) {
      try sweep(row, floors)
      guard try hasReferences || store.holds(row) else { continue }
      left.insert(row)
      try noteClaim(on: row, floors)
    }
    if lasts.isFull {
      let oldest = try origins.indices.compactMap { try store.oldest(of: $0)?.clock }.min()
      lasts.forget(before: oldest ?? .max) { (try? store.holds($0)) ?? true }
    }
    // Everything that comes from now on follows what all nodes know of the own trail, so that part need not be read
    // again.
    skip(to: floors[Self.own])
    guard !rows.isEmpty else { return }
    try store.tidy()
    for place in origins.indices {
      let first = min(try store.oldest(of: place)?.number ?? .max, origins[place].border)
      for other in origins.indices { origins[place].steps[other].forget(before: first) }
    }
  }

  private func floor(of place: Int) -> KnownFloor {
    var floor: KnownFloor?
    for (index, other) in origins.enumerated() where index != place {
      let step = other.steps[place].step(at: other.border)
      let clock = other.held == nil ? max(step.clock, other.reachedClock) : step.clock
      floor = KnownFloor(
        number: min(floor?.number ?? .max, step.known), clock: min(floor?.clock ?? .max, clock))
    }
    guard var floor else { return KnownFloor() }
    floor.number = min(floor.number, understated.lastStated(of: place))
    return floor
  }

  private mutating func skip(to floor: KnownFloor) {
    let reached = origins[Self.own].reached
    guard isOwnOnly, !readsAll, floor.number > reached else { return }
    skipped = Skip(from: skipped?.from ?? reached, floor: floor)
    origins[Self.own].reached = floor.number
  }

  /// Returns false if a node stated falsely that it knew the unread part of this database's own trail. The caller must
  /// then read that part.
  /// - Parameter header: The header of the next transaction that is read from the trail.
  mutating func confirmSkip(_ header: TransactionHeader) -> Bool {
    guard let skip = skipped, header.number == skip.floor.number else { return true }
    skipped = nil
    guard header.clock >= skip.floor.clock else { return true }
    readsAll = true
    origins[Self.own].reached = skip.from
    return false
  }

  private mutating func noteClaim(on row: UInt64, _ floors: [KnownFloor]) throws {
    var isClaimed = false
    try store.forEach(of: row) { entry in
      let floor = floors[entry.origin]
      if entry.number <= floor.number, !floor.includes(entry) { isClaimed = true }
    }
    if isClaimed { claimed.insert(row) }
  }

  private mutating func sweep(_ chain: UInt64, _ floors: [KnownFloor]) throws {
    let row = RowName(hash: chain)
    if lasts.areKept, !row.isReference {
      var before: [WindowEntry] = []
      try store.forEach(of: row.chain) { before.append($0) }
      try sweep(row, floors)
      var left: [WindowEntry] = []
      try store.forEach(of: row.chain) { left.append($0) }
      for entry in before where !left.contains(entry) {
        let end = End(row: row.chain, origin: entry.origin, number: entry.number)
        // If only deletes that do not count are left, the row has the rank of its last write.
        if ends.remove(end) == nil { keepLast(of: row.chain, entry) }
      }
      return
    }
    try sweep(row, floors)
  }

  mutating func keepLasts() { lasts.areKept = true }

  mutating func noteEnd(_ row: RowName, _ entry: WindowEntry) {
    guard lasts.areKept, row.isEnd || !ends.isEmpty else { return }
    let end = End(row: row.chain, origin: entry.origin, number: entry.number)
    if row.isEnd { ends.insert(end) } else { ends.remove(end) }
  }

  mutating func keepLast(of row: UInt64, _ entry: WindowEntry) {
    if let last = lasts[row], !isEarlier(last, entry) { return }
    lasts.keep(entry, of: row)
  }

  private mutating func sweep(_ row: RowName, _ floors: [KnownFloor]) throws {
    // Most rows have no version that is still needed.
    if !store.remove(row.chain, below: floors) { try sweepVersions(row.chain) }
    if hasReferences { try sweepReferences(row) }
  }

  /// Removes the oldest versions of a row that all nodes, and the authors of all remaining versions, know.
  private mutating func sweepVersions(_ row: UInt64) throws {
    var entries: [WindowEntry] = []
    try store.forEach(of: row) { entries.append($0) }
    entries.sort { isEarlier($0, $1) }
    let known = entries.prefix { origins[$0.origin].floor.includes($0) }.count
    guard known > 0 else { return }
    guard known < entries.count else { return try store.remove(of: row) { _ in true } }
    guard let border = border(entries, upTo: known) else { return }
    let last = entries[border - 1]
    let names = origins.map(\.name)
    try store.remove(of: row) { entry in
      (entry.clock, names[entry.origin], entry.number) <= (
        last.clock, names[last.origin], last.number
      )
    }
  }

  private func isEarlier(_ a: WindowEntry, _ b: WindowEntry) -> Bool {
    (a.clock, origins[a.origin].name, a.number) < (b.clock, origins[b.origin].name, b.number)
  }

  /// Returns how many versions at the start, at most `count`, the authors of all later versions knew; nil if none.
  private func border(_ entries: [WindowEntry], upTo count: Int) -> Int? {
    // The knowledge that all versions from an index on share, by origin.
    var known = Array(repeating: UInt64.max, count: origins.count)
    func take(_ entry: WindowEntry) {
      for place in origins.indices {
        let one =
          place == entry.origin
          ? entry.number - 1 : origins[entry.origin].steps[place].known(at: entry.number)
        known[place] = min(known[place], one)
      }
    }
    for entry in entries[count...] { take(entry) }
    // The last number of each origin among the versions before an index.
    var last = [Array(repeating: UInt64(0), count: origins.count)]
    for entry in entries[..<count] {
      var next = last[last.count - 1]
      next[entry.origin] = max(next[entry.origin], entry.number)
      last.append(next)
    }
    // The versions are sorted by their clocks: only equal ones may be of authors that did not know each other.
    func areApart(_ border: Int) -> Bool {
      let (early, late) = (entries[border - 1], entries[border])
      return early.clock < late.clock || early.origin == late.origin
    }
    for border in stride(from: count, to: 0, by: -1) {
      if areApart(border), zip(last[border], known).allSatisfy({ $0 <= $1 }) { return border }
      take(entries[border - 1])
    }
    return nil
  }
}
