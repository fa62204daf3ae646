import Changes

/// A difference between the rows of the source and of the target.
package struct Difference: Sendable {
  package enum Kind: String, Sendable {
    case missing
    case extra
    case different
    case tableMissing = "table missing"
    case tableExtra = "table extra"
    case columnMissing = "column missing"
    case columnExtra = "column extra"

    package var isOfRow: Bool { [.missing, .extra, .different].contains(self) }
  }

  package struct Column: Sendable {
    package let name: String
    package let source: Value
    package let target: Value
    /// The value that the target should have; nil if the target cannot hold it.
    package let expected: Value?
  }

  package let table: String
  package let kind: Kind
  /// The columns that identify the row, with their values: the key columns, or all columns.
  package var key: [(name: String, value: Value)] = []
  /// The differing columns of a row that both ends have.
  package var columns: [Column] = []
  /// The complete rows of the source and of the target; nil for an end that lacks the row.
  package var source: [Value]?
  package var target: [Value]?
  /// The number of equal rows with this difference; more than 1 only without a key.
  package var times = 1
  /// The name of the column that the difference is about; otherwise empty.
  package var column = ""

  package init(table: String, kind: Kind) { (self.table, self.kind) = (table, kind) }
}

/// A row that differed between source and target when it was read. Later reads decide whether the row is in flight.
struct Suspect {
  /// The hash of the key, or of the whole row.
  let hash: UInt64
  /// The row's keys as read at the source and at the target. Nil if the row was not read there, has no key, or has NULL
  /// in its key.
  var sourceKey: [Value]?
  var targetKey: [Value]?
  var rowBytes = 0

  var isKeyed: Bool { sourceKey != nil || targetKey != nil }
}
