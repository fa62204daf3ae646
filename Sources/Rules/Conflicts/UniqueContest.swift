import Changes

/// The rank of a row among rows that need the same unique value. The row with the highest rank gets the value. A row
/// that was written later has a higher rank.
///
///     let rank = UniqueRank(VersionStamp(clock: 5, origin: "a.shop", number: 1), tie: row.hash)
///     rank < .latest   // true
package struct UniqueRank: Hashable, Comparable, Sendable {
  /// The stamp of the transaction that last wrote the row.
  package var stamp: VersionStamp
  /// A hash of the row's key, which orders rows with the same stamp equally at every node.
  package var tie: UInt64
  /// The texts of the row's key, which order rows with the same stamp and hash.
  package var spelling: [UInt8]

  package init(_ stamp: VersionStamp, tie: UInt64, spelling: [UInt8] = []) {
    (self.stamp, self.tie, self.spelling) = (stamp, tie, spelling)
  }

  package static func < (a: UniqueRank, b: UniqueRank) -> Bool {
    if (a.stamp, a.tie) != (b.stamp, b.tie) { return (a.stamp, a.tie) < (b.stamp, b.tie) }
    return a.spelling.lexicographicallyPrecedes(b.spelling)
  }

  /// A rank higher than the rank of any row in a trail.
  package static let latest = UniqueRank(VersionStamp(clock: .max, origin: "", number: 0), tie: 0)
  /// A rank lower than the rank of any row in a trail.
  static let least = UniqueRank(VersionStamp(clock: 0, origin: "", number: 0), tie: 0)

  /// The lowest rank above all rows that the transaction of this rank's ``stamp`` wrote.
  var next: UniqueRank {
    let number = min(stamp.number, NumberBounds.numbers - 2) + 1
    return UniqueRank(VersionStamp(clock: stamp.clock, origin: stamp.origin, number: number), tie: 0)
  }
}

/// A row that may be written to its table only when no row of higher rank has one of its unique values.
///
///     UniqueConflict(row, UniqueRank(stamp, tie: row.hash), isNew: true)
package struct UniqueConflict<Row: Hashable> {
  package var row: Row
  package var rank: UniqueRank
  /// Whether the current group wrote the row. False for a row that waited before the group, or that was removed from
  /// its table in favor of another row.
  package var isNew: Bool
  /// The marks of rows in the table that hold a unique value of this row despite a lower rank. Such a row keeps the
  /// value while this row waits.
  package var earlier: [RowMark]

  package init(_ row: Row, _ rank: UniqueRank, isNew: Bool, earlier: [RowMark] = []) {
    (self.row, self.rank, self.isNew, self.earlier) = (row, rank, isNew, earlier)
  }
}

/// The table operations that are needed to decide which of several rows gets a unique value.
package protocol UniqueContest {
  associatedtype Row: Hashable

  /// Returns the rows of the table that hold a unique value of `row`.
  func rows(inTheWayOf row: Row) throws -> [Row]
  /// Returns the short form of a row's key.
  func mark(of row: Row) throws -> RowMark
  /// Returns the rank of a row in the table; nil if the rank is unknown.
  func rank(of row: Row, against claim: UniqueConflict<Row>) throws -> UniqueRank?
  /// Writes the row of `claim` to the table. The rows in `others` hold its unique values, and become waiting rows.
  /// Returns false if the row cannot be written.
  func settle(_ claim: UniqueConflict<Row>, insteadOf others: [(row: Row, rank: UniqueRank)]) throws -> Bool
  /// Notes that the row of `claim` waits. The row `other` keeps the unique value that both rows have.
  func note(_ claim: UniqueConflict<Row>, waitsFor other: (row: Row, rank: UniqueRank?)) throws
  /// Stores the row of `claim` as a waiting row, after all rows were decided.
  func wait(_ claim: UniqueConflict<Row>) throws
}

extension UniqueContest {
  /// Decides which waiting rows are written to the table, in the order of their ranks. A row waits only while a row of
  /// higher rank has one of its unique values.
  ///
  /// Reads the rows in the way of each claim a few times at most. Keeps no row that wins in memory, as it may be large.
  ///
  /// - Parameter claims: The rows that wait for unique values.
  /// - Returns: Whether any row was written.
  package func judge(_ claims: [UniqueConflict<Row>]) throws -> Bool {
    var left = claims.sorted { $0.rank > $1.rank }[...]
    // Each queued row, with the number of rows that had been written when it was queued.
    var held: [(claim: UniqueConflict<Row>, since: Int)] = []
    // The order in which rows were written, and their ranks.
    var settled: [Row: (order: Int, rank: UniqueRank)] = [:]
    var wanting: [RowMark: [Int]]?
    while var claim = left.popFirst() {
      let others = try rows(inTheWayOf: claim.row).map { (row: $0, rank: try rank(of: $0, against: claim)) }
      if let winner = try others.first(where: { try !isLater(claim, than: $0.row, $0.rank) }) {
        claim.earlier = try others.filter { try isLater(claim, than: $0.row, $0.rank) }.map { try mark(of: $0.row) }
        try note(claim, waitsFor: winner)
        held.append((claim, settled.count))
        continue
      }
      let moved = try others.map { other in
        let rank = try other.rank ?? settled[other.row]?.rank ?? bound(other.row, left, &wanting)
        return (row: other.row, rank: rank)
      }
      guard try settle(claim, insteadOf: moved) else { continue }
      settled[claim.row] = (settled.count, claim.rank)
      held += moved.map { (UniqueConflict($0.row, $0.rank, isNew: false), settled.count) }
    }
    for var one in held {
      // Rows that were written since then have lower ranks than the queued row, if they were not moved again.
      if settled.count > one.since {
        let later = try rows(inTheWayOf: one.claim.row).filter { settled[$0]?.order ?? -1 >= one.since }
        one.claim.earlier += try later.map(mark)
      }
      try wait(one.claim)
    }
    return !settled.isEmpty
  }

  /// Returns a substitute for the unknown rank of a row in the table. It is above the rank of the first row in `left`
  /// that needs a unique value of that row and may not take it.
  ///
  /// - Parameter wanting: For each row that was in the table at the first call, the places in `left` of the claims that
  ///   need its unique values. Nil before the first call.
  private func bound(
    _ row: Row, _ left: ArraySlice<UniqueConflict<Row>>, _ wanting: inout [RowMark: [Int]]?
  ) throws -> UniqueRank {
    if wanting == nil {
      var found: [RowMark: [Int]] = [:]
      for place in left.indices where !left[place].isNew {
        for other in try rows(inTheWayOf: left[place].row) { found[try mark(of: other), default: []].append(place) }
      }
      wanting = found
    }
    // Rows of two tables may have the same mark.
    let place = try wanting?[mark(of: row)]?.first { place in
      try left.indices.contains(place) && !isLater(left[place], than: row, nil)
        && rows(inTheWayOf: left[place].row).contains(row)
    }
    return place.map { left[$0].rank.next } ?? .least
  }

  /// Returns whether the row of a claim has a higher rank than `row`, and so gets the unique value.
  /// - Parameter other: The rank of `row`; nil if unknown. Then the result is true if the claim's row is new, or if
  ///   its ``UniqueConflict/earlier`` has `row`.
  private func isLater(_ claim: UniqueConflict<Row>, than row: Row, _ other: UniqueRank?) throws -> Bool {
    if let other { return claim.rank > other }
    return try claim.isNew || !claim.earlier.isEmpty && claim.earlier.contains(mark(of: row))
  }
}
