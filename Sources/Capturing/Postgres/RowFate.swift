import Changes
import Mapping
import PostgresKit

/// Whether a reader of the trail can make the rows of a table's new shape from those that it has: pure.
///
/// Where it can, the table need not be copied again. Of what is in doubt, the answer is no.
struct RowFate {
  /// How a change of shape came to be known.
  struct Word {
    /// Told at its very place in the stream; else found later.
    var isExact = false
    /// Values may have been computed from others (`USING`).
    var mayCompute = true
    /// Why rows were written anew: bits of `pg_event_trigger_table_rewrite_reason()`.
    var rewrites = 0
    /// A new table, and so a partition without rows.
    var isCreation = false
    /// An apply made the change, and what it made of the rows came from elsewhere.
    var isApplied = false
    /// The statement.
    var text = ""

    static let found = Word()
    /// A column got another type, or another value.
    static let columnWasRewritten = 4
  }

  let before: PostgresRegistry.Table
  let after: PostgresRegistry.Table
  let details: [PostgresTable.Detail]
  let word: Word

  /// For each column after: which one it was before; nil where not known.
  static func origins(_ before: PostgresRegistry.Table, _ after: PostgresRegistry.Table) -> [Int?]? {
    guard before.numbers.count == before.schema.columns.count, after.numbers.count == after.schema.columns.count,
      !before.numbers.isEmpty
    else { return nil }
    return after.numbers.map { number in before.numbers.firstIndex(of: number) }
  }

  var keepsRows: Bool {
    guard word.isExact, let origins = Self.origins(before, after) else { return hasSameColumns }
    guard keepsForms else { return false }
    var hasRetyped = false
    for (new, origin) in origins.enumerated() {
      guard let origin else {
        // A generated column that became one of its own has its values already.
        let wasGenerated = before.forms[PostgresTable.generatedForm(after.numbers[new])] != nil
        guard isFilled(new), !wasGenerated else { return false }
        continue
      }
      let (was, now) = (before.types[origin], after.types[new])
      if was == now { continue }
      guard !word.mayCompute, Self.keepsText(before.schema.columns[origin], after.schema.columns[new]) else {
        return false
      }
      hasRetyped = true
    }
    return word.rewrites & Word.columnWasRewritten == 0 || hasRetyped
  }

  /// Partitions took no rows with them, nor brought any.
  var keepsPartitions: Bool {
    if before.partitions == after.partitions { return true }
    return word.isExact && word.isCreation && before.partitions.allSatisfy { after.partitions.contains($0) }
  }

  /// Whether a copy that is under way, of the shape before, can go on.
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

  /// Rows that were there before a new column have in it what its default says, or NULL.
  private func isFilled(_ index: Int) -> Bool {
    let (column, detail) = (after.schema.columns[index], details[index])
    guard column.identity == .none else { return false }
    guard let value = detail.missing else { return !detail.mayHaveDefault }
    return column.defaultText.map { DefaultText.means($0, of: column, value: value) } ?? false
  }

  /// Whether every value of one type prints the same in the other, and has a place there.
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
