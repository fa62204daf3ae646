import Changes
import Mapping
import SQLiteKit

// New NOT NULL columns for which present rows have no value.
extension SQLiteSchemaChanges {
  /// Returns the NOT NULL columns without a default that a schema change adds to a table with rows. SQLite cannot add
  /// them. Empty if a refresh follows.
  ///
  /// `definition` is the column's text after ADD COLUMN.
  func unfilled(_ difference: TableDifference, _ change: Change) throws -> [(name: String, definition: String)] {
    guard !change.plan.isRefreshed, let after = change.after?.target,
      let table = try table(change.name) ?? table(after.name)
    else { return [] }
    let there = Set(table.schema.columns.map { $0.name.sqliteKey })
    let added = difference.changes.compactMap { added -> (name: String, definition: String)? in
      guard case .addColumn(let index) = added else { return nil }
      let column = after.columns[index]
      guard column.isNotNull, column.defaultValue == nil, column.keyOrdinal == 0,
        !there.contains(column.name.sqliteKey), let definition = after.definitionText(of: column.name)
      else { return nil }
      return (column.name, definition)
    }
    guard !added.isEmpty, try database.integer("SELECT 1 FROM \(table.name.quotedName) LIMIT 1") != nil else {
      return []
    }
    return added
  }

  /// Throws `schema-stopped` if a schema change adds a NOT NULL column for which existing target rows have no value.
  func checkValues(_ difference: TableDifference, _ change: Change) throws {
    let added = try unfilled(difference, change)
    guard let first = added.first, let after = change.after?.target else { return }
    var refusal = refusal(change)
    refusal.statements = added.map { "ALTER TABLE \(after.name.quotedName) ADD COLUMN \($0.definition) DEFAULT …" }
    throw refusal.error(
      "column \(first.name) of table \(after.name) may not be NULL and has no default, and rows are there that have nothing for it: give them a value in place of …, or delete them",
      table: change.name)
  }
}
