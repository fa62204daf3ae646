import Changes

/// A rule that changes the name, columns or rows of a table at the target (`[[apply.NAME.table]]`).
///
///     var rule = TableRule(from: "orders")
///     rule.to = "sales"
///     rule.filter = "shop = 7"
package struct TableRule: Equatable, Sendable {
  /// A column of the target and the source of its value.
  ///
  ///     TableRule.Column("total", "price * count", type: "NUMERIC")
  package struct Column: Equatable, Sendable {
    /// The name at the target. `*` means all source columns that no other entry names.
    @ByBytes package var name: String
    /// An SQL expression for SQLite. If it is only the name of a column, the column's value is copied.
    @ByBytes package var expression: String
    /// The type of the column if Cairn creates the table; nil for a type that suits the expression.
    @ByBytes package var type: String? = nil
    /// Whether the column is in the key with a constant value, by which this trail's rows differ from other rows.
    package var isShare: Bool

    package init(_ name: String, _ expression: String, type: String? = nil, isShare: Bool = true) {
      (self.name, self.expression, self.type, self.isShare) = (name, expression, type, isShare)
    }
  }

  /// The effect at the target when a row is deleted at the source, or leaves the filter.
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

  /// The name of the source table, with its schema unless that is `public`, or a pattern with `*` and `?`. Case does
  /// not matter.
  @ByBytes package var from: String
  /// The target table, with or without a schema; nil for the unchanged name.
  @ByBytes package var to: String? = nil
  /// An SQL expression that selects rows; nil for all rows.
  @ByBytes package var filter: String? = nil
  /// The target's columns in the configured order; nil for all source columns.
  package var columns: [Column]?
  package var delete = Delete.apply
  package var mode = Mode.mirror

  package init(from: String) { self.from = from }

  package var isPattern: Bool { TablePatterns.isPattern(from) }

  /// Whether the rule changes nothing.
  package var isTrivial: Bool { to == nil && filter == nil && columns == nil && delete == .apply && mode == .mirror }

  /// Returns whether the rule's ``from`` matches the name of a source table.
  package func matches(_ schema: TableSchema) -> Bool { schema.matches(from) }
}

extension [TableRule] {
  /// Returns the rule for a table; nil if no rule changes it. A rule with the exact name has precedence, then the first
  /// rule whose pattern matches.
  package func rule(for schema: TableSchema) -> TableRule? {
    let found = first { !$0.isPattern && $0.matches(schema) } ?? first { $0.matches(schema) }
    return found.flatMap { $0.isTrivial ? nil : $0 }
  }
}
