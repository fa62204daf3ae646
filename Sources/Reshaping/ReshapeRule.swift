import Changes

/// What becomes of the rows of one table on their way to the target (`[[apply.NAME.table]]`; `docs/mapping.md`).
package struct ReshapeRule: Equatable, Sendable {
  /// A column of the target, and where its value comes from.
  package struct Column: Equatable, Sendable {
    /// Of the target; `*`: all columns of the source that no other entry names, under their own names.
    @ByBytes package var name: String
    /// In SQLite's language; the name of a column alone takes the value as it is.
    @ByBytes package var expression: String
    /// The type that the column gets in a table that is created; nil: one that suits the expression.
    @ByBytes package var type: String? = nil
    /// Whether a constant tells this trail's rows from those of others in the same table, as part of the key.
    package var isShare: Bool

    package init(_ name: String, _ expression: String, type: String? = nil, isShare: Bool = true) {
      (self.name, self.expression, self.type, self.isShare) = (name, expression, type, isShare)
    }
  }

  /// What a row that goes at the source does: one that is deleted, and one that leaves the filter.
  package enum Delete: Equatable, Sendable {
    case apply
    /// The row stays.
    case keep
    /// The row stays, and this column gets the time of the commit.
    case mark(column: String)

    package static func == (a: Delete, b: Delete) -> Bool {
      switch (a, b) {
      case (.apply, .apply), (.keep, .keep): true
      case (.mark(let a), .mark(let b)): a == b
      default: false
      }
    }
  }

  package enum Mode: Equatable, Sendable {
    /// The target's row is what the source's is.
    case mirror
    /// The target gets a row for each change.
    case history
  }

  /// The table at the source: a name or a pattern with `*` and `?`, with the schema where that is not `public`; matched
  /// without regard to case.
  @ByBytes package var from: String
  /// The table at the target, with a schema where one is meant; nil: as without a rule.
  @ByBytes package var to: String? = nil
  /// Rows for which this SQL expression is true; nil: all.
  @ByBytes package var filter: String? = nil
  /// The target's columns, in their order; nil: all columns of the source, as they are.
  package var columns: [Column]?
  package var delete = Delete.apply
  package var mode = Mode.mirror

  package init(from: String) { self.from = from }

  var isPattern: Bool { TablePatterns.isPattern(from) }

  /// It changes nothing.
  var isTrivial: Bool { to == nil && filter == nil && columns == nil && delete == .apply && mode == .mirror }

  func matches(_ schema: TableSchema) -> Bool { schema.matches(from) }
}

extension [ReshapeRule] {
  /// The rule for a table: one that names it, else the first pattern that matches it; nil where none changes anything.
  package func rule(for schema: TableSchema) -> ReshapeRule? {
    let found = first { !$0.isPattern && $0.matches(schema) } ?? first { $0.matches(schema) }
    return found.flatMap { $0.isTrivial ? nil : $0 }
  }
}
