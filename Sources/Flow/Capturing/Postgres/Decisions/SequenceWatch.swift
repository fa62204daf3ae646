import Changes

/// Decides when capture reads the values of sequences, and which values go into the trail. Capture reads them only
/// after changes of rows. The parameter `now` is monotonic time in ms.
struct SequenceWatch {
  private static let intervalMilliseconds: Int64 = 5000
  private var values: [NameKey: Int64] = [:]
  private var readAt: Int64 = 0
  private var hasChanges = true

  mutating func noteChanges() { hasChanges = true }

  /// Returns whether capture must read the values of sequences now.
  ///
  /// - Parameter isLast: Whether capture is about to end. If so, the usual pause of 5 s between two reads is left out.
  mutating func isDue(isLast: Bool, now: Int64) -> Bool {
    guard hasChanges, isLast || now - readAt > Self.intervalMilliseconds else { return false }
    (readAt, hasChanges) = (now, false)
    return true
  }

  /// Returns those of the `found` values that this capture has not written to the trail, and registers them as written.
  ///
  /// - Parameter wanted: The names, `SCHEMA.NAME`, of the sequences of captured tables.
  mutating func news(_ found: [SequenceState], of wanted: Set<NameKey>) -> [SequenceState] {
    found.filter { state in
      let name = "\(state.namespace).\(state.name)".nameKey
      guard wanted.contains(name), values[name] != state.last else { return false }
      values[name] = state.last
      return true
    }
  }
}
