import Changes
import Conflicts

/// `[[apply.NAME.table]]`: the rule that reshapes the rows of one table on their way to the target.
package struct TableRule: Equatable, Sendable {
  /// A column of the target and the source of its value.
  package struct Column: Equatable, Sendable {
    /// The name at the target. `*` stands for all source columns that no other entry names, under their own names.
    @ByBytes package var name: String
    /// An SQL expression for SQLite. The name of a column alone copies the value unchanged.
    @ByBytes package var expression: String
    /// The type of the column if Cairn creates the table; nil: one that suits the expression.
    @ByBytes package var type: String? = nil
    /// Whether a constant in the key distinguishes this trail's rows from those of other trails in the same table.
    package var isShare: Bool

    package init(name: String, expression: String, type: String? = nil, isShare: Bool = true) {
      (self.name, self.expression, self.type, self.isShare) = (name, expression, type, isShare)
    }
  }

  /// The effect of a delete at the source.
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
    /// The target's row mirrors the source's row.
    case mirror
    /// The target gets a row for each change.
    case history
  }

  /// The source table: a name or a pattern with `*` and `?`, with the schema unless that is `public`. Matched without
  /// regard to case.
  @ByBytes package var from: String
  /// The target table, optionally with a schema; nil: the name as without a rule.
  @ByBytes package var to: String? = nil
  /// An SQL expression that selects rows; nil: all rows.
  @ByBytes package var filter: String? = nil
  /// The target's columns, in the order of the conf; nil: all columns of the source, as they are.
  package var columns: [Column]?
  package var delete = DeleteRule.apply
  package var mode = Mode.mirror
  /// The conflict rules of its rows, if both ends write the table.
  package var conflicts = ConflictPlan.Part()
  /// The treatment of local writes at the target; nil: the apply's setting counts.
  package var localWrites: LocalWrites?

  /// Whether the rule can apply to several tables.
  package var isPattern: Bool { from.contains { $0 == "*" || $0 == "?" } }

  package init(from: String) { self.from = from }
}
