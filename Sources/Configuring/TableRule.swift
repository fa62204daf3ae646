import Changes
import Conflicts

/// `[[apply.NAME.table]]`: what becomes of the rows of one table on their way to the target.
package struct TableRule: Equatable, Sendable {
  /// A column of the target and where its value comes from.
  package struct Column: Equatable, Sendable {
    /// Of the target; `*`: all columns of the source that no other entry names, under their own names.
    @ByBytes package var name: String
    /// In SQLite's language; the name of a column alone takes the value as it is.
    @ByBytes package var expression: String
    /// The type to give it in a table that is created; nil: the one that suits the expression.
    @ByBytes package var type: String? = nil
    /// Whether a constant tells this trail's rows from those of others in the same table, as part of the key.
    package var isShare: Bool

    package init(name: String, expression: String, type: String? = nil, isShare: Bool = true) {
      (self.name, self.expression, self.type, self.isShare) = (name, expression, type, isShare)
    }
  }

  /// What a delete at the source does.
  package enum DeleteRule: Equatable, Sendable {
    case apply
    /// The row stays.
    case keep
    /// The row stays, and this column gets the time of the commit.
    case mark(column: String)

    package static func == (a: DeleteRule, b: DeleteRule) -> Bool {
      switch (a, b) {
      case (.apply, .apply), (.keep, .keep): true
      case (.mark(let a), .mark(let b)): a == b
      default: false
      }
    }
  }

  package enum Mode: String, CaseIterable, Sendable {
    /// The target's row is what the source's is.
    case mirror
    /// The target gets a row for each change.
    case history
  }

  /// The table at the source, or a pattern with `*` and `?`; with its schema where that is not `public`; matched without
  /// regard to case.
  @ByBytes package var from: String
  /// The table at the target, with a schema where one is meant; nil: as without a rule.
  @ByBytes package var to: String? = nil
  /// Rows for which this SQL expression is true; nil: all.
  @ByBytes package var filter: String? = nil
  /// The target's columns, in the order of the conf; nil: all columns of the source, as they are.
  package var columns: [Column]?
  package var delete = DeleteRule.apply
  package var mode = Mode.mirror
  /// How conflicts in its rows are settled, where it is written at both ends.
  package var conflicts = ConflictPlan.Part()
  /// What becomes of what others write to it at the target; nil: as the apply has it.
  package var localWrites: LocalWrites?

  /// Whether it may be for several tables.
  package var isPattern: Bool { from.contains { $0 == "*" || $0 == "?" } }

  package init(from: String) { self.from = from }
}
