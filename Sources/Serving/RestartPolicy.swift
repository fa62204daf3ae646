import Changes

/// Which errors of a worker are tried again, and when.
package enum RestartPolicy {
  package enum Judgement: Equatable, Sendable {
    case after(Pace)
    /// A person has to do something first.
    case never
  }

  /// How fast it is tried again, and how slow at last.
  package enum Pace: Equatable, Sendable {
    /// What usually passes by itself: a lock, a connection.
    case brief
    /// What somebody has to mend elsewhere, without a word to us: a disk, a login, a file that was moved away.
    case patient

    var firstMilliseconds: Int64 { self == .brief ? 500 : 2_000 }
    var mostMilliseconds: Int64 { 60_000 }
  }

  /// A run of this length was a good one: the next error is the first again.
  package static let steadyMilliseconds: Int64 = 60_000
  /// How often a fault of our own is tried again.
  private static let bugTries = 3

  package static func judge(_ error: CairnError, failures: Int) -> Judgement {
    if error.remedy == .retry { return .after(.brief) }
    if isOutside(error.code) { return .after(.patient) }
    if error.remedy == .bug { return failures <= bugTries ? .after(.patient) : .never }
    return .never
  }

  /// How long to wait: twice as long after every failure in a row, up to a limit; half of it drawn, so that workers that
  /// failed together do not all come back together.
  package static func delay(failures: Int, jitter: Double, of pace: Pace) -> Int64 {
    let most = min(pace.firstMilliseconds << Int64(min(max(failures, 1) - 1, 16)), pace.mostMilliseconds)
    return most / 2 + Int64(Double(most / 2) * min(max(jitter, 0), 1))
  }

  /// Errors with which workers end when they are told to, and which say nothing new.
  static func isOfEnding(_ error: CairnError) -> Bool { error.code == .schemaStopped }

  /// Causes that lie outside of the databases' contents and of our state: to try again harms nothing, and finds out
  /// when they are gone.
  private static func isOutside(_ code: ErrorCode) -> Bool {
    switch code {
    case .databaseMissing, .databaseReadOnly, .databaseUnsafe, .databaseBusy, .databaseFull, .databaseFailed,
      .databaseUnreachable,
      .loginRefused, .privilegeMissing, .serverSetting, .stateUnwritable, .diskFull, .ioFailed, .trailMissing,
      .trailBusy, .trailElsewhere, .slotMissing, .noTables, .tableRefused, .schemaStopped:
      true
    default: false
    }
  }
}
