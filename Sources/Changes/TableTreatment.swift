/// The instructions of an apply rule for a table, besides its shape. No trail holds them; the reader attaches them to
/// the schema.
package struct TableTreatment: Equatable, Sendable {
  /// The treatment of rows that the source has removed.
  package enum Removal: Equatable, Sendable {
    /// The rows are deleted.
    case applied
    /// The rows stay unchanged.
    case kept
    /// The rows stay, and the column gets the time of the commit that removed them.
    case marked(column: String)

    package static func == (a: Removal, b: Removal) -> Bool {
      switch (a, b) {
      case (.applied, .applied), (.kept, .kept): true
      case (.marked(let a), .marked(let b)): a == b
      default: false
      }
    }
  }

  /// A column with one value in all rows of this trail. Rows with another value belong to other trails.
  package struct Share: Equatable, Sendable {
    @ByBytes package var column: String
    package var value: Value
    package init(column: String, value: Value) { (self.column, self.value) = (column, value) }
  }

  /// The reason why the rule cannot be followed for this shape of the table.
  package struct Refusal: Equatable, Sendable {
    @ByBytes package var message: String
    @ByBytes package var hint: String
    package init(message: String, hint: String) { (self.message, self.hint) = (message, hint) }
  }

  package var removal = Removal.applied
  package var shares: [Share] = []
  /// Whether each change adds a row.
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

/// The treatment of one change by a rule. No trail holds it.
package struct ChangeTreatment: OptionSet, Sendable {
  package let rawValue: UInt8
  package init(rawValue: UInt8) { self.rawValue = rawValue }
  /// The row may be absent, and may differ from the change's before image.
  package static let tolerant = ChangeTreatment(rawValue: 1)
  /// The change cannot be made from the data that the source sends. The reader knows the reason.
  package static let refused = ChangeTreatment(rawValue: 2)
  /// If the row is absent, the source's data do not suffice to insert it. The reader knows the reason.
  package static let incomplete = ChangeTreatment(rawValue: 4)
  /// The row comes from a copy and is not a change.
  package static let copied = ChangeTreatment(rawValue: 8)
}
