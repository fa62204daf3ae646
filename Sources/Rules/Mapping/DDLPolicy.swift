/// The reaction at the target when a source table is created, dropped or altered (`--ddl`).
package enum DDLPolicy: String, Sendable, CaseIterable {
  /// The target's table is changed like the source's. A table that Cairn did not create is altered, but never dropped.
  case follow
  /// Nothing is changed at the target: the table is suspended until the operator has altered it.
  case stop
  /// The target's tables are not changed; columns that they lack are left out of the rows.
  case ignore
}
