import Changes
import Endpoints

/// The reason why a synchronisation failed. No committed change is lost, and no change is applied twice. The next
/// synchronisation continues where this one stopped.
///
/// Messages of kind `refused` contain the key of the refused row, and the value if the value is the cause. Messages of
/// all other kinds contain no values.
///
/// If the program misuses its own database, the error is a ``DatabaseError`` instead.
///
/// ```swift
/// do { try sync.synchronize() } catch let error as SynchronizationError { print(error.kind) }
/// ```
public struct SynchronizationError: Error, Sendable {
  public enum Kind: Sendable, Hashable {
    /// ``Synchronizer/cancel()`` was called, or the task was cancelled.
    case cancelled
    /// The connection to the peer could not be made, or was lost. Try again later.
    case unreachable
    /// Another program holds a lock in one of the two databases. Try again.
    case busy
    /// The clock of one end is too far ahead of the other's. Rows with a commit time in the future are not applied
    /// before that time.
    case clock
    /// This ``Synchronizer``, or another one with the same state folder, is already synchronising.
    case alreadyRunning
    /// `initialize()` of ``Synchronizer`` has not been called.
    case notInitialized
    /// The peer's address is invalid, or names no database that can be synchronised.
    case address
    /// A rule in ``Synchronizer/Options/conflict`` or ``Synchronizer/Options/columnConflicts`` is invalid, or the name
    /// in ``Synchronizer/Options/state`` is empty.
    case rule
    /// The peer refused the login, a privilege is missing, or a setting of the server does not allow replication.
    case notAllowed
    /// The database that the first copy of tables and rows would fill already has rows.
    case rowsInTheWay
    /// One of the two databases refused a transaction because of its rows. See ``Synchronizer/Options/refusal``.
    case refused
    /// A table is suspended until its definition is changed; the hint has the SQL statement. All other tables are
    /// synchronised.
    case schema
    /// A table cannot be synchronised in both directions, for example because it has no key.
    case table
    /// One of the two databases was restored from a backup, or the state folder belongs to other databases. All tables
    /// and rows must be copied once more.
    case wentBack
    /// Another capture already reads the database.
    case captured
    /// A disk is full or failed, or a file cannot be read or written.
    case disk
    /// Any other error; the message explains it.
    case other
  }

  public let kind: Kind
  /// The error code for `cairn explain CODE`; empty if the error has none.
  public let code: String
  public let message: String
  /// The next step for the operator or the program.
  public let hint: String

  init(_ kind: Kind, _ message: String, hint: String, code: String = "") {
    (self.kind, self.message, self.hint, self.code) = (kind, message, hint, code)
  }

  package init(_ error: CairnError) {
    let kind = Self.kind(error.code)
    self.init(kind, error.message, hint: Self.hint(kind, error), code: error.code.rawValue)
  }

  /// Returns the hint of an error, with names of ``Synchronizer/Options`` instead of command-line options.
  private static func hint(_ kind: Kind, _ error: CairnError) -> String {
    switch (kind, error.code) {
    case (.rowsInTheWay, _):
      "copy in the other direction (Options.firstCopy), empty its tables, or let it replace the rows (Options.overwrites)"
    case (.wentBack, _):
      "run 'cairn detach' on the program's file, delete the state folder (Options.state), and initialize with Options.overwrites"
    case (.refused, .constraintFailed), (.refused, .rowExists):
      "change the row here, or the constraint that refuses it at the other end; or \(setAside)"
    case (.refused, .valueMisfit):
      "change the column at the other end so that it takes such values, or \(setAside); changing the row does not help, as its first version is sent first"
    case (.clock, _):
      "set the clocks of both ends, for example by NTP; synchronisation continues when the local clock reaches that time"
    case (.alreadyRunning, .stateLocked):
      "wait until it ends; two programs that open the same database need an Options.state each, and only one may synchronise it"
    case (.captured, _):
      "if that is the state of this database and this peer, name its folder as Options.state; else run 'cairn detach' on the file first"
    default: inOptions(error.hint)
    }
  }

  private static let setAside =
    "choose Options.refusal = .setAside: the transaction goes into quarantine, and later ones continue ('cairn quarantine' lists and discards it)"

  private static let names = [
    "--tables": "Options.tables", "--state": "Options.state", "--ddl": "Options.schemaChanges",
    "--existing overwrite": "Options.overwrites", "--existing": "Options.overwrites",
  ]

  /// Replaces command-line options by the names of ``Synchronizer/Options``.
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

  /// Runs `body`, and converts its errors to ``SynchronizationError``, except ``DatabaseError``.
  static func wrapping<T>(_ body: () throws -> T) throws -> T {
    do { return try body() } catch let error as SynchronizationError { throw error } catch let error as DatabaseError {
      throw error
    } catch { throw SynchronizationError(CairnError(enveloping: error, doing: "synchronise")) }
  }
}

extension SynchronizationError: CustomStringConvertible {
  public var description: String { "\(message)\(code.isEmpty ? "" : " [\(code)]") (hint: \(hint))" }
}
