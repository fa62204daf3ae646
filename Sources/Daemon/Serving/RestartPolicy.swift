import Changes

/// Decides whether a worker that ended with an error is started again, and after which pause.
package enum RestartPolicy {
  package enum Judgement: Equatable, Sendable {
    case after(Pace)
    /// The worker is not started again before the operator has acted.
    case never
  }

  /// The pauses between attempts to start a worker again: the pause after the first failure, and the longest one.
  package enum Pace: Equatable, Sendable {
    /// Short pauses, for causes that usually pass by themselves: a lock, a connection.
    case brief
    /// Long pauses, for causes that usually last until an operator removes them: a full disk, a refused login, a moved
    /// file.
    case patient

    var firstMilliseconds: Int64 { self == .brief ? 500 : 2_000 }
    var mostMilliseconds: Int64 { 60_000 }
  }

  /// The length of a run, in milliseconds, after which earlier failures no longer count: the next failure is the first
  /// in a row.
  package static let steadyMilliseconds: Int64 = 60_000
  /// The maximum number of times in a row that a worker is started again after an error that is a bug of Cairn.
  private static let bugTries = 3

  package static func judge(_ error: CairnError, failures: Int) -> Judgement {
    if error.remedy == .retry { return .after(.brief) }
    if isOutside(error.code) { return .after(.patient) }
    if error.remedy == .bug { return failures <= bugTries ? .after(.patient) : .never }
    return .never
  }

  /// Returns the pause before the next attempt in milliseconds. It doubles with every failure in a row, up to a limit.
  /// Half of it is random, so that workers that failed together do not start again together.
  package static func delay(failures: Int, jitter: Double, of pace: Pace) -> Int64 {
    let most = min(pace.firstMilliseconds << Int64(min(max(failures, 1) - 1, 16)), pace.mostMilliseconds)
    return most / 2 + Int64(Double(most / 2) * min(max(jitter, 0), 1))
  }

  /// Returns whether the error is the intended end of the worker, which is not reported as a failure.
  static func isOfEnding(_ error: CairnError) -> Bool { error.code == .schemaStopped }

  /// Returns whether the cause of an error is neither in the contents of a database nor in Cairn's own state. A new
  /// attempt then does no harm, and succeeds as soon as the cause is gone.
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
