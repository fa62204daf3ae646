import Configuring
import ControlAPI

/// Decides whether to drop a replication slot before the log that it keeps fills the server's disk. Without permission
/// in the conf, no slot is dropped.
package enum SlotVerdict {
  // With fewer bytes of log left, the server will soon invalidate the slot itself.
  static let safeBytesMin: Int64 = 256 << 20

  /// Returns whether capture may drop the slot: its log is near the server's limit, or larger than the trails' limit.
  ///
  /// - Parameter isPaused: Whether captures pause because the trails have used up their disk budget, so that the slot
  ///   cannot advance.
  package static func givesUp(
    _ source: NodeStatus.Source, isPaused: Bool, limits: Configuration.Limits
  ) -> Bool {
    guard limits.givesUpSlot, isPaused, let kept = source.slotBytes else { return false }
    if let safe = source.slotSafeBytes { return safe < safeBytesMin }
    // The server sets no limit of its own. Use the limit of the trails for the log of the slot.
    return limits.diskBytes.map { kept > $0 } ?? false
  }
}
