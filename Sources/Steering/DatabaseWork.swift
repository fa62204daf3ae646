import Changes
import Operating

/// A task on a database that only one worker may have, by whatever URL it gets there.
package enum DatabaseWork: Hashable, Sendable {
  case capture(DatabaseIdentity)
  case apply(DatabaseIdentity, trail: String)

  /// Returns the error for another worker that wants the same task.
  package func isDone(by worker: WorkerName) -> CairnError {
    switch self {
    case .capture:
      CairnError(
        .confReference, "\(worker) captures this database already, by another URL",
        hint: "take one of the two out of the conf; an apply for each target reads the one trail", remedy: .badInput)
    case .apply(_, let trail):
      CairnError(
        .confReference, "\(worker) brings trail \(trail) into this database already, by another URL",
        hint: "take one of the two out of the conf, or name another database", remedy: .badInput)
    }
  }
}
