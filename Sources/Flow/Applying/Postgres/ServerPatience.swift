import PostgresKit

/// The waits of apply for a PostgreSQL server that is away, or whose sessions hold locks. Pure: the caller passes the
/// time, and waits.
///
///     var patience = ServerPatience()
///     patience.next(after: .away, isDraining: false, now: now)   // .wait(milliseconds: 100)
struct ServerPatience {
  enum Fault {
    /// The connection is lost.
    case away
    /// A session of an application holds a lock, and the group's `lock_timeout` is over.
    case locked
    /// A deadlock, a serialization failure, or a cancelled statement.
    case passing
    case other
  }
  enum Next: Equatable {
    /// Wait, then apply the group again. The caller adds a random part, so that several applies do not return at the
    /// same moment.
    case wait(milliseconds: Int64)
    case fail
  }

  private static let conflictsMax = 10
  private static let waitMax: Int64 = 5000
  /// The time in ms after which apply ends with an error if the server stays unreachable and apply drains the trail.
  /// The time also counts while the server is busy or read-only.
  private static let awayMax: Int64 = 60_000
  /// The `lock_timeout` of two-way apply in ms, at first and at most: each lock timeout doubles it.
  ///
  /// Both are below `deadlock_timeout` (1 s), so in a deadlock PostgreSQL never cancels an application's transaction.
  private static let lock: (first: Int64, most: Int64) = (50, 800)

  private(set) var lockMilliseconds = lock.first
  private var awaySince: Int64?
  private var conflicts = 0
  private var wait: Int64 = 100
  /// The time at which apply last queried the idle server, ms.
  var lookedAt: Int64 = 0

  /// Whether apply waits for a lost server.
  var isAway: Bool { awaySince != nil }

  /// Called when the server answers.
  mutating func connected() { (awaySince, wait) = (nil, 100) }

  /// Called after a commit.
  mutating func moved() { (conflicts, lockMilliseconds) = (0, Self.lock.first) }

  mutating func next(after fault: Fault, isDraining: Bool, now: Int64) -> Next {
    switch fault {
    case .away:
      let since = awaySince ?? now
      awaySince = since
      if isDraining, now - since > Self.awayMax { return .fail }
    case .locked:
      // Locks are granted in order, so apply gets its lock if it waits as long as the applications' transactions take.
      lockMilliseconds = min(lockMilliseconds * 2, Self.lock.most)
    case .passing:
      conflicts += 1
      if conflicts >= Self.conflictsMax { return .fail }
    case .other: return .fail
    }
    return pause()
  }

  /// Returns the next wait for a server that came back busy or read-only; nil if apply did not wait for a lost server.
  mutating func nextWhileBusy() -> Next? { isAway ? pause() : nil }

  /// Returns whether a lost server stayed busy or read-only for too long.
  func isOver(now: Int64) -> Bool { now - (awaySince ?? 0) > Self.awayMax }

  private mutating func pause() -> Next {
    defer { wait = min(wait * 2, Self.waitMax) }
    return .wait(milliseconds: wait)
  }
}

extension ServerPatience.Fault {
  init(_ error: PostgresError) {
    if error.isServerGone {
      self = .away
    } else if error.isLockTimeout {
      self = .locked
    } else {
      self = error.isTransient || error.isCancelled ? .passing : .other
    }
  }
}
