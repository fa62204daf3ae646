import Changes
import Conflicts

/// Decides anew which rows of a target stand and which wait.
final class CandidateContest<Store: CandidateStore>: UniqueContest {
  /// What has become of a row that waits by what is known of it now.
  enum Renewal {
    case asItWas
    case later(Candidate)
    /// It was deleted.
    case gone
    /// Somebody writes to it just now.
    case open
  }

  /// What it is to know of the versions of rows.
  struct Sight {
    var renew: (Candidate) throws -> Renewal
    /// With the rank that copies of the row give it.
    var ranked: (Candidate) throws -> Candidate
    /// As ``UniqueContest/rank(of:against:)``.
    var lastWrite: (ContestedRow, _ isNew: Bool) throws -> UniqueRank?
    /// Of a row that has waited, and is there again.
    var noteReturn: (ContestedRow) -> Void
    /// Of a row that has to wait, or that lets the other one wait.
    var log: (ContestedRow, _ other: ContestedRow, Stamp?, _ isOurs: Bool) throws -> Void
  }

  private let store: Store
  private let sight: Sight
  /// Rows that came just now.
  private let fresh: Set<ContestedRow>
  private var kept: [ContestedRow: Candidate] = [:]

  init(_ store: Store, fresh: [ContestedRow] = [], _ sight: Sight) {
    (self.store, self.fresh, self.sight) = (store, Set(fresh), sight)
  }

  /// Returns whether anything has changed.
  func judge() throws -> Bool {
    var isChanged = false
    for found in try store.all() {
      var candidate = found
      // With its table, the value for which it waits is gone.
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

  /// What is in its way is no row that has a value of it, but what the target has against such rows.
  private func refusal(_ row: ContestedRow) -> CairnError {
    let key = row.key.columns.map { "\($0.name)=\($0.value.shown)" }.joined(separator: ", ")
    return CairnError(
      .constraintFailed, "table \(row.table), row \(key): a constraint of the target refuses it",
      hint: "make the target's constraints those of the source, then run again", context: ["table": row.table])
  }
}
