/// The codes of all errors that Cairn reports. `cairn explain CODE` explains each. A raw value never changes its
/// meaning.
package enum ErrorCode: String, CaseIterable, Sendable {
  // The command line and the databases
  case usage = "usage"
  case badURL = "bad-url"
  case unsupported = "unsupported"
  case databaseMissing = "database-missing"
  case databaseNotADatabase = "not-a-database"
  case databaseReadOnly = "database-read-only"
  case databaseBusy = "database-busy"
  case databaseFull = "database-full"
  case databaseFailed = "database-failed"
  case databaseDamaged = "database-damaged"
  case databaseUnsafe = "database-unsafe"
  case databaseUnreachable = "database-unreachable"
  case loginRefused = "login-refused"
  case privilegeMissing = "privilege-missing"
  case serverSetting = "server-setting"
  case sameDatabase = "same-database"
  case noTables = "no-tables"
  case tableMissing = "table-missing"
  // The conf
  case confSyntax = "conf-syntax"
  case confUnknown = "conf-unknown"
  case confValue = "conf-value"
  case confTwice = "conf-twice"
  case confMissing = "conf-missing"
  case confReference = "conf-reference"
  case confSecret = "conf-secret"
  case confUnsupported = "conf-unsupported"
  case confUnsafe = "conf-unsafe"
  // State and trails
  case stateLocked = "state-locked"
  case stateUnwritable = "state-unwritable"
  case stateForeign = "state-foreign"
  case diskFull = "disk-full"
  case ioFailed = "io-failed"
  case trailMissing = "trail-missing"
  case trailBusy = "trail-busy"
  case trailDamaged = "trail-damaged"
  case trailVersion = "trail-version"
  case checkpointForeign = "checkpoint-foreign"
  case checkpointMoved = "checkpoint-moved"
  // Capture
  case sourceCaptured = "source-captured"
  case sourceWentBack = "source-went-back"
  case tableRefused = "table-refused"
  case slotLost = "slot-lost"
  case slotMissing = "slot-missing"
  case triggersOff = "triggers-off"
  // Apply
  case targetDiffers = "target-differs"
  case rowMissing = "row-missing"
  case rowDiffers = "row-differs"
  case rowExists = "row-exists"
  case constraintFailed = "constraint-failed"
  case valueMisfit = "value-misfit"
  case nameCollision = "name-collision"
  case schemaStopped = "schema-stopped"
  case ruleRefused = "rule-refused"
  case tableForbidden = "table-forbidden"
  case ownersCode = "owners-code"
  // Conflicts
  case conflictStopped = "conflict-stopped"
  case conflictMissing = "conflict-missing"
  case conflictStale = "conflict-stale"
  case undoRefused = "undo-refused"
  case clockAhead = "clock-ahead"
  case keysAlike = "keys-alike"
  case quarantineHeld = "quarantine-held"
  case quarantineMissing = "quarantine-missing"
  // Comparison
  case driftFound = "drift-found"
  // The daemon
  case daemonUnreachable = "daemon-unreachable"
  case restartNeeded = "restart-needed"
  case diskBudget = "disk-budget"
  // The network
  case peerUnreachable = "peer-unreachable"
  case peerUntrusted = "peer-untrusted"
  case peerUnknown = "peer-unknown"
  case peerRefused = "peer-refused"
  case trailElsewhere = "trail-elsewhere"
  case trailForked = "trail-forked"
  case trailOwn = "trail-own"
  case trailPurged = "trail-purged"
  case busy = "busy"
  // Cairn itself
  case bug = "bug"

  /// The exit status of a program that ends with this code, as in sysexits.h.
  package var exitStatus: Int32 {
    switch self {
    case .usage, .badURL: 64
    case .databaseNotADatabase, .databaseDamaged, .trailDamaged, .trailVersion, .targetDiffers, .rowMissing,
      .rowDiffers, .rowExists, .constraintFailed, .schemaStopped, .sourceWentBack, .checkpointForeign,
      .driftFound, .tableRefused, .noTables, .tableMissing, .slotLost, .valueMisfit, .nameCollision, .ruleRefused,
      .trailForked, .trailPurged, .conflictStopped, .conflictStale, .quarantineHeld:
      65
    case .databaseMissing, .trailMissing, .conflictMissing, .quarantineMissing: 66
    case .unsupported, .databaseFailed, .databaseUnreachable, .slotMissing, .triggersOff, .undoRefused: 69
    case .bug: 70
    case .stateUnwritable: 73
    case .diskFull, .ioFailed, .databaseFull: 74
    case .daemonUnreachable, .peerUnreachable: 69
    case .diskBudget: 74
    case .restartNeeded: 78
    case .databaseBusy, .stateLocked, .trailBusy, .checkpointMoved, .sourceCaptured, .trailElsewhere,
      .busy, .clockAhead:
      75
    case .databaseReadOnly, .databaseUnsafe, .loginRefused, .privilegeMissing, .tableForbidden, .ownersCode,
      .peerUnknown, .peerRefused, .peerUntrusted:
      77
    case .sameDatabase, .stateForeign, .serverSetting, .confSyntax, .confUnknown, .confValue, .confTwice, .confMissing,
      .confReference, .confSecret, .confUnsupported, .confUnsafe, .trailOwn, .keysAlike:
      78
    }
  }
}
