/// What becomes of a target's table when the source's is created, dropped or changes its shape (`--ddl`).
package enum DDLPolicy: String, Sendable, CaseIterable {
  /// The target's table becomes what the source's is. One that Cairn did not create is altered, but never dropped.
  case follow
  /// Nothing is changed at the target: the table waits until a person has made it what it is to be.
  case stop
  /// The target's tables stay as they are; what has no place in them is left out of the rows.
  case ignore
}
