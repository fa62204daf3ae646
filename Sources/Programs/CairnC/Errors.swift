import CCairn
import CairnCapture

/// An error that only a C program can cause.
struct Misuse: Error {
  let code: cairn_code
  let message: String
  let hint: String
  init(_ code: cairn_code, _ message: String, hint: String = "") {
    (self.code, self.message, self.hint) = (code, message, hint)
  }
}

/// Runs the body of a C function, and returns the code of its result. Stores an error as the thread's last error.
func answering(_ body: () throws -> Void) -> cairn_code {
  do {
    try body()
    return CAIRN_OK
  } catch {
    let (code, message, hint, sqlite) = outward(error)
    cairn_set_error(message, hint, sqlite)
    return code
  }
}

private func outward(_ error: any Error) -> (cairn_code, String, String, Int32) {
  switch error {
  case let error as DatabaseError: (error.kind.code, error.description, "", error.code)
  case let error as SynchronizationError: (error.kind.code, error.message, error.hint, 0)
  case let error as Misuse: (error.code, error.message, error.hint, 0)
  default: (CAIRN_OTHER, "\(error)", "", 0)
  }
}

/// Returns the object of an open handle.
/// - Throws: ``Misuse`` if the handle is NULL, closed, or of another type.
func given<T: AnyObject & Sendable>(_ handle: OpaquePointer?, _ type: T.Type) throws -> T {
  guard let handle else { throw Misuse(CAIRN_MISUSE, "a handle is NULL") }
  guard let object = Handle.object(handle, as: type) else {
    throw Misuse(
      CAIRN_MISUSE, "the handle is closed, or is not of a kind that this function takes",
      hint: "do not use a handle after you closed it")
  }
  return object
}

func given(_ text: UnsafePointer<CChar>?, _ what: String) throws -> String {
  guard let text else { throw Misuse(CAIRN_MISUSE, "\(what) is NULL") }
  guard let text = String(validatingCString: text) else {
    throw Misuse(CAIRN_MISUSE, "\(what) is not UTF-8", hint: "give it as UTF-8")
  }
  return text
}

func given<T>(_ place: UnsafeMutablePointer<T>?, _ what: String) throws -> UnsafeMutablePointer<T> {
  guard let place else { throw Misuse(CAIRN_MISUSE, "\(what) is NULL") }
  return place
}

extension DatabaseError.Kind {
  fileprivate var code: cairn_code {
    switch self {
    case .busy: CAIRN_BUSY
    case .constraint: CAIRN_CONSTRAINT
    case .full: CAIRN_FULL
    case .cannotOpen: CAIRN_CANNOT_OPEN
    case .readOnly: CAIRN_READ_ONLY
    case .notADatabase: CAIRN_NOT_A_DATABASE
    case .damaged: CAIRN_DAMAGED
    case .io: CAIRN_IO
    case .refused: CAIRN_REFUSED
    case .openTransaction, .nestedTransaction, .transactionEnded, .transactionStatement: CAIRN_TRANSACTION
    case .parameterCount: CAIRN_PARAMETERS
    case .closed, .emptyStatement, .severalStatements, .missingColumn, .wrongType, .nodeName: CAIRN_MISUSE
    case .capture: CAIRN_CAPTURE
    }
  }
}

extension SynchronizationError.Kind {
  fileprivate var code: cairn_code {
    switch self {
    case .cancelled: CAIRN_CANCELLED
    case .unreachable: CAIRN_UNREACHABLE
    case .busy: CAIRN_BUSY
    case .clock: CAIRN_CLOCK
    case .alreadyRunning: CAIRN_ALREADY_RUNNING
    case .notInitialized: CAIRN_NOT_INITIALIZED
    case .address: CAIRN_ADDRESS
    case .rule: CAIRN_MISUSE
    case .notAllowed: CAIRN_NOT_ALLOWED
    case .rowsInTheWay: CAIRN_ROWS_IN_THE_WAY
    case .refused: CAIRN_REFUSED
    case .schema: CAIRN_SCHEMA
    case .table: CAIRN_TABLE
    case .wentBack: CAIRN_WENT_BACK
    case .captured: CAIRN_CAPTURE
    case .disk: CAIRN_IO
    case .other: CAIRN_OTHER
    }
  }
}
