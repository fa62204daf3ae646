import PostgresKit
import SystemKit

/// Reports which session holds the lock for which a session of apply waits.
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
    guard let (holder, object) = try? read() else { return }
    progress.update { $0.note(lockHolder: holder) }
    progress.note(
      "apply waits for a lock on \(object), which \(holder) holds; end that session if it should not have it")
  }

  private func read() throws -> (holder: String, object: String)? {
    let connection = try PostgresConnection(uri, application: "cairn")
    let found = try connection.query(
      """
      SELECT a.pid, a.usename, a.application_name, l.relation::regclass
      FROM unnest(pg_blocking_pids($1::integer)) AS b(pid) JOIN pg_stat_activity AS a ON a.pid = b.pid
        LEFT JOIN pg_locks AS l ON l.pid = $1::integer AND NOT l.granted
      ORDER BY a.pid LIMIT 1
      """, [String(process)])
    guard let row = found.first else { return nil }
    let texts = row.map { $0 ?? "?" }
    return (
      "process \(texts[0]) of role \(texts[1]) (\(texts[2]))", row[3].map { "table \($0)" } ?? "a row"
    )
  }
}
