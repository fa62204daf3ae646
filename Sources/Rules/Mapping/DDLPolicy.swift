/// The reaction at the target when a source table is created, dropped or altered (`--ddl`).
package enum DDLPolicy: String, Sendable, CaseIterable {
  /// The target's table is changed in the same way. Only a table that Cairn created is dropped.
  case follow
  /// The table is suspended until the operator has altered the target's table.
  case stop
  /// The target's table is not changed. Columns that the target's table lacks are left out of the rows.
  case ignore
}
