import Changes

/// A rule that reshapes the rows of one table on their way to the target (`[[apply.NAME.table]]`).
package struct TableRule: Equatable, Sendable {
  /// A column of the target and the source of its value.
  package struct Column: Equatable, Sendable {
    /// The name at the target. `*` means all source columns that no other entry names, under their own names.
    @ByBytes package var name: String
    /// An SQL expression for SQLite. The name of a column alone copies the value unchanged.
    @ByBytes package var expression: String
    /// The type of the column if Cairn creates the table; nil: one that suits the expression.
    @ByBytes package var type: String? = nil
    /// Whether the column is a constant in the key. The constant shows which rows of the target's table belong to this
    /// trail, and which to other trails.
    package var isShare: Bool

    package init(_ name: String, _ expression: String, type: String? = nil, isShare: Bool = true) {
      (self.name, self.expression, self.type, self.isShare) = (name, expression, type, isShare)
    }
  }

  /// The effect at the target when a row disappears at the source, because it is deleted or leaves the filter.
  package enum Delete: Equatable, Sendable {
    case apply
    /// The target's row stays unchanged.
    case keep
    /// The target's row stays, and this column gets the time of the commit.
    case mark(column: String)

    package static func == (a: Delete, b: Delete) -> Bool {
      switch (a, b) {
      case (.apply, .apply), (.keep, .keep): true
      case (.mark(let a), .mark(let b)): a == b
      default: false
      }
    }
  }

  package enum Mode: String, CaseIterable, Sendable {
    /// Each change of a source row changes the corresponding row of the target.
    case mirror
    /// The target gets a row for each change.
    case history
  }

  /// The source table: a name or a pattern with `*` and `?`, with the schema unless that is `public`. Matched without
  /// regard to case.
  @ByBytes package var from: String
  /// The target table, optionally with a schema; nil: the name that the table has without a rule.
  @ByBytes package var to: String? = nil
  /// An SQL expression that selects rows; nil: all rows.
  @ByBytes package var filter: String? = nil
  /// The target's columns, in the order of the configuration; nil: all columns of the source, as they are.
  package var columns: [Column]?
  package var delete = Delete.apply
  package var mode = Mode.mirror

  package init(from: String) { self.from = from }

  /// Whether the rule can apply to several tables.
  package var isPattern: Bool { TablePatterns.isPattern(from) }

  /// Whether the rule changes nothing.
  package var isTrivial: Bool { to == nil && filter == nil && columns == nil && delete == .apply && mode == .mirror }

  /// Returns whether the rule is for a table of the source.
  package func matches(_ schema: TableSchema) -> Bool { schema.matches(from) }
}

extension [TableRule] {
  /// Returns the rule for a table: one with its exact name, else the first matching pattern. Nil if there is no rule
  /// that changes anything.
  package func rule(for schema: TableSchema) -> TableRule? {
    let found = first { !$0.isPattern && $0.matches(schema) } ?? first { $0.matches(schema) }
    return found.flatMap { $0.isTrivial ? nil : $0 }
  }
}
