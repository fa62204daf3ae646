import PostgresKit
import SystemKit

/// Reports which session or prepared transaction holds the lock for which a session of apply waits.
///
///     let holder = LockHolder(uri: uri, process: connection.backendPID, progress)
///     connection.onWait = { holder.wait(); return true }
final class LockHolder {
  /// The time in ms after which a wait is reported.
  private static let patience: Int64 = 5000
  private static let repeated: Int64 = 60_000
  /// A wait without a call of ``wait()`` for this time in ms is another one.
  private static let gap: Int64 = 3000

  private let uri: String
  private let process: Int32
  private let progress: ApplyProgress
  private var (since, last): (Int64, Int64) = (0, 0)
  private var lookedAt: Int64?

  init(uri: String, process: Int32, _ progress: ApplyProgress) {
    (self.uri, self.process, self.progress) = (uri, process, progress)
  }

  /// Called about once a second while a statement runs.
  func wait() {
    let now = Clock.monotonicMilliseconds
    if now - last > Self.gap { (since, lookedAt) = (now, nil) }
    last = now
    guard now - since >= Self.patience, lookedAt.map({ now - $0 >= Self.repeated }) ?? true else { return }
    lookedAt = now
    guard let (holder, object, remedy) = try? read() else { return }
    progress.update { $0.note(lockHolder: holder) }
    progress.note("apply waits for a lock on \(object), which \(holder) holds; \(remedy)")
  }

  private func read() throws -> (holder: String, object: String, remedy: String)? {
    let connection = try PostgresConnection(uri, application: "cairn")
    // The server gives 0 for a prepared transaction, which has no process. It is found by its lock, or by the
    // transaction for which a row is awaited.
    let found = try connection.query(
      """
      SELECT a.pid, a.usename, a.application_name, l.relation::regclass, p.gid, p.owner
      FROM unnest(pg_blocking_pids($1::integer)) AS b(pid) LEFT JOIN pg_stat_activity AS a ON a.pid = b.pid
        LEFT JOIN pg_locks AS l ON l.pid = $1::integer AND NOT l.granted
        LEFT JOIN LATERAL (
          SELECT x.gid, x.owner FROM pg_prepared_xacts AS x
            JOIN pg_locks AS own ON own.pid IS NULL AND own.granted AND own.transactionid = x.transaction
            JOIN pg_locks AS h ON h.pid IS NULL AND h.granted AND h.virtualtransaction = own.virtualtransaction
          WHERE b.pid = 0 AND (h.locktype, h.database, h.relation, h.page, h.tuple, h.transactionid)
            IS NOT DISTINCT FROM (l.locktype, l.database, l.relation, l.page, l.tuple, l.transactionid)
          ORDER BY x.prepared LIMIT 1) AS p ON true
      ORDER BY a.pid NULLS LAST LIMIT 1
      """, [String(process)])
    guard let row = found.first else { return nil }
    let object = row[3].map { "table \($0)" } ?? "a row"
    if let gid = row[4] {
      let name = gid.postgresLiteral
      return (
        "prepared transaction \(name) of role \(row[5] ?? "?")", object,
        "if it is not wanted, run in that database: ROLLBACK PREPARED \(name)"
      )
    }
    guard row[0] != nil else {
      return ("a prepared transaction", object, "see pg_prepared_xacts, and end it: ROLLBACK PREPARED")
    }
    let texts = row.map { $0 ?? "?" }
    return (
      "process \(texts[0]) of role \(texts[1]) (\(texts[2]))", object, "end that session if it should not have it"
    )
  }
}
