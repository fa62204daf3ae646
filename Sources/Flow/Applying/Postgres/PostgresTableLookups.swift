import Changes
import Mapping

/// Facts about a table of a PostgreSQL target that apply looks up only once.
struct PostgresTableLookups {
  /// Two-way: whether the table's rule is `insert-only`, so that apply adds rows and changes none. Nil: not looked up
  /// yet.
  var takesRowsIn: Bool?
  /// The columns with the rule `delta`, whose changes are added up, as indexes in the trail's table.
  var summed: [Int] = []
  /// Two-way: the foreign keys that reference the table, and the group in which apply has locked and checked the tables
  /// that have them.
  var referrers: (list: [Reference], group: UInt64?)?
  /// A cache for ``PostgresForm``: the schema of the row converted last, and the conversion for each target column.
  /// Nil: the schema lacks the column.
  var lastForm: (schema: TableSchema, columns: [(Int, PostgresText)?])?
  /// A cache: this table with the columns that only the target has.
  ///
  /// `since`: the last transaction that was applied before these columns were read.
  var wider: (table: PostgresApplyTable?, since: UInt64)?
}

extension PostgresApplyTable {
  var takesRowsIn: Bool? {
    get { lookups.takesRowsIn }
    set { lookups.takesRowsIn = newValue }
  }
  var summed: [Int] {
    get { lookups.summed }
    set { lookups.summed = newValue }
  }
}
