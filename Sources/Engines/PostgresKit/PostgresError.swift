import Changes

/// An error of the server or of libpq, with its SQLSTATE and its statement, but without values.
///
/// Source: https://www.postgresql.org/docs/15/errcodes-appendix.html
///
///     PostgresError(sqlState: "55P03", message: "lock timeout", place: "shop", isConnectionLost: false)
package struct PostgresError: Error, CustomStringConvertible {
  /// The SQLSTATE, five characters; empty if no server answered.
  package var sqlState: String
  package var message: String
  package var detail = ""
  package var hint = ""
  package var table = ""
  package var column = ""
  package var constraint = ""
  package var sql = ""
  /// The LSN of the change that a logical stream could not send, such as `0/22A52A8`; empty otherwise.
  package var lsn = ""
  /// The user, host, port and database of the connection, without a password.
  package var place: String
  /// Whether the connection is lost. The outcome of the statement is then unknown.
  package var isConnectionLost: Bool

  package init(sqlState: String, message: String, place: String, isConnectionLost: Bool) {
    self.sqlState = sqlState
    self.message = message
    self.place = place
    self.isConnectionLost = isConnectionLost
  }

  /// Whether a constraint of the table refused the row (class 23).
  package var isConstraint: Bool { sqlState.hasPrefix("23") }
  /// Whether a NOT NULL or CHECK constraint failed. The detail of such an error has all values of the row.
  var isOfWholeRow: Bool { ["23502", "23514"].contains(sqlState) }
  package var isUniqueness: Bool { sqlState == "23505" }
  /// Whether a data type refused the value (class 22). Types of extensions such as `hstore` raise an internal error.
  package var isBadValue: Bool { sqlState.hasPrefix("22") || sqlState == "XX000" }
  /// Whether another attempt of the transaction may succeed, as after a deadlock or a lock timeout.
  package var isTransient: Bool { ["40001", "40P01", "55P03"].contains(sqlState) || isOfTwins }
  // Two sessions created the same object at the same time, and one of them failed.
  private var isOfTwins: Bool {
    sqlState == "23505" && constraint.hasPrefix("pg_") && constraint.hasSuffix("_index")
  }
  /// Whether the SQLSTATE can mean that another session dropped an object while Cairn read the catalogs.
  var isOfDropped: Bool {
    ["XX000", "42P01", "42704", "42703"].contains(sqlState)
  }
  /// Whether PostgreSQL cannot send a row, because it exceeds 1 GB as text.
  package var isOversized: Bool {
    guard sql.hasPrefix("COPY (") || sql.hasPrefix("START_REPLICATION") else { return false }
    return sqlState == "54000" || (sqlState == "XX000" && message.hasPrefix("invalid memory alloc request size"))
  }
  /// Whether a value is too large for the server's memory, or exceeds 1 GB.
  var isOfSize: Bool {
    ["54000", "53200"].contains(sqlState)
      || (sqlState == "XX000" && message.hasPrefix("invalid memory alloc request size"))
  }
  package var isLockTimeout: Bool { sqlState == "55P03" }
  package var isPrivilege: Bool { sqlState == "42501" }
  /// Whether the statement was cancelled, as Cairn does when a worker must stop.
  package var isCancelled: Bool { sqlState == "57014" }
  /// Whether the cause is the statement or its values, so that another statement may succeed. The cause is not the
  /// connection, a lock, or the resources or files of the server. Any other SQLSTATE can come from a function that a
  /// row reaches.
  package var isOfStatement: Bool {
    if sqlState.utf8.count != 5 || isServerGone || isTransient || isCancelled { return false }
    return !["08", "25", "40", "53", "57", "58"].contains(String(sqlState.prefix(2)))
      && !["XX001", "XX002"].contains(sqlState)
  }
  /// Whether the server cannot be reached or has ended this connection. A later attempt may succeed.
  package var isServerGone: Bool {
    isConnectionLost
      || ["57P01", "57P02", "57P03", "57P05", "53300", "08000", "08001", "08003", "08004", "08006"].contains(sqlState)
  }

  package var description: String {
    let code = sqlState.isEmpty ? "" : " (SQLSTATE \(sqlState))"
    return message + (detail.isEmpty ? "" : "; \(detail)") + code + (sql.isEmpty ? "" : ", in: \(sql.prefix(300))")
  }

  /// The error for the operator, with the database and the next step.
  package var asCairnError: CairnError {
    let text = message + (detail.isEmpty ? "" : ": \(detail)")
    if isOfTwins {
      return CairnError(
        .databaseBusy, "\(place): another session created the same object at the same moment: \(text)",
        hint: "run again: the object exists now", remedy: .retry)
    }
    if isOversized { return oversized(text) }
    switch sqlState {
    case "28P01", "28000":
      return CairnError(
        .loginRefused, "\(place) refuses the login: \(text)",
        hint: "check user, password (passfile, PGPASSWORD, service; of the daemon, its credential) and pg_hba.conf",
        remedy: .badInput)
    case "3D000":
      return CairnError(
        .databaseMissing, "\(place): \(text)", hint: "check the name of the database in the URL; it must exist",
        remedy: .badInput)
    case "42501":
      return CairnError(
        .privilegeMissing, "\(place): \(text)\(sql.isEmpty ? "" : ", in: \(sql.prefix(200))")",
        hint: "grant the right to the role, or use another role")
    case "53100":
      return CairnError(
        .databaseFull, "\(place) is full: \(text)",
        hint: "free space on the disk of the server and run again; nothing is lost"
      )
    case "53300", "53400":
      return CairnError(
        .databaseBusy, "\(place) has no room: \(text)",
        hint: "raise the limit that the message names, or end other uses of it",
        remedy: .retry)
    case "25006":
      return CairnError(
        .databaseReadOnly, "\(place) cannot be written: \(text)",
        hint: "it is a standby, or read-only by setting: connect to the primary")
    case "57014", "55P03":
      return CairnError(
        .databaseBusy, "\(place): \(text)", hint: "another session holds a lock: see pg_stat_activity; run again",
        remedy: .retry)
    case "XX001", "XX002":
      return CairnError(
        .databaseDamaged, "\(place) is damaged: \(self)", hint: "see the server's log, and restore it from a backup")
    case _ where isServerGone || sqlState.isEmpty:
      return CairnError(
        .databaseUnreachable, "cannot reach \(place): \(text)",
        hint: "check host, port and that the server runs; 'psql' with the same URL must work", remedy: .retry)
    case _ where isConstraint:
      return CairnError(
        .constraintFailed, "a constraint of \(place) refused a row: \(text)",
        hint: "compare the constraints of both tables")
    default:
      return CairnError(
        .databaseFailed, "database \(place) failed: \(self)",
        hint: hint.isEmpty ? "see the message of PostgreSQL; fix its cause, then run again" : hint)
    }
  }
  private func oversized(_ text: String) -> CairnError {
    let row = table.isEmpty ? "a row" : "a row of table \(table)"
    let change = lsn.isEmpty ? "" : ", the change at \(lsn) of the log"
    let isOfStream = sql.hasPrefix("START_REPLICATION")
    return CairnError(
      .databaseFailed, "\(place) cannot send \(row)\(change): it exceeds 1 GB as text: \(text)",
      hint: isOfStream
        ? "changing the row again does not help, as the log keeps the change: make the value smaller (bytea takes twice its size as text) or leave its table out with 'tables', then run 'cairn detach' on the source and replicate again"
        : "make the value smaller (bytea takes twice its size as text), or leave the table out with 'tables'",
      context: table.isEmpty ? [:] : ["table": table])
  }
}
