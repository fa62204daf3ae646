import Changes
import SQLiteKit

extension TargetState {
  /// Deletes apply's state of the trail at the target: its checkpoint and tables. Returns false if there was none.
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
