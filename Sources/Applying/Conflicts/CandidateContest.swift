import Changes
import Conflicts

/// Decides again which rows of a target are in their tables and which wait.
final class CandidateContest<Store: CandidateStore>: UniqueContest {
  /// The present state of a waiting row, by its known versions.
  enum Renewal {
    case asItWas
    case later(Candidate)
    /// The row was deleted.
    case gone
    /// An application is writing to the row.
    case open
  }

  /// The versions of rows, as the contest asks for them.
  struct Sight {
    var renew: (Candidate) throws -> Renewal
    /// Returns the candidate with the rank that copies of the row give it.
    var ranked: (Candidate) throws -> Candidate
    /// Returns the rank as ``UniqueContest/rank(of:against:)`` does.
    var lastWrite: (ContestedRow, _ isNew: Bool) throws -> UniqueRank?
    /// Called for a row that has waited and is back in its table.
    var noteReturn: (ContestedRow) -> Void
    /// Called for a row that has to wait, or that makes the other one wait.
    var log: (ContestedRow, _ other: ContestedRow, Stamp?, _ isOurs: Bool) throws -> Void
  }

  private let store: Store
  private let sight: Sight
  /// The rows that the present group writes.
  private let fresh: Set<ContestedRow>
  private var kept: [ContestedRow: Candidate] = [:]

  init(_ store: Store, fresh: [ContestedRow] = [], _ sight: Sight) {
    (self.store, self.fresh, self.sight) = (store, Set(fresh), sight)
  }

  /// Returns whether anything has changed.
  func judge() throws -> Bool {
    var isChanged = false
    for found in try store.all() where try store.mayWrite(found.row) {
      var candidate = found
      // If the table is gone, so is the value for which the row waits.
      var isGone = try !store.hasTable(of: candidate.row) || store.isThere(candidate.row)
      if !isGone {
        switch try sight.renew(candidate) {
        case .asItWas: break
        case .open: continue
        case .gone: isGone = true
        case .later(let renewed): candidate = renewed
        }
      }
      if isGone {
        try store.remove(candidate.row)
        isChanged = true
        continue
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

  private func claim(_ candidate: Candidate) -> UniqueClaim<ContestedRow> {
    let row = candidate.row
    return UniqueClaim(
      row, row.rank(candidate.stamp), isNew: fresh.contains(row),
      earlier: candidate.earlier.map {
        ContestedRow(namespace: row.namespace, table: row.table, key: $0, row: ConflictRow([]))
      })
  }

  func rows(inTheWayOf row: ContestedRow) throws -> [ContestedRow] { try store.rows(inTheWayOf: row) }

  func rank(of row: ContestedRow, against claim: UniqueClaim<ContestedRow>) throws -> UniqueRank? {
    try sight.lastWrite(row, claim.isNew)
  }

  func settle(_ claim: UniqueClaim<ContestedRow>, insteadOf others: [(row: ContestedRow, rank: UniqueRank)]) throws
    -> Bool
  {
    guard try store.put(claim.row, insteadOf: others.map(\.row)) else {
      if claim.isNew { throw refusal(claim.row) }
      return false
    }
    try store.remove(claim.row)
    if !claim.isNew { sight.noteReturn(claim.row) }
    for other in others {
      try store.add(Candidate(other.row, other.rank.stamp))
      try sight.log(claim.row, other.row, other.rank.stamp, true)
    }
    return true
  }

  func wait(_ claim: UniqueClaim<ContestedRow>, for other: (row: ContestedRow, rank: UniqueRank?)) throws {
    let stamp = other.rank.flatMap { $0 == .latest ? nil : $0.stamp }
    if claim.isNew { try sight.log(claim.row, other.row, stamp, false) }
    let earlier = claim.earlier.map(\.key)
    guard earlier != kept[claim.row]?.earlier ?? [] else { return }
    try store.add(Candidate(claim.row, claim.rank.stamp, earlier: earlier))
  }

  /// Returns the error for a row that a constraint of the target refuses, although no other row has its unique values.
  private func refusal(_ row: ContestedRow) -> CairnError {
    let key = row.key.columns.map { "\($0.name)=\($0.value.shown)" }.joined(separator: ", ")
    return CairnError(
      .constraintFailed, "table \(row.table), row \(key): a constraint of the target refuses it",
      hint: "make the target's constraints those of the source, then run again", context: ["table": row.table])
  }
}
