import Changes

/// A difference between the rows of the source and of the target.
package struct Difference: Sendable {
  package enum Kind: String, Sendable {
    /// The target lacks a row of the source.
    case missing
    /// The target has a row that the source has not.
    case extra
    /// Both ends have the row, with different values.
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
    /// The value that the target should have; nil if the target cannot hold the source's value.
    package let expected: Value?
  }

  package let table: String
  package let kind: Kind
  /// The columns that identify the row: the key, or all columns.
  package var key: [(name: String, value: Value)] = []
  /// The differing columns of a row that both ends have.
  package var columns: [Column] = []
  /// The complete rows, each in its end's representation; nil if the row is missing.
  package var source: [Value]?
  package var target: [Value]?
  /// The number of identical rows without a key for which this difference counts.
  package var times = 1
  /// The name of the column, for differences that are about one column.
  package var column = ""

  package init(table: String, kind: Kind) { (self.table, self.kind) = (table, kind) }
}

/// A row that differed between two reads. Whether it is a difference is still to be proven.
struct Suspect {
  /// The hash of the key, or of the whole row.
  let hash: UInt64
  /// The keys in the representations of source and target, as far as they were read there; nil for a row without a
  /// usable key.
  var sourceKey: [Value]?
  var targetKey: [Value]?
  /// The approximate size of the row, in bytes.
  var rowBytes = 0

  var isKeyed: Bool { sourceKey != nil || targetKey != nil }
}
