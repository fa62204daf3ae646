import Changes
import ControlAPI
import Endpoints

/// A task that only one worker may have: to capture a database, or to apply one trail to a database.
package enum DatabaseWork: Hashable, Sendable {
  case capture(DatabaseIdentity)
  case apply(DatabaseIdentity, trail: String)

  /// Returns the error for a second worker with this task. `worker` is the first one.
  package func isDone(by worker: WorkerName) -> CairnError {
    switch self {
    case .capture:
      CairnError(
        .confReference, "\(worker) already captures this database, by another URL",
        hint: "remove one of the two from the conf; several applies can read the one trail", remedy: .badInput)
    case .apply(_, let trail):
      CairnError(
        .confReference, "\(worker) already applies trail \(trail) to this database, by another URL",
        hint: "remove one of the two from the conf, or name another database", remedy: .badInput)
    }
  }
}
