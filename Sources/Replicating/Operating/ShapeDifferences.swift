import Changes
import Comparing

/// Differences of tables and columns between source and target. A difference is reported only if two consecutive rounds
/// of an audit find it.
///
/// A round reads the tables of both ends at two different times. A table that an application has just created exists
/// only at the source until the change has arrived.
struct ShapeDifferences {
  private var before: Set<NameKey> = []
  private var now: Set<NameKey> = []

  /// Whether the last round found a difference that the previous round did not find.
  private(set) var areUnconfirmed = false

  /// Adds a difference to the current round. Returns whether it is to be reported: the previous round found it too, or
  /// it is a difference of a row.
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
