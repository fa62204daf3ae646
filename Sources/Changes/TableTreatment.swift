/// What a rule of apply says of a table besides its shape. No trail holds it: it is given to a schema when it is read.
package struct TableTreatment: Equatable, Sendable {
  /// What becomes of rows that the source has no longer.
  package enum Removal: Equatable, Sendable {
    /// They are deleted.
    case applied
    /// They stay as they were.
    case kept
    /// They stay, and the column has the time of the commit that removed them.
    case marked(column: String)

    package static func == (a: Removal, b: Removal) -> Bool {
      switch (a, b) {
      case (.applied, .applied), (.kept, .kept): true
      case (.marked(let a), .marked(let b)): a == b
      default: false
      }
    }
  }

  /// A column that has one value in all rows of this trail: rows with another one are none of its business.
  package struct Share: Equatable, Sendable {
    @ByBytes package var column: String
    package var value: Value
    package init(column: String, value: Value) { (self.column, self.value) = (column, value) }
  }

  /// Why the rule cannot be kept for this shape of the table.
  package struct Refusal: Equatable, Sendable {
    @ByBytes package var message: String
    @ByBytes package var hint: String
    package init(message: String, hint: String) { (self.message, self.hint) = (message, hint) }
  }

  package var removal = Removal.applied
  package var shares: [Share] = []
  /// Each change adds a row.
  package var isHistory = false
  package var refusal: Refusal?
  package init() {}
}

extension TableSchema {
  /// The key without the columns that have one value in all rows of the trail.
  package var rangeKey: [Int] {
    guard let shares = treatment?.shares, !shares.isEmpty else { return key }
    return key.filter { index in !shares.contains { $0.column.hasSameBytes(as: columns[index].name) } }
  }
}

/// What a rule says of one change. No trail holds it.
package struct ChangeTreatment: OptionSet, Sendable {
  package let rawValue: UInt8
  package init(rawValue: UInt8) { self.rawValue = rawValue }
  /// The row may be there or not, and need not be as the change says that it was.
  package static let tolerant = ChangeTreatment(rawValue: 1)
  /// The change cannot be made of what the source tells: the reader knows why.
  package static let refused = ChangeTreatment(rawValue: 2)
  /// Where the row is not there, the source did not tell enough to put it there: the reader knows why.
  package static let incomplete = ChangeTreatment(rawValue: 4)
  /// No change: a copy has the row.
  package static let copied = ChangeTreatment(rawValue: 8)
}
