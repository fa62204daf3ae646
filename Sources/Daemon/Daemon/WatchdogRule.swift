import ControlAPI

/// The signs of life of all workers, and the decision whether the daemon feeds the watchdog of systemd.
///
/// A restart also ends the workers of other databases, and the file or disk that held up a worker holds it up again. So
/// the daemon is only ended if no worker makes progress.
///
///     WatchdogRule([stuck, working], limit: 120_000).feeds   // true, and `silent` has the worker `stuck`
package struct WatchdogRule: Sendable {
  /// The last progress of a worker that has a thread.
  package struct Sign: Equatable, Sendable {
    package let name: WorkerName
    /// The time since the worker reported progress, in ms.
    package let silentMilliseconds: Int64
    /// Whether the thread waits for SQLite, which executes a statement.
    package let isInStatement: Bool

    package init(name: WorkerName, silentMilliseconds: Int64, isInStatement: Bool = false) {
      (self.name, self.silentMilliseconds, self.isInStatement) = (name, silentMilliseconds, isInStatement)
    }
  }

  /// The workers that have reported no progress for longer than the limit.
  package let silent: [Sign]
  /// Whether the watchdog is fed. It is not if all workers are silent outside of SQLite's statements: then the process
  /// itself is locked up.
  package let feeds: Bool

  /// Compares the signs of life with a limit.
  ///
  /// - Parameter signs: One sign for each worker with a thread; empty if no worker runs.
  /// - Parameter limit: The longest silence that needs no report, in ms.
  package init(_ signs: [Sign], limit: Int64) {
    silent = signs.filter { $0.silentMilliseconds > limit }
    feeds = silent.isEmpty || silent.count < signs.count || silent.contains(where: \.isInStatement)
  }
}
