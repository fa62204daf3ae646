import Changes

/// The form that one transaction gave to one row.
///
///     let stamp = VersionStamp(clock: 7, origin: "till.pos", number: 3)
///     RowVersion(stamp, seen: ["hq.erp": 12], .insert([.integer(1), .text("tea")]))
package struct RowVersion: Sendable {
  /// The values of a row in the order of the table's columns; nil for a value that the version does not have.
  package typealias Row = [Value?]

  package enum Write: Sendable {
    case insert(Row)
    case update(before: Row, after: Row)
    case delete(before: Row)
  }

  package var stamp: VersionStamp
  /// For each other origin, the last transaction that the author knew.
  package var seen: [String: UInt64]
  package var write: Write
  /// The indexes of columns that the table did not have at the version's author.
  package var lacks: Set<Int>

  package init(_ stamp: VersionStamp, seen: [String: UInt64] = [:], _ write: Write, lacks: Set<Int> = []) {
    (self.stamp, self.seen, self.write, self.lacks) = (stamp, seen, write, lacks)
  }

  /// Returns whether the author of this version knew `other`. If so, this version replaces `other` without a conflict.
  /// Never true for a version of another origin with an equal or later clock.
  package func follows(_ other: RowVersion) -> Bool {
    if stamp.origin == other.stamp.origin { return stamp.number > other.stamp.number }
    return seen[other.stamp.origin, default: 0] >= other.stamp.number && other.stamp.clock < stamp.clock
  }

  /// Returns whether this version and `other` are concurrent: neither author knew the other version.
  package func isConcurrent(with other: RowVersion) -> Bool {
    stamp != other.stamp && !follows(other) && !other.follows(self)
  }

  package var isDelete: Bool { if case .delete = write { true } else { false } }
  package var isInsert: Bool { if case .insert = write { true } else { false } }

  /// The row before the transaction; nil for an insert.
  package var before: Row? {
    switch write {
    case .insert: nil
    case .update(let before, _), .delete(let before): before
    }
  }

  /// The row after the transaction, with nil for values that the trail does not have; nil for a delete.
  package var after: Row? {
    switch write {
    case .insert(let row): row
    case .update(let before, let after): zip(before, after).map { $1 ?? $0 }
    case .delete: nil
    }
  }

  /// Returns the row after the transaction; nil for a delete. Values that this version does not have come from earlier
  /// versions in `all` that this version's author knew.
  func row(_ columnCount: Int, among all: [RowVersion]) -> Row? {
    after.map { after in
      (0..<columnCount).map { column in
        after[column] ?? all.reversed().lazy.filter { follows($0) }.compactMap { $0.after?[column] }.first
      }
    }
  }

  /// Returns whether the version changed the column. An insert writes all columns of the author's table.
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
