/// The result of a synchronisation.
public struct SynchronizationOutcome: Sendable, Hashable {
  /// The number of rows that the peer received: inserted, updated, deleted or copied.
  public let sent: UInt64
  /// The number of rows received from the peer.
  public let received: UInt64
  /// The number of conflicts: rows that both databases changed before they knew each other's change. Each conflict is
  /// resolved, and the losing version is kept for 30 days. A conflict that both directions detect counts twice.
  public let conflicts: Int
  /// The number of transactions in quarantine in both databases together, including those of earlier synchronisations.
  public let refused: Int
  /// Messages for the operator that need no immediate action.
  public let notices: [String]
  public let duration: Duration
}

/// The progress of a running synchronisation.
public struct SynchronizationProgress: Sendable, Hashable {
  /// The progress of the first copy of one table.
  public struct Copying: Sendable, Hashable {
    public let table: String
    public let rows: UInt64
    /// The estimated number of rows in the table when its copy began; 0 if unknown.
    public let expected: UInt64
  }
  /// The number of rows that the peer has received so far.
  public let sent: UInt64
  /// The number of rows received from the peer so far.
  public let received: UInt64
  public let conflicts: Int
  public let copying: Copying?
}

/// The commits of this database that the peer may not have.
public struct SynchronizationPending: Sendable, Hashable {
  /// The commits that capture has not read from the file yet.
  public let inFile: Pending
  /// The number of transactions that were read from the file but may not have arrived at the peer.
  public let unsent: Int
  public var isEmpty: Bool { inFile.rows == 0 && unsent == 0 }
}
