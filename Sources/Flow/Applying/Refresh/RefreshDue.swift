import Changes
import Mapping
import SystemKit
import Trails

/// Thrown if the target lacks a row of a partitioned table, and capture may be about to refresh the table.
///
/// PostgreSQL does not report attached, detached or truncated partitions, so capture then refreshes the table. Apply
/// rolls the group back, so that programs get the locks while it waits for the refresh:
///
///     catch let due as RefreshDue { rollBack(); refreshWait.due = due }     // the group
///     try refreshWait.wait(in: folder, options.rules, to: .sqlite, stop)    // before it is applied again
struct RefreshDue: Error {
  /// The longest wait, ms. Capture reads the catalog every two seconds.
  private static let millisecondsMax: Int64 = 5000

  /// The transaction with the change of the row.
  let number: UInt64
  let table: TableSchema
  /// The position of the change.
  let position: Position
  /// The checkpoint at which the group began; nil: the beginning of the trail.
  let start: Checkpoint?
  /// The last transaction whose refreshes count.
  let last: UInt64

  /// Waits until the trail has a refresh of the table, for at most 5 s, or until `stop` is set.
  fileprivate func wait(in folder: String, _ rules: [TableRule], to target: Engine, _ stop: StopSignal) throws {
    let ahead = try RefreshesAhead(in: folder, from: start, through: last, rules: rules, to: target)
    let limit = Clock.monotonicMilliseconds + Self.millisecondsMax
    while try !ahead.copies(table, behind: position), Clock.monotonicMilliseconds < limit {
      Pulse.beat()
      if stop.wait(milliseconds: 250) { return }
    }
  }
}

/// The wait of an apply for a refresh that is due. It happens outside of a transaction, once for each transaction of the
/// trail.
struct RefreshWait {
  /// The refresh for which apply waits before the next group; nil: none.
  var due: RefreshDue?
  /// The last transaction of the trail for which apply has waited.
  private(set) var through: UInt64 = 0

  /// Waits for the refresh that is due, if there is one.
  mutating func wait(in folder: String, _ rules: [TableRule], to target: Engine, _ stop: StopSignal) throws {
    guard let due else { return }
    self.due = nil
    try due.wait(in: folder, rules, to: target, stop)
    through = max(through, due.number)
  }
}
