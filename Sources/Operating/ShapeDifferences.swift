import Changes
import Comparing

/// Differences of tables and columns, of which only those count that two rounds of an audit in a row find.
///
/// A round reads the shapes of both ends at two moments. Between them, a table that a program has just made is at the
/// source only, and the change that makes it at the target is under way.
struct ShapeDifferences {
  private var before: Set<NameKey> = []
  private var now: Set<NameKey> = []

  /// Whether the last round found what the one before did not.
  private(set) var areUnconfirmed = false

  /// Notes a difference of the round at hand; returns whether it counts.
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
