import CPostgres
import Changes
import Glibc
import Synchronization
import SystemKit

/// A connection to one PostgreSQL database, for use on one thread. The session settings fix the text form of values,
/// such as dates in UTC.
///
/// Source: https://www.postgresql.org/docs/15/libpq.html
///
///     let connection = try PostgresConnection("postgresql://db.example/shop")
///     let rows = try connection.query("SELECT id FROM item WHERE name = $1", ["tea"])
package final class PostgresConnection {
  package enum Purpose: Sendable {
    case sql
    /// A connection for the streaming replication protocol.
    case replication
  }

  /// The user, host, port and database for messages, without the password: `postgresql://app@db.example/shop`.
  package let place: String
  private let purpose: Purpose
  let handle: OpaquePointer
  /// The file descriptor that, once readable, cancels the running statement; -1 for none.
  package var interrupt: Int32 = -1
  /// A function that is called about once a second during a statement, and returns false to cancel the statement.
  package var onWait: (() -> Bool)?
  /// Returns whether the process must end; nil: unknown. Then a statement without an ``interrupt`` is cancelled if the
  /// server has not answered for a second. Otherwise, the statement would wait on, and its session after the process.
  package static let isEnding = Mutex<(@Sendable () -> Bool)?>(nil)

  /// The session settings that decide how values and definitions print.
  package static let printSettings = [
    "DateStyle=ISO,MDY", "IntervalStyle=postgres", "TimeZone=UTC", "extra_float_digits=3", "bytea_output=hex",
    "lc_monetary=C", "quote_all_identifiers=off", "jit=off",
  ]

  // `row_security=off` makes a read fail if a policy would filter rows, because the policy's functions would run with
  // Cairn's rights.
  // Timeouts of the database or role would end copies and changes of large tables again and again. `exit_on_error` would
  // end the session at a refused statement. A read-only database stays so: hosts set that on a full disk.
  private static let settings =
    printSettings + [
      "role=none", "row_security=off", "search_path=pg_catalog", "xmloption=content", "standard_conforming_strings=on",
      "default_transaction_isolation=read\\ committed", "default_transaction_deferrable=off", "array_nulls=on",
      "transform_null_equals=off", "statement_timeout=0", "lock_timeout=0", "idle_in_transaction_session_timeout=0",
      "exit_on_error=off",
    ]
  /// Settings that a session may make from PostgreSQL 14 on.
  // A session whose process was killed ends within ten seconds, also while it waits for a lock.
  private static let laterSettings = [
    "idle_session_timeout=0", "wal_sender_timeout=60s", "client_connection_check_interval=10s",
  ]

  /// Connects to a server. `uri` is anything that libpq accepts. Throws ``PostgresError``, with an empty SQLSTATE if no
  /// server answered.
  package init(_ uri: String, purpose: Purpose = .sql, application: String = "cairn") throws {
    place = Self.place(of: uri)
    self.purpose = purpose
    var given = Self.options(of: uri)
    given["client_encoding"] = "UTF8"
    given["application_name"] = application
    given["connect_timeout"] = given["connect_timeout"] ?? "10"
    given["keepalives_idle"] = given["keepalives_idle"] ?? "30"
    given["tcp_user_timeout"] = given["tcp_user_timeout"] ?? "60000"
    if purpose == .replication { given["replication"] = "database" }

    let (place, parts) = (place, given)
    func open(_ settings: [String]) throws -> OpaquePointer {
      var given = parts
      let own = settings.map { "-c \($0)" }.joined(separator: " ")
      // Cairn's options come last: if an option is given twice, the last one counts.
      given["options"] = (given["options"].map { $0 + " " } ?? "") + own
      let keys = given.keys.sorted()
      let words = (keys + keys.compactMap { given[$0] }).map { strdup($0) }
      defer { for word in words { free(word) } }
      let names = words.prefix(keys.count).map { UnsafePointer($0) } + [nil]
      let values = words.suffix(keys.count).map { UnsafePointer($0) } + [nil]
      guard let opened = PQconnectdbParams(names, values, 0) else {
        throw PostgresError(sqlState: "", message: "out of memory", place: place, isConnectionLost: true)
      }
      guard PQstatus(opened) == CONNECTION_OK else {
        let message = Self.line(PQerrorMessage(opened))
        PQfinish(opened)
        throw Self.refusal(message, place)
      }
      return opened
    }
    do { handle = try open(Self.settings + Self.laterSettings) } catch let error as PostgresError
      where error.message.contains("idle_session_timeout")
      || error.message.contains("client_connection_check_interval")
    {
      handle = try open(Self.settings)
    }
    _ = PQsetNoticeProcessor(handle, { _, _ in }, nil)
    // Servers before 17 do not know this setting.
    if serverVersion >= 170_000 { try execute("SET transaction_timeout = 0") }
    if purpose == .sql { try barViews() }
  }

  deinit { PQfinish(handle) }

  /// Closes the connection's socket at once, so that the server does not wait for Cairn. Later calls fail.
  package func cut() { _ = shutdown(PQsocket(handle), Int32(SHUT_RDWR)) }

  // libpq gives no SQLSTATE for a failed login, so it is derived from libpq's message.
  private static func refusal(_ message: String, _ place: String) -> PostgresError {
    let known = [
      ("password authentication failed", "28P01"), ("no password supplied", "28P01"), ("no pg_hba.conf entry", "28000"),
      ("authentication failed", "28000"), ("is not permitted to log in", "28000"),
      ("must be superuser or replication role to start walsender", "42501"), ("starting up", "57P03"),
      ("shutting down", "57P03"), ("recovery mode", "57P03"), ("not yet accepting connections", "57P03"),
      ("too many clients", "53300"), ("remaining connection slots", "53300"), ("too many connections", "53300"),
      ("max_wal_senders", "53300"),
    ]
    var state = known.first { message.contains($0.0) }?.1 ?? ""
    if state.isEmpty, message.contains("role \""), message.contains("does not exist") { state = "28000" }
    if state.isEmpty, message.contains("database \""), message.contains("does not exist") { state = "3D000" }
    return PostgresError(
      sqlState: state, message: message, place: place, isConnectionLost: state.isEmpty || state == "57P03")
  }

  static func options(of uri: String) -> [String: String] {
    var error: UnsafeMutablePointer<CChar>?
    guard let list = PQconninfoParse(uri, &error) else {
      PQfreemem(error)
      // An unreadable text is not shown: it may hold a password.
      return ["dbname": uri.utf8.contains(UInt8(ascii: "/")) ? "…" : uri]
    }
    defer { PQconninfoFree(list) }
    return values(list)
  }

  static func values(_ list: UnsafeMutablePointer<PQconninfoOption>) -> [String: String] {
    var options: [String: String] = [:]
    var next = list
    while let key = next.pointee.keyword {
      if let value = next.pointee.val { options[String(cString: key)] = String(cString: value) }
      next += 1
    }
    return options
  }

  /// Returns the reason why libpq cannot read a URI, without the password; nil if libpq can read it.
  package static func problem(with uri: String) -> String? {
    var error: UnsafeMutablePointer<CChar>?
    if let list = PQconninfoParse(uri, &error) {
      PQconninfoFree(list)
      return URLPassword.fault(in: uri)
    }
    defer { PQfreemem(error) }
    return error.map { withoutValues(line($0), of: uri) } ?? "it cannot be read"
  }

  // The part that libpq could not read may be part of a password.
  private static func withoutValues(_ message: String, of uri: String) -> String {
    guard uri.has("@") || uri.has("?") || uri.asciiLowercased.contains("password") else { return message }
    // libpq repeats the whole text if it reads it as a connection string of the other form.
    guard uri.hasPrefix("postgresql://") || uri.hasPrefix("postgres://") else { return "it is no URI of PostgreSQL" }
    let bytes = Array(message.utf8)
    // All text that libpq quotes is part of the URI, except for this sign.
    let sign = Array("\"=\"".utf8)
    var end = bytes.startIndex
    while end < bytes.endIndex, bytes[end] != UInt8(ascii: "\"") || bytes[end...].starts(with: sign) {
      end += bytes[end...].starts(with: sign) ? sign.count : 1
    }
    let ends: Set<UInt8> = [UInt8(ascii: ":"), UInt8(ascii: " ")]
    let shown = bytes[..<min(end, bytes.endIndex)].reversed().drop { ends.contains($0) }
    return String(decoding: Array(shown.reversed()), as: UTF8.self)
  }

  /// Returns the user, host, port and database of a URI, for messages: `postgresql://app@db.example/shop`.
  package static func place(of uri: String) -> String {
    // Otherwise libpq would read part of the password as the host or the database.
    if let fault = URLPassword.fault(in: uri) { return "postgresql://… (\(fault))" }
    let given = options(of: uri)
    let user = given["user"].map { "\($0)@" } ?? ""
    let host = given["host"] ?? given["hostaddr"] ?? given["service"].map { "service \($0)" } ?? "local"
    let port = given["port"].map { ":\($0)" } ?? ""
    return "postgresql://\(user)\(host)\(port)/\(given["dbname"] ?? given["user"] ?? "")"
  }

  // MARK: Statements

  /// The version of the server, such as 150018.
  package var serverVersion: Int { Int(PQserverVersion(handle)) }
  package var backendPID: Int32 { PQbackendPID(handle) }
  package var isInTransaction: Bool { [PQTRANS_INTRANS, PQTRANS_INERROR].contains(PQtransactionStatus(handle)) }
  package var isUsable: Bool { PQstatus(handle) == CONNECTION_OK }

  /// Runs one statement without parameters. Returns the number of rows that it changed, or that a query returned.
  @discardableResult package func execute(_ sql: String) throws -> Int64 {
    try sendParameters(sql, [])
    return try finish(sql).touched
  }

  /// Runs several statements of constant text in one round trip and one transaction. Never pass text with a name or a
  /// value in it.
  package func executeScript(_ constant: String) throws {
    guard PQsendQuery(handle, constant) == 1 else { throw failure(constant) }
    _ = try finish(constant)
  }

  /// Returns all rows of one statement as texts; nil for NULL. The parameters `$1…` are texts.
  @discardableResult package func query(_ sql: String, _ parameters: [String?] = []) throws -> [[String?]] {
    try sendParameters(sql, parameters)
    return try finish(sql).rows
  }

  /// Returns the first column of a query's first row; nil if there is no row, or if the value is NULL.
  package func first(_ sql: String, _ parameters: [String?] = []) throws -> String? {
    try query(sql, parameters).first?.first ?? nil
  }

  /// Runs one statement with parameters. Returns the number of rows that it changed, or that a query returned.
  @discardableResult package func run(_ sql: String, _ parameters: [String?]) throws -> Int64 {
    try sendParameters(sql, parameters)
    return try finish(sql).touched
  }

  /// Sends one statement with its parameters.
  ///
  /// Source: https://www.postgresql.org/docs/15/protocol-flow.html, section 55.2.3.
  ///
  /// - Parameter areTexts: Whether each parameter has the type `text`; otherwise the server infers the types.
  func sendParameters(_ sql: String, _ parameters: [String?], areTexts: Bool = false) throws {
    try refuseNUL(sql, parameters)
    if purpose == .replication {
      // A replication connection supports the simple protocol only.
      guard PQsendQuery(handle, sql) == 1 else { throw failure(sql) }
      return
    }
    let words = parameters.map { $0.map { strdup($0) } ?? nil }
    defer { for word in words { free(word) } }
    let values = words.map { UnsafePointer<CChar>($0) }
    let types = areTexts ? [Oid](repeating: Self.textType, count: parameters.count) : nil
    guard PQsendQueryParams(handle, sql, Int32(parameters.count), types, values, nil, nil, 0) == 1 else {
      throw failure(sql)
    }
  }

  /// Throws if a text contains a NUL, because libpq would ignore the rest of the text.
  func refuseNUL(_ sql: String, _ parameters: [String?]) throws {
    guard sql.utf8.contains(0) || parameters.contains(where: { $0?.utf8.contains(0) ?? false }) else { return }
    var error = PostgresError(
      sqlState: "22021", message: "invalid byte sequence for encoding \"UTF8\": 0x00", place: place,
      isConnectionLost: false)
    error.sql = sql
    throw error
  }

  /// Reads all results of the statement that was sent. Returns its rows, and the number of rows that it changed or
  /// returned. Throws the first error.
  func finish(_ sql: String) throws -> (rows: [[String?]], touched: Int64) {
    var rows: [[String?]] = []
    var touched: Int64 = 0
    var error: PostgresError?
    while let result = try nextResult(sql) {
      defer { PQclear(result) }
      switch PQresultStatus(result) {
      case PGRES_TUPLES_OK, PGRES_SINGLE_TUPLE: rows += Self.rows(result)
      case PGRES_COMMAND_OK, PGRES_EMPTY_QUERY: break
      case PGRES_COPY_IN, PGRES_COPY_OUT, PGRES_COPY_BOTH: return (rows, 0)
      default: error = error ?? self.error(of: result, sql)
      }
      touched = Self.touched(result)
    }
    if let error { throw error }
    return (rows, touched)
  }

  /// Waits for the next result of the running statement, and returns it; nil after the last one.
  func nextResult(_ sql: String) throws -> OpaquePointer? {
    var isCancelled = false
    while PQisBusy(handle) == 1 {
      if PQflush(handle) < 0 { throw failure(sql) }
      try waitForServer(sql, &isCancelled)
      guard PQconsumeInput(handle) == 1 else { throw failure(sql) }
    }
    return PQgetResult(handle)
  }

  /// Waits up to one second until the connection's socket can be read; if `sending`, until it can be read or written.
  /// Cancels the statement if ``interrupt`` becomes readable, or if ``onWait`` returns false.
  func waitForServer(_ sql: String, sending: Bool = false, _ isCancelled: inout Bool) throws {
    var entries = [
      pollfd(fd: PQsocket(handle), events: Int16(POLLIN) | (sending ? Int16(POLLOUT) : 0), revents: 0),
      pollfd(fd: isCancelled ? -1 : interrupt, events: Int16(POLLIN), revents: 0),
    ]
    guard PQsocket(handle) >= 0 else { throw failure(sql) }
    // A server may take long. The connection's keepalives detect a lost server.
    Pulse.beat()
    let isQuiet = poll(&entries, 2, isCancelled ? 200 : 1000) == 0
    let isEnding = isQuiet && interrupt < 0 && Self.isEnding.withLock { $0 }?() == true
    let isUnwanted = isQuiet && (isCancelled || isEnding || !(onWait?() ?? true))
    guard entries[1].revents != 0 || isUnwanted else { return }
    isCancelled = true
    cancel()
  }

  /// Asks the server to cancel the running statement of this connection (`PQcancel`).
  package func cancel() {
    guard let request = PQgetCancel(handle) else { return }
    defer { PQfreeCancel(request) }
    var message = [CChar](repeating: 0, count: 256)
    _ = PQcancel(request, &message, 256)
  }

  static func rows(_ result: OpaquePointer) -> [[String?]] {
    let columns = PQnfields(result)
    return (0..<PQntuples(result)).map { row in
      (0..<columns).map { column in
        PQgetisnull(result, row, column) == 1 ? nil : PQgetvalue(result, row, column).map { String(cString: $0) }
      }
    }
  }

  static func touched(_ result: OpaquePointer) -> Int64 {
    PQcmdTuples(result).flatMap { Int64(String(cString: $0)) } ?? 0
  }

  // MARK: Errors

  func failure(_ sql: String) -> PostgresError {
    var error = PostgresError(
      sqlState: "", message: Self.line(PQerrorMessage(handle)), place: place,
      isConnectionLost: PQstatus(handle) != CONNECTION_OK)
    if error.message.isEmpty { error.message = "the connection was lost" }
    error.sql = sql
    return error
  }

  func error(of result: OpaquePointer, _ sql: String) -> PostgresError {
    // The codes `PG_DIAG_…`, which are characters in C.
    func field(_ code: Character) -> String {
      code.asciiValue.flatMap { PQresultErrorField(result, Int32($0)) }.map { String(cString: $0) } ?? ""
    }
    var error = PostgresError(
      sqlState: field("C"), message: field("M"), place: place, isConnectionLost: PQstatus(handle) != CONNECTION_OK)
    if error.message.isEmpty { error.message = Self.line(PQresultErrorMessage(result)) }
    // An error without SQLSTATE is not from the server, but from libpq about its connection.
    if error.sqlState.isEmpty { error.isConnectionLost = true }
    if error.message.isEmpty { error.message = "the connection was lost" }
    (error.detail, error.hint) = (error.isOfWholeRow ? "" : field("D"), field("H"))
    (error.table, error.column, error.constraint) = (field("t"), field("c"), field("n"))
    error.sql = sql
    // For a change that a logical stream cannot send, the context ends with the change's place. Other contexts may hold
    // values.
    if sql.hasPrefix("START_REPLICATION"),
      let word = field("W").split(separator: "\n").first?.split(separator: " ").last,
      LSN(String(word)) != nil
    {
      error.lsn = String(word)
    }
    return error
  }

  static func line(_ text: UnsafePointer<CChar>?) -> String {
    guard let text else { return "" }
    let lines = String(cString: text).split(separator: "\n").map { $0.drop { $0 == "\t" || $0 == " " } }
    return lines.joined(separator: " ")
  }
}
