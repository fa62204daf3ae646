import Configuring
import Steering

/// Decides whether to drop a replication slot before the log that it holds back fills its server's disk. This is the
/// last resort, and only if the conf allows it.
package enum SlotVerdict {
  /// The number of bytes of log that the server may still write before it invalidates a slot. If fewer are left, the
  /// server will invalidate the slot soon anyway.
  static let safeBytesMin: Int64 = 256 << 20

  /// Returns whether capture may drop the slot.
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
