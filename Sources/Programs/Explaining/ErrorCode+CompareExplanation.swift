import Changes

extension ErrorCode {
  static var driftExplanation: Explanation {
    Explanation(
      "an audit found rows at the target that differ from the source",
      why: """
        The audit (`audit` in `[apply.NAME]`, `--audit`) compares both ends while apply follows. It proved, by the trail between them, that a row \
        differs though everything was applied. A program wrote to an SQLite source with triggers switched off \
        (`SQLITE_DBCONFIG_ENABLE_TRIGGER`), another program wrote to the target, or a disk lost data. Replication \
        continues; nothing was repaired.
        """,
      what: [
        "Run `cairn compare APPLY`, or `cairn compare` with the same `--from`, `--to` and `--state`: it lists every difference.",
        "Find out which program wrote there, or the rows will differ again.",
        "Run it again with `--repair` while `cairn replicate` runs: the source sends these rows again.",
      ])
  }
}

extension String {
  /// The words of an explanation that advise to copy all rows once more.
  static let copyAgain =
    "copy the rows again: with the daemon `cairn copy APPLY`, else `cairn replicate` with `--existing overwrite`"
  /// The advice of an explanation for finding out why a row differs.
  /// The ways to decide the row that stopped an apply of the daemon.
  static let decideRow =
    "With the daemon, decide this one row: `cairn take-source APPLY` or `cairn skip APPLY` (guides/skip-a-bad-row.md)."
  static let leaveOut = "With the daemon, leave this one change out: `cairn skip APPLY`."
  static let differenceCause = """
    If another program writes to the target, stop it. If none does, test the source for rows that break its own \
    constraint: `PRAGMA integrity_check` for SQLite, `pg_amcheck` for PostgreSQL.
    """
}
