/// What a synchronisation has done.
public struct SynchronizationOutcome: Sendable, Hashable {
  /// Rows that the peer got: inserted, updated, deleted or copied.
  public let sent: UInt64
  /// Rows that came from the peer.
  public let received: UInt64
  /// Rows that both ends had written to, each met at one end or at both. They are settled; what lost is kept for 30 days.
  public let conflicts: Int
  /// Transactions that are put aside at either end, those of earlier synchronisations too.
  public let refused: Int
  /// What a person should know, and need not act on at once.
  public let notices: [String]
  public let duration: Duration
}

/// How far a synchronisation has come.
public struct SynchronizationProgress: Sendable, Hashable {
  /// The table of a first copy.
  public struct Copying: Sendable, Hashable {
    public let table: String
    public let rows: UInt64
    /// How many there were when its copy began; 0: not known.
    public let expected: UInt64
  }
  /// Rows that the peer has got.
  public let sent: UInt64
  /// Rows that have come from the peer.
  public let received: UInt64
  public let conflicts: Int
  public let copying: Copying?
}

/// What was committed here and is not known to be at the peer.
public struct SynchronizationPending: Sendable, Hashable {
  /// What no synchronisation has taken out of the file yet.
  public let inFile: Pending
  /// Transactions of a synchronisation that was interrupted: it took them, and they may not be at the peer.
  public let unsent: Int
  public var isEmpty: Bool { inFile.rows == 0 && unsent == 0 }
}
