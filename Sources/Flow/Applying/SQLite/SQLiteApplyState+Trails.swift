import Changes
import SQLiteKit

extension SQLiteApplyState {
  /// Deletes what apply stored about the trail: its checkpoint and its table states. Replicated tables stay. Returns
  /// false if apply had stored nothing.
  package func forgetTrail() throws -> Bool {
    guard let trail, try isInstalled() else { return false }
    return try database.transaction {
      try upgrade()
      var count: Int64 = 0
      for table in ["cairn_checkpoint", "cairn_table"] {
        try database.run("DELETE FROM \(table) WHERE trail = ?", [.text(trail.description)])
        count += Int64(database.changes)
      }
      try QuarantineLog(database).forget(trail)
      try SQLiteGuards(database).reconcile()
      return count > 0
    }
  }
}
