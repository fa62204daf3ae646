/// The parts of a target's rule that do not concern the shape of a table, for example whether deletes are applied. A
/// trail does not contain them.
///
///     var treatment = TableTreatment()
///     treatment.removal = .kept   // deletes are not applied
package struct TableTreatment: Equatable, Sendable {
  /// The effect at the target of a delete at the source.
  package enum Removal: Equatable, Sendable {
    case applied
    case kept
    /// The rows stay, and this column of the target gets the time at which they were deleted at the source.
    case marked(column: String)

    package static func == (a: Removal, b: Removal) -> Bool {
      switch (a, b) {
      case (.applied, .applied), (.kept, .kept): true
      case (.marked(let a), .marked(let b)): a == b
      default: false
      }
    }
  }

  /// A column of the target's table with one constant value in all rows of the apply's trail. Rows with another value
  /// belong to other trails.
  package struct Share: Equatable, Sendable {
    @ByBytes package var column: String
    package var value: Value
    package init(column: String, value: Value) { (self.column, self.value) = (column, value) }
  }

  /// The message and the hint for the operator if a rule cannot be applied to the shape of the table.
  package struct Refusal: Equatable, Sendable {
    @ByBytes package var message: String
    @ByBytes package var hint: String
    package init(message: String, hint: String) { (self.message, self.hint) = (message, hint) }
  }

  package var removal = Removal.applied
  package var shares: [Share] = []
  package var isHistory = false
  package var refusal: Refusal?
  package init() {}
}

extension TableSchema {
  /// The indexes of the key columns, without the columns that have one value in all rows of the trail.
  package var rangeKey: [Int] {
    guard let shares = treatment?.shares, !shares.isEmpty else { return key }
    return key.filter { index in !shares.contains { $0.column.hasSameBytes(as: columns[index].name) } }
  }
}

/// The flags that a target's rule sets for one change of a row. A trail does not contain them.
package struct ChangeTreatment: OptionSet, Sendable {
  package let rawValue: UInt8
  package init(rawValue: UInt8) { self.rawValue = rawValue }
  /// The flag of a change that is applied even if its row is missing at the target or has other values.
  package static let tolerant = ChangeTreatment(rawValue: 1)
  /// The flag of a change that the target cannot apply, because the source sends too few values for the rule.
  package static let refused = ChangeTreatment(rawValue: 2)
  /// The flag of a change with too few values to insert its row, if the target lacks the row.
  package static let incomplete = ChangeTreatment(rawValue: 4)
  /// The flag of a row that a refresh copied.
  package static let copied = ChangeTreatment(rawValue: 8)
}
