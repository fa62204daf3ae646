import Changes

/// What the server, or libpq, said: SQLSTATE and message fields, with the statement but never its values.
///
/// Source: https://www.postgresql.org/docs/15/errcodes-appendix.html
package struct PostgresError: Error, CustomStringConvertible {
  /// Five characters; empty where libpq itself failed and no server had a say.
  package var sqlState: String
  package var message: String
  package var detail = ""
  package var hint = ""
  package var table = ""
  package var column = ""
  package var constraint = ""
  package var sql = ""
  /// The place in the log of the change that a logical stream could not send, such as `0/22A52A8`; else empty.
  package var lsn = ""
  /// Host and database, without a password.
  package var place: String
  /// The connection is gone: nothing is known of the statement's outcome, and nothing is wrong with its row.
  package var isConnectionLost: Bool

  package init(sqlState: String, message: String, place: String, isConnectionLost: Bool) {
    self.sqlState = sqlState
    self.message = message
    self.place = place
    self.isConnectionLost = isConnectionLost
  }

  /// Class 23: a row that a constraint refuses.
  package var isConstraint: Bool { sqlState.hasPrefix("23") }
  /// NOT NULL and CHECK, whose detail is the whole row, with all of its values.
  var isOfWholeRow: Bool { ["23502", "23514"].contains(sqlState) }
  package var isUniqueness: Bool { sqlState == "23505" }
  /// Class 22: a value that its type refuses.
  package var isBadValue: Bool { sqlState.hasPrefix("22") }
  /// Deadlock, serialisation failure, lock time-out: may work when the transaction is run again.
  package var isTransient: Bool { ["40001", "40P01", "55P03"].contains(sqlState) || isOfTwins }
  /// Two sessions made one and the same thing at the same moment.
  private var isOfTwins: Bool {
    sqlState == "23505" && constraint.hasPrefix("pg_") && constraint.hasSuffix("_index")
  }
  /// Something was dropped while the catalogs were read.
  var isOfDropped: Bool {
    ["XX000", "42P01", "42704", "42703"].contains(sqlState)
  }
  /// A row that PostgreSQL cannot send: a value, or all of the row, exceeds 1 GB as text.
  package var isOversized: Bool {
    guard sql.hasPrefix("COPY (") || sql.hasPrefix("START_REPLICATION") else { return false }
    return sqlState == "54000" || (sqlState == "XX000" && message.hasPrefix("invalid memory alloc request size"))
  }
  package var isLockTimeout: Bool { sqlState == "55P03" }
  package var isPrivilege: Bool { sqlState == "42501" }
  /// The statement was cancelled, as we do when we are to stop.
  package var isCancelled: Bool { sqlState == "57014" }
  /// The server is shutting down, starting up, or ended this connection; or it cannot be reached: trying again later
  /// may work.
  package var isServerGone: Bool {
    isConnectionLost
      || ["57P01", "57P02", "57P03", "57P05", "53300", "08000", "08001", "08003", "08004", "08006"].contains(sqlState)
  }

  package var description: String {
    let code = sqlState.isEmpty ? "" : " (SQLSTATE \(sqlState))"
    return message + (detail.isEmpty ? "" : "; \(detail)") + code + (sql.isEmpty ? "" : ", in: \(sql.prefix(300))")
  }

  /// The envelope for a person: which database, what, and what to do about it.
  package var asCairnError: CairnError {
    let text = message + (detail.isEmpty ? "" : ": \(detail)")
    if isOfTwins {
      return CairnError(
        .databaseBusy, "\(place): another session made the same thing at the same moment: \(text)",
        hint: "run again: it is there now", remedy: .retry)
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
        hint: "make space on the server's disk and run again; nothing is lost"
      )
    case "53300", "53400":
      return CairnError(
        .databaseBusy, "\(place) has no room: \(text)", hint: "raise the limit that the message names, or free some",
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
        hint: hint.isEmpty ? "see the message of PostgreSQL; run again when it is mended" : hint)
    }
  }
  private func oversized(_ text: String) -> CairnError {
    let row = table.isEmpty ? "a row" : "a row of table \(table)"
    let change = lsn.isEmpty ? "" : ", the change at \(lsn) of the log"
    let isOfStream = sql.hasPrefix("START_REPLICATION")
    return CairnError(
      .databaseFailed, "\(place) cannot send \(row)\(change): it exceeds 1 GB as text: \(text)",
      hint: isOfStream
        ? "the log keeps the change whatever becomes of the row: make the value smaller (bytea takes twice its size as text) or leave its table out with 'tables', then run 'cairn detach' on the source and replicate again"
        : "make the value smaller (bytea takes twice its size as text), or leave the table out with 'tables'",
      context: table.isEmpty ? [:] : ["table": table])
  }
}
