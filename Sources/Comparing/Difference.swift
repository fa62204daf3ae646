import Changes

/// Something that one end has in another way than the other.
package struct Difference: Sendable {
  package enum Kind: String, Sendable {
    /// The target lacks a row of the source.
    case missing
    /// The target has a row that the source has not.
    case extra
    /// Both have the row, with other values.
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
    /// What the target should have; nil where the source's value has no place there.
    package let expected: Value?
  }

  package let table: String
  package let kind: Kind
  /// What names the row: the key's columns, or all of them.
  package var key: [(name: String, value: Value)] = []
  /// Of a row that is different: the columns that are.
  package var columns: [Column] = []
  /// The whole rows, as far as they are there, each in its end's own values.
  package var source: [Value]?
  package var target: [Value]?
  /// How many rows without a key that are equal differ in this way.
  package var times = 1
  /// The column, for kinds that are about one.
  package var column = ""

  package init(table: String, kind: Kind) { (self.table, self.kind) = (table, kind) }
}

/// A row that differed between two reads. Whether it is a difference is still to be proven.
struct Suspect {
  /// Of the key, or of the whole row.
  let hash: UInt64
  /// In each end's own values, as far as it was read there; of a row without a usable key neither.
  var sourceKey: [Value]?
  var targetKey: [Value]?
  /// Of the row, about.
  var rowBytes = 0

  var isKeyed: Bool { sourceKey != nil || targetKey != nil }
}
