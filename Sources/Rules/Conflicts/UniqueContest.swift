import Changes

/// The rank of a row among the rows that want the same unique value. The row with the highest rank gets the value.
package struct UniqueRank: Hashable, Comparable, Sendable {
  /// The stamp of the last version of the row.
  package var stamp: Stamp
  /// A hash of the row, which orders the rows of one transaction. It is the same at every node.
  package var tie: UInt64
  /// The texts of the row's key, which order rows with the same stamp and an equal `tie`.
  package var spelling: [UInt8]

  package init(_ stamp: Stamp, tie: UInt64, spelling: [UInt8] = []) {
    (self.stamp, self.tie, self.spelling) = (stamp, tie, spelling)
  }

  package static func < (a: UniqueRank, b: UniqueRank) -> Bool {
    if (a.stamp, a.tie) != (b.stamp, b.tie) { return (a.stamp, a.tie) < (b.stamp, b.tie) }
    return a.spelling.lexicographicallyPrecedes(b.spelling)
  }

  /// A rank above all ranks that come from a trail.
  package static let latest = UniqueRank(Stamp(clock: .max, origin: "", number: 0), tie: 0)
  /// A rank below all ranks that come from a trail.
  static let least = UniqueRank(Stamp(clock: 0, origin: "", number: 0), tie: 0)

  /// The next higher rank. No written row has a rank between the two. The highest transaction number stays as it is:
  /// only an attacker reaches it.
  var next: UniqueRank {
    let number = min(stamp.number, NumberBounds.numbers - 2) + 1
    return UniqueRank(Stamp(clock: stamp.clock, origin: stamp.origin, number: number), tie: 0)
  }
}

/// A row that is not in its table, because another row has, or had, one of its unique values. The row waits, or
/// competes, for these values.
package struct UniqueClaim<Row: Hashable> {
  package var row: Row
  package var rank: UniqueRank
  /// Whether the row was written by the current group. All other rows that wait for a value lost an earlier contest.
  package var isNew: Bool
  /// The lower-ranked rows that have a unique value of this row. They stay in the table only because a higher-ranked
  /// row makes this row wait.
  package var earlier: [Row]

  package init(_ row: Row, _ rank: UniqueRank, isNew: Bool, earlier: [Row] = []) {
    (self.row, self.rank, self.isNew, self.earlier) = (row, rank, isNew, earlier)
  }
}

/// A table in which rows compete for unique values.
package protocol UniqueContest {
  associatedtype Row: Hashable

  /// Returns the rows of the table that have a unique value of `row`.
  func rows(inTheWayOf row: Row) throws -> [Row]
  /// Returns the rank of a row in the table; nil if the rank was forgotten. Ranks are forgotten once the authors of all
  /// new versions know the row.
  func rank(of row: Row, against claim: UniqueClaim<Row>) throws -> UniqueRank?
  /// Writes the row of `claim`, which waited for a unique value, and queues the rows in `others` instead. Returns false
  /// if the row cannot be written for another reason.
  func settle(_ claim: UniqueClaim<Row>, insteadOf others: [(row: Row, rank: UniqueRank)]) throws -> Bool
  /// Queues the row of `claim`, because the row `other` ranks higher. The list ``UniqueClaim/earlier`` is stored with
  /// it.
  func wait(_ claim: UniqueClaim<Row>, for other: (row: Row, rank: UniqueRank?)) throws
}

extension UniqueContest {
  /// Decides which of the rows that wait for unique values get into the table. A row is queued if, and only if, a
  /// higher-ranked row in the table has one of its values.
  ///
  /// The decision starts with the highest rank and goes down, so the result depends only on the rows and their ranks. A
  /// row never displaces a higher-ranked one, and a row that is queued because of a higher-ranked one stays queued. So
  /// one pass is enough, whatever has changed since the last pass.
  ///
  /// - Parameter claims: The rows that wait for unique values.
  /// - Returns: whether any row was moved.
  package func judge(_ claims: [UniqueClaim<Row>]) throws -> Bool {
    var left = claims.sorted { $0.rank > $1.rank }[...]
    // Each queued row, with the number of rows that had been written when it was queued.
    var held: [(claim: UniqueClaim<Row>, winner: (row: Row, rank: UniqueRank?), since: Int)] = []
    // The order in which rows were written.
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
      // Rows that were written after that rank lower than the queued row, and were not moved again.
      if settled.count > one.since {
        one.claim.earlier += try rows(inTheWayOf: one.claim.row).filter { settled[$0] ?? -1 >= one.since }
      }
      try wait(one.claim, for: one.winner)
    }
    return !settled.isEmpty
  }

  /// Returns a substitute for a row's forgotten rank: just above the ranks of all rows that wait for values of this
  /// row.
  private func bound(_ row: Row, _ left: ArraySlice<UniqueClaim<Row>>) throws -> UniqueRank {
    let waiting = try left.first { try !$0.isLater(than: row, nil) && rows(inTheWayOf: $0.row).contains(row) }
    return waiting?.rank.next ?? .least
  }
}

extension UniqueClaim {
  /// Returns whether the row of this claim ranks above `row`, a row in the table with the rank `other`.
  ///
  /// If `other` is nil, the rank was forgotten. The claim's row then ranks above `row` only if it is new, or if
  /// ``earlier`` has `row`.
  fileprivate func isLater(than row: Row, _ other: UniqueRank?) -> Bool {
    other.map { rank > $0 } ?? (isNew || earlier.contains(row))
  }
}
