extension TwoWay {
  /// The limits of the applies of one database. Only tests change those of memory.
  ///
  ///     var limits = TwoWay.Limits()
  ///     limits.waitingBytesMax = 128 << 20
  package struct Limits: Sendable {
    /// The maximum time by which a peer's clock may be ahead of this node's clock, in µs; beyond it, apply waits.
    package var skewMicrosecondsMax: Int64 = 60_000_000
    /// The memory limit for rows that are resolved at the end of a transaction, in bytes. Above it, a file is used.
    package var deferredBytesMax = 16 << 20
    /// The size limit for the waiting rows of one trail, in bytes.
    package var waitingBytesMax: Int64 = 64 << 20
    /// PostgreSQL: whether apply locks the rows of every transaction first, not only after groups that failed.
    package var locksFirst = false
    package var movedKeys = MovedKeys()

    package init() {}
  }
}
