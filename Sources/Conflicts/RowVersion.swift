import Changes

/// What one transaction made of a row. Several changes of one row by a transaction are one version.
package struct RowVersion: Sendable {
  /// Values in the order of the table's columns; nil: not given.
  package typealias Row = [Value?]

  package enum Write: Sendable {
    case insert(Row)
    case update(before: Row, after: Row)
    case delete(before: Row)
  }

  package var stamp: Stamp
  /// The number of the last transaction of each other origin that its own had applied before.
  package var seen: [String: UInt64]
  package var write: Write
  /// Columns that the table did not have where it was made: of these it says nothing.
  package var lacks: Set<Int>

  package init(_ stamp: Stamp, seen: [String: UInt64] = [:], _ write: Write, lacks: Set<Int> = []) {
    (self.stamp, self.seen, self.write, self.lacks) = (stamp, seen, write, lacks)
  }

  /// Whether it was made by somebody who knew the other one: then it replaces that one, and there is no conflict.
  package func follows(_ other: RowVersion) -> Bool {
    if stamp.origin == other.stamp.origin { return stamp.number > other.stamp.number }
    return seen[other.stamp.origin, default: 0] >= other.stamp.number
  }

  /// Whether neither knew the other one.
  package func isConcurrent(with other: RowVersion) -> Bool {
    stamp != other.stamp && !follows(other) && !other.follows(self)
  }

  package var isDelete: Bool { if case .delete = write { true } else { false } }
  package var isInsert: Bool { if case .insert = write { true } else { false } }

  /// The row as its author knew it; nil where it made the row.
  package var before: Row? {
    switch write {
    case .insert: nil
    case .update(let before, _), .delete(let before): before
    }
  }

  /// The row as its author left it, as far as the trail says; nil where it deleted the row.
  package var after: Row? {
    switch write {
    case .insert(let row): row
    case .update(let before, let after): zip(before, after).map { $1 ?? $0 }
    case .delete: nil
    }
  }

  /// The row as its author left it; nil where it was deleted. A value that its trail left out is that of the last version
  /// before it which gives it.
  func row(_ columnCount: Int, among all: [RowVersion]) -> Row? {
    after.map { after in
      (0..<columnCount).map { column in
        after[column] ?? all.reversed().lazy.filter { follows($0) }.compactMap { $0.after?[column] }.first
      }
    }
  }

  /// Whether it set the column to something else; an insert sets all that there were.
  package func wrote(_ column: Int) -> Bool {
    switch write {
    case .insert: return !lacks.contains(column)
    case .update(let before, let after):
      guard let now = after[column] else { return false }
      return before[column] != now
    case .delete: return false
    }
  }
}
