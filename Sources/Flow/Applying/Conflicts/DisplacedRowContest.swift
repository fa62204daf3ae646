import Changes
import Conflicts

/// Decides, for each group, which of several rows with the same unique value is in its table. The other rows become
/// waiting rows.
final class DisplacedRowContest<Store: DisplacedRowStore>: UniqueContest {
  /// The change of a waiting row since it began to wait.
  enum Renewal {
    case asItWas
    case later(DisplacedRow)
    case gone
    /// An application has written the row while it waited, and capture has not read that change.
    ///
    /// Nothing is decided about the row in this group.
    case open
  }

  /// The functions by which the decision about waiting rows reads versions of rows and reports its results.
  struct Sight {
    var renew: (DisplacedRow) throws -> Renewal
    /// Returns a waiting row with the stamp that decides its rank. This stamp is the row's own, or that of the last
    /// refresh with the row, whichever is later.
    var ranked: (DisplacedRow) throws -> DisplacedRow
    /// Returns the rank of a row in the table, from the stamp of its last write; nil if all nodes know that write.
    ///
    /// - Parameter isNew: Whether the waiting row with the same unique value comes from the present group.
    var lastWrite: (ContestedRow, _ isNew: Bool) throws -> UniqueRank?
    var noteReturn: (ContestedRow) throws -> Void
    /// Logs the conflict of two rows over a unique value. The stamp belongs to `other`; nil if unknown.
    ///
    /// - Parameter isOurs: Whether the first row got the value, so that `other` waits.
    var log: (ContestedRow, _ other: ContestedRow, VersionStamp?, _ isOurs: Bool) throws -> Void
  }

  private let store: Store
  private let sight: Sight
  private let fresh: Set<ContestedRow>
  /// The waiting rows that a refresh brought in this group.
  private let met: Set<ContestedRow>
  /// The row whose mark was computed last. Many rows often wait for one row with a long key.
  private var lastMarked: (row: ContestedRow, mark: RowMark)?
  private var kept: [ContestedRow: DisplacedRow] = [:]

  init(_ store: Store, fresh: [ContestedRow] = [], met: [ContestedRow] = [], _ sight: Sight) {
    (self.store, self.fresh, self.met, self.sight) = (store, Set(fresh), Set(met), sight)
  }

  /// Decides which rows are in their tables and which wait. Returns whether a table or a waiting row was changed.
  func judge() throws -> Bool {
    var isChanged = false
    try store.forEach { found in
      guard try store.mayWrite(found.row) else { return }
      var candidate = found
      // If the table is gone, so is the value for which the row waits.
      var isGone = try !store.hasTable(of: candidate.row) || store.isThere(candidate.row)
      if !isGone {
        switch try sight.renew(candidate) {
        case .asItWas: break
        case .open: return
        case .gone: isGone = true
        case .later(let renewed): candidate = renewed
        }
      }
      if isGone {
        try store.remove(candidate.row)
        isChanged = true
        return
      }
      candidate = try sight.ranked(candidate)
      if candidate.stamp != found.stamp || candidate.row.row != found.row.row {
        try store.add(candidate)
        isChanged = true
      }
      kept[candidate.row] = candidate
    }
    return try judge(kept.values.map(claim)) || isChanged
  }

  private func claim(_ candidate: DisplacedRow) -> UniqueConflict<ContestedRow> {
    let row = candidate.row
    return UniqueConflict(
      row, row.rank(candidate.stamp), isNew: fresh.contains(row), earlier: candidate.earlier)
  }

  func rows(inTheWayOf row: ContestedRow) throws -> [ContestedRow] { try store.rows(inTheWayOf: row) }

  func mark(of row: ContestedRow) throws -> RowMark {
    if let lastMarked, lastMarked.row == row { return lastMarked.mark }
    let mark = try RowMark(key: row.key.json)
    lastMarked = (row, mark)
    return mark
  }

  func rank(of row: ContestedRow, against claim: UniqueConflict<ContestedRow>) throws -> UniqueRank? {
    try sight.lastWrite(row, claim.isNew)
  }

  func settle(_ claim: UniqueConflict<ContestedRow>, insteadOf others: [(row: ContestedRow, rank: UniqueRank)]) throws
    -> Bool
  {
    guard try store.put(claim.row, insteadOf: others.map(\.row)) else {
      if claim.isNew { throw refusal(claim.row) }
      return false
    }
    try store.remove(claim.row)
    if !claim.isNew { try sight.noteReturn(claim.row) }
    for other in others {
      try store.add(DisplacedRow(other.row, other.rank.stamp))
      try sight.log(claim.row, other.row, other.rank.stamp, true)
    }
    return true
  }

  func note(_ claim: UniqueConflict<ContestedRow>, waitsFor other: (row: ContestedRow, rank: UniqueRank?)) throws {
    let stamp = other.rank.flatMap { $0 == .latest ? nil : $0.stamp }
    if claim.isNew || met.contains(claim.row) { try sight.log(claim.row, other.row, stamp, false) }
  }

  func wait(_ claim: UniqueConflict<ContestedRow>) throws {
    guard claim.earlier != kept[claim.row]?.earlier ?? [] else { return }
    try store.add(DisplacedRow(claim.row, claim.rank.stamp, earlier: claim.earlier))
  }

  private func refusal(_ row: ContestedRow) -> CairnError {
    let key = row.key.columns.map { "\($0.name)=\($0.value.shown)" }.joined(separator: ", ")
    return CairnError(
      .constraintFailed, "table \(row.table), row \(key): a constraint of the target refuses it",
      hint: "make the target's constraints equal to the source's, then run again", context: ["table": row.table])
  }
}
