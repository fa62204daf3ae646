import PostgresKit

/// The statements that every commit of apply needs besides those of rows.
struct OwnStatements {
  /// Begins a transaction whose statements see what other sessions have committed, whatever the role's settings are.
  let begin = PostgresStatement(name: "cairn_begin", sql: "BEGIN ISOLATION LEVEL READ COMMITTED")
  /// Writes the message by which capture of the target's database recognizes what apply writes.
  let message = PostgresStatement(
    name: "cairn_message",
    sql: "SELECT \(MessageKey.call("cairn", "convert_to($1::text, 'UTF8')")) FROM cairn.key AS k WHERE k.id = 1")
  let move = PostgresStatement(name: "cairn_move", sql: PostgresTargetState.moveText)
  let noteConflict: PostgresStatement
  let commit = PostgresStatement(name: "cairn_commit", sql: "COMMIT")

  init(_ state: PostgresStateDatabase) {
    noteConflict = PostgresStatement(
      name: "cairn_conflict", sql: PostgresStateDatabase.numbered(ConflictLog.appendText(state)))
  }
}
