import Changes
import Mapping
import PostgresKit

/// Decides whether a target can derive the rows of a table's new shape from its old rows. If not, or in doubt, the
/// table is refreshed.
struct RowFate {
  /// The facts about a schema change that the stream or the catalog has reported.
  struct Word {
    /// Whether the stream reported the change at its exact place. False if only the catalog shows the change.
    var isExact = false
    /// Whether the change may have computed new values for existing rows (`USING`).
    var mayCompute = true
    /// The reasons for a rewrite of rows: bits of `pg_event_trigger_table_rewrite_reason()`.
    var rewrites = 0
    /// Whether the command created a table, perhaps a new partition without rows.
    var isCreation = false
    var isApplied = false
    /// Whether the table changed only because it inherits from the altered table. An apply that altered that table
    /// did not ask for this change, and the table need not inherit at the other end.
    var isHeir = false
    var text = ""

    static let found = Word()
  }

  let before: PostgresRegistry.Table
  let after: PostgresRegistry.Table
  let details: [PostgresTable.Detail]
  let word: Word

  /// Returns the old index of each new column; nil for an added column. The array is nil if the catalog's column
  /// numbers are not known.
  static func origins(_ before: PostgresRegistry.Table, _ after: PostgresRegistry.Table) -> [Int?]? {
    guard before.numbers.count == before.schema.columns.count, after.numbers.count == after.schema.columns.count,
      !before.numbers.isEmpty
    else { return nil }
    return after.numbers.map { number in before.numbers.firstIndex(of: number) }
  }

  var keepsRows: Bool {
    guard keepsForms else { return false }
    guard word.isExact, let origins = Self.origins(before, after) else {
      return hasSameColumns && (!before.hasNumbers || !after.hasNumbers || before.numbers == after.numbers)
    }
    var hasRetyped = false
    for (new, origin) in origins.enumerated() {
      guard let origin else {
        // A generated column that became a plain column already has its values.
        let wasGenerated = before.forms[PostgresTable.generatedForm(after.numbers[new])] != nil
        // A rewrite of the rows, whatever its reason, writes the values and clears the catalog's note of them.
        guard isFilled(new), !wasGenerated, word.rewrites == 0 else { return false }
        continue
      }
      let (was, now) = (before.types[origin], after.types[new])
      if was == now { continue }
      guard !word.mayCompute, Self.keepsText(before.schema.columns[origin], after.schema.columns[new]) else {
        return false
      }
      hasRetyped = true
    }
    return word.rewrites & TableRewrite.columnReason == 0 || hasRetyped
  }

  /// Whether changes of partitions have neither added rows to the table nor removed rows from it.
  var keepsPartitions: Bool {
    if before.partitions == after.partitions { return true }
    return word.isExact && word.isCreation && before.partitions.allSatisfy { after.partitions.contains($0) }
  }

  var keepsCopy: Bool {
    hasSameColumns && keepsForms && word.rewrites == 0 && before.schema.name.hasSameBytes(as: after.schema.name)
      && before.schema.namespace.hasSameBytes(as: after.schema.namespace)
      && before.schema.columns.map(\.collation).hasSameBytes(as: after.schema.columns.map(\.collation))
  }

  private var hasSameColumns: Bool {
    let (old, new) = (before.schema, after.schema)
    return before.types == after.types && old.flags.contains(.wholeRow) == new.flags.contains(.wholeRow)
      && old.columns.elementsEqual(new.columns) {
        $0.keyOrdinal == $1.keyOrdinal && $0.name.hasSameBytes(as: $1.name)
          && $0.declaredType.hasSameBytes(as: $1.declaredType)
      }
  }

  private var keepsForms: Bool {
    before.forms.allSatisfy { key, text in after.forms[key].map { $0 == text } ?? true }
  }

  /// Returns whether all existing rows have the default, or NULL without a default, in a new column.
  private func isFilled(_ index: Int) -> Bool {
    let (column, detail) = (after.schema.columns[index], details[index])
    guard column.identity == .none else { return false }
    guard let value = detail.missing else { return !detail.mayHaveDefault }
    return column.defaultText.map { DefaultText.means($0, of: column, value: value) } ?? false
  }

  /// Returns whether every value of the old type fits into the new type and prints as the same text.
  static func keepsText(_ was: TableSchema.Column, _ now: TableSchema.Column) -> Bool {
    let (old, new) = (was.undomainedType, now.undomainedType)
    if old == new { return true }
    guard new != "name", old != "name" else { return false }
    switch (PostgresType(old).kind, PostgresType(new).kind) {
    case (.int2, .int4), (.int2, .int8), (.int4, .int8): return true
    case (.text, .text), (.varchar, .text), (.varchar, .varchar(nil)): return true
    case (.varchar(let from?), .varchar(let to?)): return from <= to
    case (.numeric(_?), .numeric(nil)): return true
    case (.numeric(let from?), .numeric(let to?)):
      return from.scale == to.scale && from.precision <= to.precision
    case (.time(let from), .time(let to)), (.timetz(let from), .timetz(let to)),
      (.timestamp(let from), .timestamp(let to)), (.timestamptz(let from), .timestamptz(let to)):
      return from <= to
    case (.varbit(_?), .varbit(nil)): return true
    case (.varbit(let from?), .varbit(let to?)): return from <= to
    default: return false
    }
  }
}

extension PostgresRegistry.Table {
  fileprivate var hasNumbers: Bool { !numbers.isEmpty }
}
