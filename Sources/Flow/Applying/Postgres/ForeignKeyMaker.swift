import Changes
import PostgresKit

/// Adds foreign keys to tables that apply writes.
///
/// ```
/// try ForeignKeyMaker(connection: connection, progress: progress).add(key, for: pending, sink)
/// ```
struct ForeignKeyMaker {
  let connection: PostgresConnection
  let progress: ApplyProgress

  /// Adds a foreign key, which is not validated.
  ///
  /// The foreign key gets no actions if an untrusted role owns the referenced table or a partition of it. That role
  /// could change rows by them. The owner is read while the statement's lock is held, so that no other table takes the
  /// name meanwhile.
  func add(_ key: PendingForeignKey, for pending: PostgresApplyState.Pending, _ sink: PostgresSink) throws {
    func add(_ key: PendingForeignKey) throws { try connection.execute("\(key.statement(for: pending)) NOT VALID") }
    guard key.withoutActions != key else { return try add(key) }
    var owner: String?
    do {
      try sink.attempt {
        try add(key)
        owner = try strangerReferenced(by: pending)
        guard let owner else { return }
        throw PostgresError(sqlState: "42501", message: owner, place: connection.place, isConnectionLost: false)
      }
    } catch let error as PostgresError {
      guard let owner else { throw error }
      try add(key.withoutActions)
      progress.note(
        "foreign key \(pending.name) of \(pending.schema).\(pending.table) is made without its actions (ON DELETE, ON UPDATE): role \(owner), which owns \(pending.needsSchema).\(pending.needsTable) or a part of it, could change rows by them"
      )
    }
  }

  /// Returns the role that owns the referenced table or a partition of it; nil if it is trusted, or owns the foreign
  /// key's own table.
  private func strangerReferenced(by key: PostgresApplyState.Pending) throws -> String? {
    try connection.first(
      """
      WITH RECURSIVE part(oid) AS (
        SELECT confrelid FROM pg_constraint WHERE contype = 'f' AND conrelid = to_regclass($1) AND conname = $2
        UNION SELECT i.inhrelid FROM part JOIN pg_inherits AS i ON i.inhparent = part.oid)
      SELECT pg_get_userbyid(c.relowner) FROM part JOIN pg_class AS c ON c.oid = part.oid
      WHERE c.relowner <> (SELECT relowner FROM pg_class WHERE oid = to_regclass($1))
        AND NOT \(PostgresApplyState.isTrusted("c.relowner")) LIMIT 1
      """, ["\(key.schema.quotedName).\(key.table.quotedName)", key.name])
  }
}
