import Changes

/// The place of a row among those that want one unique value: the later one has it.
package struct UniqueRank: Hashable, Comparable, Sendable {
  /// Of the last that was written to the row.
  package var stamp: Stamp
  /// Tells rows of one transaction apart, at every node alike.
  package var tie: UInt64
  /// The texts of the row's key: it tells rows apart that have one tie, which is a hash.
  package var spelling: [UInt8]

  package init(_ stamp: Stamp, tie: UInt64, spelling: [UInt8] = []) {
    (self.stamp, self.tie, self.spelling) = (stamp, tie, spelling)
  }

  package static func < (a: UniqueRank, b: UniqueRank) -> Bool {
    if (a.stamp, a.tie) != (b.stamp, b.tie) { return (a.stamp, a.tie) < (b.stamp, b.tie) }
    return a.spelling.lexicographicallyPrecedes(b.spelling)
  }

  /// Beyond all that come from a trail.
  package static let latest = UniqueRank(Stamp(clock: .max, origin: "", number: 0), tie: 0)
  /// Below all that come from a trail.
  static let least = UniqueRank(Stamp(clock: 0, origin: "", number: 0), tie: 0)

  /// The next one above: no row that was written is between both.
  var next: UniqueRank { UniqueRank(Stamp(clock: stamp.clock, origin: stamp.origin, number: stamp.number + 1), tie: 0) }
}

/// A row that is not in its table, as another one has or had one of its unique values.
package struct UniqueClaim<Row: Hashable> {
  package var row: Row
  package var rank: UniqueRank
  /// It was written by what comes just now; all others have been judged before, and lost.
  package var isNew: Bool
  /// Earlier rows in its way, that stand only since a later one is there too.
  package var earlier: [Row]

  package init(_ row: Row, _ rank: UniqueRank, isNew: Bool, earlier: [Row] = []) {
    (self.row, self.rank, self.isNew, self.earlier) = (row, rank, isNew, earlier)
  }
}

/// Where rows stand that may not share a value.
package protocol UniqueContest {
  associatedtype Row: Hashable

  /// Rows that stand and have a unique value of this one.
  func rows(inTheWayOf row: Row) throws -> [Row]
  /// Of a row that stands. Nil: nobody knows any more, since it was known to everybody who wrote anything that is new.
  func rank(of row: Row, against claim: UniqueClaim<Row>) throws -> UniqueRank?
  /// Puts the claim's row in its place, and lets the others wait instead. False: for another reason it cannot be there.
  func settle(_ claim: UniqueClaim<Row>, insteadOf others: [(row: Row, rank: UniqueRank)]) throws -> Bool
  /// The claim's row waits, as the other one is later. What the claim says of earlier rows is to be kept with it.
  func wait(_ claim: UniqueClaim<Row>, for other: (row: Row, rank: UniqueRank?)) throws
}

extension UniqueContest {
  /// A row waits where a later one that stands has one of its values, and only there. By that it is decided of the latest
  /// row whether it stands, then of the next one, and so on: which rows stand depends on nothing but the rows and their
  /// ranks. So whoever is judged here never moves a row that is later, and those that have to wait for it wait for good:
  /// one pass from the latest claim to the earliest is enough, whatever has changed since the last one.
  ///
  /// Returns whether anything was moved.
  package func judge(_ claims: [UniqueClaim<Row>]) throws -> Bool {
    var left = claims.sorted { $0.rank > $1.rank }[...]
    // Each with how many had been settled by then.
    var held: [(claim: UniqueClaim<Row>, winner: (row: Row, rank: UniqueRank?), since: Int)] = []
    // By their order.
    var settled: [Row: Int] = [:]
    while var claim = left.popFirst() {
      let others = try rows(inTheWayOf: claim.row).map { (row: $0, rank: try rank(of: $0, against: claim)) }
      if let winner = others.first(where: { !claim.isLater(than: $0.row, $0.rank) }) {
        claim.earlier = others.filter { claim.isLater(than: $0.row, $0.rank) }.map(\.row)
        held.append((claim, winner, settled.count))
        continue
      }
      let moved = try others.map { (row: $0.row, rank: try $0.rank ?? bound($0.row, left)) }
      guard try settle(claim, insteadOf: moved) else { continue }
      settled[claim.row] = settled.count
      held += moved.map { (UniqueClaim($0.row, $0.rank, isNew: false), (claim.row, claim.rank), settled.count) }
    }
    for var one in held {
      // Those that have been settled since are earlier, and nobody has moved them again.
      if settled.count > one.since {
        one.claim.earlier += try rows(inTheWayOf: one.claim.row).filter { settled[$0] ?? -1 >= one.since }
      }
      try wait(one.claim, for: one.winner)
    }
    return !settled.isEmpty
  }

  /// In place of a rank that is forgotten: just above all those that have been waiting for the row.
  private func bound(_ row: Row, _ left: ArraySlice<UniqueClaim<Row>>) throws -> UniqueRank {
    let waiting = try left.first { try !$0.isLater(than: row, nil) && rows(inTheWayOf: $0.row).contains(row) }
    return waiting?.rank.next ?? .least
  }
}

extension UniqueClaim {
  /// What is unknown is earlier than all that is new. Of all others it is later, but for those that have been found to be
  /// later themselves.
  fileprivate func isLater(than row: Row, _ other: UniqueRank?) -> Bool {
    other.map { rank > $0 } ?? (isNew || earlier.contains(row))
  }
}
