import Changes

/// Decides whether a worker that ended with an error is started again, and after which pause.
package enum RestartPolicy {
  package enum Judgement: Equatable, Sendable {
    case after(Pace)
    case never
  }

  /// The length of the pauses before a worker is started again.
  package enum Pace: Equatable, Sendable {
    /// Short pauses, for a cause that usually ends by itself, such as a lock or a lost connection.
    case brief
    /// Long pauses, for a cause that usually lasts until an operator acts, such as a full disk.
    case patient

    var firstMilliseconds: Int64 { self == .brief ? 500 : 2_000 }
    var mostMilliseconds: Int64 { 60_000 }
  }

  /// The length of a run, in ms, after which earlier failures of the worker no longer count for the next pause.
  package static let steadyMilliseconds: Int64 = 60_000
  // In a row, for an error that is a bug of Cairn.
  private static let bugTries = 3

  package static func judge(_ error: CairnError, failures: Int) -> Judgement {
    if error.remedy == .retry { return .after(.brief) }
    if isOutside(error.code) { return .after(.patient) }
    if error.remedy == .bug { return failures <= bugTries ? .after(.patient) : .never }
    return .never
  }

  /// Returns the pause before the next start of a worker, in ms. The pause doubles with each failure in a row, up to 60
  /// s. Half of the pause is multiplied by `jitter`, a number from 0 to 1.
  package static func delay(failures: Int, jitter: Double, of pace: Pace) -> Int64 {
    let most = min(pace.firstMilliseconds << Int64(min(max(failures, 1) - 1, 16)), pace.mostMilliseconds)
    return most / 2 + Int64(Double(most / 2) * min(max(jitter, 0), 1))
  }

  static func isOfEnding(_ error: CairnError) -> Bool { error.code == .schemaStopped }

  // The cause is then outside of the databases' contents and Cairn's state, so another attempt does no harm.
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
