import Changes

/// Decides which values of sequences go into the trail, and when. This type does no I/O; `now` is monotonic time in ms.
///
/// Capture reads the values only after changes of rows, because a sequence advances with the rows that use it.
struct SequenceWatch {
  private static let intervalMilliseconds: Int64 = 5000
  private var values: [NameKey: Int64] = [:]
  private var readAt: Int64 = 0
  private var hasChanges = true

  /// Remembers that changes of rows were captured since the values of sequences were read last.
  mutating func noteChanges() { hasChanges = true }

  /// Returns whether capture must read the values of sequences now.
  ///
  /// - Parameter isLast: Whether the run of capture ends.
  mutating func isDue(isLast: Bool, now: Int64) -> Bool {
    guard hasChanges, isLast || now - readAt > Self.intervalMilliseconds else { return false }
    (readAt, hasChanges) = (now, false)
    return true
  }

  /// Returns the values of sequences that the trail does not have yet, and remembers them as written to the trail.
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
