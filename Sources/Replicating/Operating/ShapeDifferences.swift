import Changes
import Comparing

/// Differences of tables and columns. Only those count that two consecutive rounds of an audit find.
///
/// A round reads the shapes of both ends at two different times. In between, a table that an application has just
/// created exists at the source only, while the change is on its way to the target.
struct ShapeDifferences {
  private var before: Set<NameKey> = []
  private var now: Set<NameKey> = []

  /// Whether the last round found a difference that the previous round did not find.
  private(set) var areUnconfirmed = false

  /// Notes a difference of the current round. Returns whether it counts.
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
