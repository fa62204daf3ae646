import PostgresKit

struct OwnStatements {
  /// The statement that begins a transaction at READ COMMITTED, whatever isolation level the role's settings have.
  let begin = PostgresStatement(name: "cairn_begin", sql: "BEGIN ISOLATION LEVEL READ COMMITTED")
  /// The statement that writes the logical message by which capture recognizes apply's transactions.
  let message = PostgresStatement(
    name: "cairn_message",
    sql: "SELECT \(MessageKey.call("cairn", "convert_to($1::text, 'UTF8')")) FROM cairn.key AS k WHERE k.id = 1")
  let move: PostgresStatement
  let noteConflict: PostgresStatement
  let commit = PostgresStatement(name: "cairn_commit", sql: "COMMIT")

  init(_ state: PostgresStateDatabase) {
    move = PostgresStatement(name: "cairn_move", sql: Checkpoints.checkedMove(state))
    noteConflict = PostgresStatement(
      name: "cairn_conflict", sql: PostgresStateDatabase.numbered(ConflictLog.appendText(state)))
  }
}
