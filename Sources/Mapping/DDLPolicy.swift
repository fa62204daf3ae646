/// The reaction at the target when a source table is created, dropped or altered (`--ddl`).
package enum DDLPolicy: String, Sendable, CaseIterable {
  /// The target's table becomes what the source's is. One that Cairn did not create is altered, but never dropped.
  case follow
  /// Nothing is changed at the target: the table waits until the operator has altered it.
  case stop
  /// The target's tables stay as they are; what has no place in them is left out of the rows.
  case ignore
}
