import Changes
import Comparing

/// The differences of tables and columns between source and target. A difference is reported only after two consecutive
/// rounds of an audit: a new table may not have arrived at the target yet.
struct ShapeDifferences {
  private var before: Set<NameKey> = []
  private var now: Set<NameKey> = []

  /// Whether the last round found a difference that the previous round did not find.
  private(set) var areUnconfirmed = false

  /// Adds a difference to the current round. Returns whether to report it: the previous round found it too, or the
  /// difference is in a row.
  mutating func confirms(_ difference: Difference) -> Bool {
    guard !difference.kind.isOfRow else { return true }
    let key = NameList.text([difference.table, difference.kind.rawValue, difference.column]).nameKey
    now.insert(key)
    return before.contains(key)
  }

  mutating func endRound() {
    areUnconfirmed = !now.isSubset(of: before)
    (before, now) = (now, [])
  }
}
