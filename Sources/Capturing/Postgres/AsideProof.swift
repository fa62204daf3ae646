import PostgresKit

/// Proves that nothing was committed to a PostgreSQL server but by applies, while nobody reads its log: whoever writes has a
/// transaction number.
struct AsideProof {
  enum Finding: Equatable {
    /// Somebody else's may have been committed since.
    case others
    /// Somebody else's runs. It may have its commit in the log already, and not count as ended.
    case open
    /// These have ended since, all of applies; nobody else has anything in the log up to where it was before the moment.
    case alone([UInt64])
  }

  private var passed: ServerMoment
  /// The message behind which it began.
  private let message: UInt64

  init(passed: ServerMoment, message: UInt64) { (self.passed, self.message) = (passed, message) }

  /// `applied`: whether a transaction is an apply's, and was told to be. `running`: the low half of the numbers that sessions of
  /// applies had behind that moment.
  mutating func look(at now: ServerMoment, applied: (UInt64) -> Bool, running: Set<UInt32>) -> Finding {
    guard let ended = now.ended(since: passed)?.filter({ $0 != message }), ended.allSatisfy(applied) else {
      return .others
    }
    guard now.running.allSatisfy({ applied($0) || running.contains(UInt32(truncatingIfNeeded: $0)) }) else {
      return .open
    }
    passed = now
    return .alone(ended)
  }
}
