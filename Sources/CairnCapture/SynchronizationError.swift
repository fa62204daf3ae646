import Changes
import Operating

/// Why a synchronisation did not come to its end. Nothing that was committed is lost, and nothing is applied twice: the next
/// one goes on where this one ended.
///
/// The message of one of kind `refused` names the row by its key, and the value where it is one that is not taken: whoever mends it
/// needs them. Others have no values.
///
/// What is wrong with the program's own use of its database is a ``DatabaseError``, as everywhere.
public struct SynchronizationError: Error, Sendable {
  public enum Kind: Sendable, Hashable {
    /// ``Synchronizer/cancel()``, or the task was cancelled.
    case cancelled
    /// There is no line to the peer, or it was lost. Try again later.
    case unreachable
    /// A lock of somebody else, at either end. Try again.
    case busy
    /// The clock of one end was ahead: what was committed then has a time that has not come yet, and waits for it.
    case clock
    /// This ``Synchronizer`` is at work already, or another one with the same state folder.
    case alreadyRunning
    /// ``Synchronizer/initialize(progress:)-(_)`` has not been called.
    case notInitialized
    /// The peer's address is none.
    case address
    /// A rule in ``Synchronizer/Options/conflict`` or ``Synchronizer/Options/columnConflicts`` is none, or the name in
    /// ``Synchronizer/Options/state`` is empty.
    case rule
    /// The peer does not let us in, or the role lacks a privilege, or a setting of the server is missing.
    case notAllowed
    /// The end to which the first copy goes holds rows already.
    case rowsInTheWay
    /// A transaction that an end does not take for its rows. See ``Synchronizer/Options/refusal``.
    case refused
    /// A table waits for a change of its schema; the hint has the statement. All others are synchronised.
    case schema
    /// A table cannot go both ways: it has no key, for example.
    case table
    /// An end was restored from a backup, or the state folder is not the one of this pair: a first copy is needed.
    case wentBack
    /// The database is captured by somebody else.
    case captured
    /// A disk is full, or failed, or a file cannot be read or written.
    case disk
    /// Something else; the message says what.
    case other
  }

  public let kind: Kind
  /// As `cairn explain CODE` has it; empty where it is none of those.
  public let code: String
  public let message: String
  /// What to do next.
  public let hint: String

  init(_ kind: Kind, _ message: String, hint: String, code: String = "") {
    (self.kind, self.message, self.hint, self.code) = (kind, message, hint, code)
  }

  package init(_ error: CairnError) {
    let kind = Self.kind(error.code)
    self.init(kind, error.message, hint: Self.hint(kind, error), code: error.code.rawValue)
  }

  /// For programs, which have options of another kind than the command line.
  private static func hint(_ kind: Kind, _ error: CairnError) -> String {
    switch (kind, error.code) {
    case (.rowsInTheWay, _):
      "copy in the other direction (Options.firstCopy), empty its tables, or let it replace the rows (Options.overwrites)"
    case (.wentBack, _):
      "run 'cairn detach' on the program's file, delete the state folder (Options.state), and initialize with Options.overwrites"
    case (.refused, .constraintFailed), (.refused, .rowExists):
      "change the row here, or what refuses it there; or \(setAside)"
    case (.refused, .valueMisfit):
      "have the column of the other end take such values, or \(setAside); to change the row is too late, as what was committed goes over in its order"
    case (.clock, _):
      "set the clocks of both ends right, such as by NTP; it goes on when that time has come"
    case (.alreadyRunning, .stateLocked):
      "wait until it ends; two programs with the same database need an Options.state each, and only one may synchronise it"
    case (.captured, _):
      "if that is the state of this database and this peer, give its folder as Options.state; else end it first, with 'cairn detach' on the file"
    default: inOptions(error.hint)
    }
  }

  private static let setAside =
    "choose Options.refusal = .setAside: the transaction is put aside, and the others go on ('cairn quarantine' lists and discards it)"

  private static let names = [
    "--tables": "Options.tables", "--state": "Options.state", "--ddl": "Options.schemaChanges",
    "--existing overwrite": "Options.overwrites", "--existing": "Options.overwrites",
  ]

  /// The options of the command line by the names that they have here.
  static func inOptions(_ hint: String) -> String {
    names.sorted { $0.key.count > $1.key.count }.reduce(hint) { $0.replacing($1.key, with: $1.value) }
  }

  private static func kind(_ code: ErrorCode) -> Kind {
    switch code {
    case .databaseUnreachable: .unreachable
    case .databaseBusy, .checkpointMoved, .slotMissing, .busy: .busy
    case .clockAhead: .clock
    case .stateLocked, .trailBusy: .alreadyRunning
    case .badURL, .sameDatabase, .unsupported: .address
    case .loginRefused, .privilegeMissing, .serverSetting, .databaseReadOnly, .databaseUnsafe: .notAllowed
    case .targetDiffers: .rowsInTheWay
    case .constraintFailed, .valueMisfit, .rowMissing, .rowDiffers, .rowExists, .conflictStopped, .quarantineHeld:
      .refused
    case .schemaStopped, .ruleRefused: .schema
    case .tableRefused, .noTables, .tableMissing, .nameCollision, .keysAlike: .table
    case .sourceWentBack, .checkpointForeign, .stateForeign, .slotLost, .trailMissing, .trailDamaged: .wentBack
    case .sourceCaptured: .captured
    case .diskFull, .databaseFull, .ioFailed, .stateUnwritable, .databaseFailed, .databaseDamaged, .databaseMissing,
      .databaseNotADatabase:
      .disk
    default: .other
    }
  }

  /// Calls `body`; what it throws comes out as an error of this type, or as that of the program's own database.
  static func wrapping<T>(_ body: () throws -> T) throws -> T {
    do { return try body() } catch let error as SynchronizationError { throw error } catch let error as DatabaseError {
      throw error
    } catch { throw SynchronizationError(CairnError(enveloping: error, doing: "synchronise")) }
  }
}

extension SynchronizationError: CustomStringConvertible {
  public var description: String { "\(message)\(code.isEmpty ? "" : " [\(code)]") (hint: \(hint))" }
}
