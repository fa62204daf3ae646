import Configuring
import Steering

/// Whether a slot is to be given up before the log that it holds back fills its server's disk: the last step, and only
/// where the conf says so.
package enum SlotVerdict {
  /// With so little left, the server is about to invalidate the slot anyway.
  static let safeBytesMin: Int64 = 256 << 20

  /// `isPaused`: captures rest since the trails have used up their budget, so nothing moves the slot.
  package static func givesUp(
    _ source: NodeStatus.Source, isPaused: Bool, limits: Configuration.Limits
  ) -> Bool {
    guard limits.givesUpSlot, isPaused, let kept = source.slotBytes else { return false }
    if let safe = source.slotSafeBytes { return safe < safeBytesMin }
    // The server sets no limit of its own: it keeps as much for us as we may keep here.
    return limits.diskBytes.map { kept > $0 } ?? false
  }
}
