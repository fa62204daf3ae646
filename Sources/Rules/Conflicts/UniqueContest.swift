import Changes

/// The rank of a row among rows that need the same unique value. The row with the highest rank gets the value. A row
/// that was written later has a higher rank.
package struct UniqueRank: Hashable, Comparable, Sendable {
  /// The stamp of the transaction that last wrote the row.
  package var stamp: Stamp
  /// A hash of the row's key. It orders rows with the same stamp, equally at every node.
  package var tie: UInt64
  /// The texts of the row's key. They order rows with the same stamp and hash.
  package var spelling: [UInt8]

  package init(_ stamp: Stamp, tie: UInt64, spelling: [UInt8] = []) {
    (self.stamp, self.tie, self.spelling) = (stamp, tie, spelling)
  }

  package static func < (a: UniqueRank, b: UniqueRank) -> Bool {
    if (a.stamp, a.tie) != (b.stamp, b.tie) { return (a.stamp, a.tie) < (b.stamp, b.tie) }
    return a.spelling.lexicographicallyPrecedes(b.spelling)
  }

  /// A rank higher than all ranks of rows in trails.
  package static let latest = UniqueRank(Stamp(clock: .max, origin: "", number: 0), tie: 0)
  /// A rank lower than all ranks of rows in trails.
  static let least = UniqueRank(Stamp(clock: 0, origin: "", number: 0), tie: 0)

  /// The rank just above the ranks of all rows that the same transaction wrote.
  var next: UniqueRank {
    let number = min(stamp.number, NumberBounds.numbers - 2) + 1
    return UniqueRank(Stamp(clock: stamp.clock, origin: stamp.origin, number: number), tie: 0)
  }
}

/// A row that waits to be written to its table, because another row has, or had, one of its unique values.
package struct UniqueClaim<Row: Hashable> {
  package var row: Row
  package var rank: UniqueRank
  /// Whether the current group wrote the row. False for a row that waited before, or that was removed from its table
  /// for another row.
  package var isNew: Bool
  /// The rows in the table that hold a unique value of this row, although their rank is lower. They keep the value as
  /// long as this row waits for a row with a higher rank.
  package var earlier: [Row]

  package init(_ row: Row, _ rank: UniqueRank, isNew: Bool, earlier: [Row] = []) {
    (self.row, self.rank, self.isNew, self.earlier) = (row, rank, isNew, earlier)
  }
}

/// The operations of a table by which ``judge(_:)`` decides which of several rows gets a unique value.
package protocol UniqueContest {
  associatedtype Row: Hashable

  /// Returns the rows of the table that hold a unique value which `row` needs.
  func rows(inTheWayOf row: Row) throws -> [Row]
  /// Returns the rank of a row in the table, to compare it with the rank of `claim`'s row: the higher rank gets the
  /// unique value. Nil if the rank was removed, because new versions can no longer be in conflict with the row.
  func rank(of row: Row, against claim: UniqueClaim<Row>) throws -> UniqueRank?
  /// Writes the row of `claim`, which waited for a unique value. Removes the rows in `others`, which hold its unique
  /// values, and makes them wait. Returns false if the row cannot be written for another reason.
  func settle(_ claim: UniqueClaim<Row>, insteadOf others: [(row: Row, rank: UniqueRank)]) throws -> Bool
  /// Stores the row of `claim` as a waiting row, with the list ``UniqueClaim/earlier``. The row `other` has a higher
  /// rank, and holds a unique value that the waiting row needs.
  func wait(_ claim: UniqueClaim<Row>, for other: (row: Row, rank: UniqueRank?)) throws
}

extension UniqueContest {
  /// Decides which of the rows that wait for unique values are written to the table. A row waits if, and only if, a row
  /// in the table with a higher rank has one of its unique values.
  ///
  /// Rows with higher ranks are decided first, so the result depends only on the rows and their ranks. A row never
  /// displaces a row with a higher rank, but waits for it. So one pass is enough, whatever has changed since the last
  /// pass.
  ///
  /// - Parameter claims: The rows that wait for unique values.
  /// - Returns: whether any row was written.
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
      // Rows that were written since then have lower ranks than the queued row, if they were not moved again.
      if settled.count > one.since {
        one.claim.earlier += try rows(inTheWayOf: one.claim.row).filter { settled[$0] ?? -1 >= one.since }
      }
      try wait(one.claim, for: one.winner)
    }
    return !settled.isEmpty
  }

  /// Returns a rank for `row`, a row in the table whose rank is no longer stored. Some rows in `left` wait for a value
  /// of `row`, but must not displace it. The result is just above the highest rank of these; ``UniqueRank/least`` if
  /// there are none.
  private func bound(_ row: Row, _ left: ArraySlice<UniqueClaim<Row>>) throws -> UniqueRank {
    let waiting = try left.first { try !$0.isLater(than: row, nil) && rows(inTheWayOf: $0.row).contains(row) }
    return waiting?.rank.next ?? .least
  }
}

extension UniqueClaim {
  /// Returns whether the row of this claim has a higher rank than `row`, a row in the table with the rank `other`.
  ///
  /// If `other` is nil, the rank of `row` was forgotten. The claim's row then ranks higher only if the current group
  /// wrote it (``isNew``), or if ``earlier`` contains `row`.
  fileprivate func isLater(than row: Row, _ other: UniqueRank?) -> Bool {
    other.map { rank > $0 } ?? (isNew || earlier.contains(row))
  }
}
