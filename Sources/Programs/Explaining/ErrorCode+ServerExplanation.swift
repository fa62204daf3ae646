import Changes

// MARK: - PostgreSQL servers, and values between the engines

extension ErrorCode {
  var serverExplanation: Explanation {
    switch self {
    case .databaseUnreachable:
      Explanation(
        "the PostgreSQL server cannot be reached",
        why: """
          No server answers at the host and port of the URL, or it ended the connection. It is stopped, restarting, \
          hidden by a firewall, or its name cannot be resolved. A replication that was running waits and connects \
          again by itself; only one that is starting, or `--once`, gives up with this error.
          """,
        what: [
          "Try the same URL with `psql`.",
          "Check host and port in the URL, `listen_addresses` of the server, and the firewall.",
          "Run again: it continues where it stopped.",
        ])
    case .loginRefused:
      Explanation(
        "the PostgreSQL server refuses the login",
        why: """
          The role does not exist, its password is wrong or missing, or `pg_hba.conf` has no line that lets it in from \
          here. A password is taken from the URL, from `PGPASSWORD`, the passfile (`~/.pgpass`) or a service file, as \
          libpq does it.
          """,
        what: [
          "Try the same URL with `psql`.",
          "Check the user in the URL, and the line of the passfile for this host, port, database and user.",
          "For capture, `pg_hba.conf` needs a line for the database itself; `replication` lines are not used.",
        ])
    case .privilegeMissing:
      Explanation(
        "the PostgreSQL role lacks a right",
        why: """
          The source needs a role with REPLICATION that owns the tables (for the publication) or finds one prepared. \
          The target needs a role that may write the tables, create the schema `cairn`, and set \
          `session_replication_role`. The message names what is missing; nothing was half done.
          """,
        what: [
          "Run the statement in the hint, as the role that it names.",
          "For capture: `ALTER ROLE name REPLICATION`, as a superuser.",
          "For apply: `GRANT SET ON PARAMETER session_replication_role TO name`, as a superuser.",
          "Run `cairn check --from URL --to URL`: it proves all rights at once.",
        ])
    case .serverSetting:
      Explanation(
        "a setting of the PostgreSQL server does not allow it",
        why: """
          Capture needs `wal_level = logical`, a free replication slot, a free WAL sender, and a primary, not a \
          standby. Both ends need a database in UTF8; a source may use another encoding, except SQL_ASCII. The \
          message names the setting and its value.
          """,
        what: [
          "Run the statement in the hint as a superuser; `wal_level` and the limits need a restart of the server.",
          "For a slot: drop an unused one (`SELECT * FROM pg_replication_slots`), or raise the limit.",
          "For the encoding: create a database with `TEMPLATE template0 ENCODING 'UTF8'`, and use that one.",
        ])
    case .slotLost:
      Explanation(
        "the replication slot is no longer where the trail ends",
        why: """
          The server no longer has the changes that come after the end of the trail. The slot was dropped, was \
          invalidated by `max_slot_wal_keep_size`, was advanced by another program, or was missing after a failover. \
          To continue would silently lose the changes in between.
          """,
        what: [
          """
          Copy again: with the daemon `cairn copy APPLY`, else `cairn replicate` with `--existing overwrite`. That creates \
          a new slot and copies every table, while changes continue.
          """,
          "Raise `max_slot_wal_keep_size` if the slot was invalidated, or keep the replication running.",
        ])
    case .slotMissing:
      Explanation(
        "the replication slot is in use, or cannot be created",
        why: """
          Another process streams from the slot, or its creation waits for transactions that were open before. A slot \
          begins when all of them have ended.
          """,
        what: [
          "See which process uses it: `SELECT * FROM pg_replication_slots`, `SELECT * FROM pg_stat_activity`.",
          "End the long transaction that the message names, then run again.",
        ])
    case .valueMisfit:
      Explanation(
        "a value does not fit the type of its column at the target",
        why: """
          SQLite keeps any value in any column; PostgreSQL does not. The message names table, row, column, value and \
          type. Nothing is altered in silence: the transaction was rolled back and apply stopped there. The same holds \
          for text with a NUL character, or that is not UTF-8.
          """,
        what: [
          "Correct the value at the source, or set `misfits` in `[apply.NAME]` (`--misfit`).",
          "`null` writes NULL instead of such values, and counts them.",
          "`widen` makes the column `text` at the target (only in tables that Cairn created).",
          "`misfits = [\"stop\", \"orders.note=null\"]` (`--misfit 'stop,orders.note=null'`) sets it for single columns.",
          .leaveOut,
        ])
    default:
      Explanation(
        "two names of the source, or tables of two trails, become one at the target",
        why: """
          SQLite to PostgreSQL folds names to lower case; PostgreSQL to SQLite drops `public.` and joins other schemas \
          with `_`. Two tables, or two columns of one table, would then have the same name, so it is refused, with \
          both names. If that happens while a replication runs, only the table concerned is suspended, until the \
          change is undone at the source. The same holds for a table of the target that has the rows of another \
          trail. A copy of one would delete the rows of the other, unless a constant in each distinguishes them \
          (docs/reference/mapping.md).
          """,
        what: [
          "Rename one of them at the source.",
          "Or leave one table out: `tables = [\"*\", \"!NAME\"]` in the conf, or `--tables '*,!NAME'`.",
          "From SQLite, `names = \"keep\"` (`--names keep`) keeps names as they are.",
          "If two trails collide, the hint shows the constant for the rule of each apply. Or give one of them another `to`.",
        ])
    }
  }
}
