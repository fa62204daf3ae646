import Changes

extension ErrorCode {
  var conflictExplanation: Explanation {
    switch self {
    case .conflictStopped:
      Explanation(
        "two nodes wrote the same row, and the rule leaves the decision to the operator",
        why: """
          The conf has `conflict = "stop"` for the table, or for the column. A transaction came whose author did not \
          know what had been written here. Nothing of it was applied; the apply waits before it, and all other \
          workers continue. A rule `sql:` or `function:` that fails for the values of a row stops it as well.
          """,
        what: [
          "Read the message: it names the table, the key, and whose version is there.",
          "Write the wanted row here, or set another rule for the table: see docs/explanation/conflicts.md.",
          "Start the apply again. With a rule such as \"newest\" it resolves the conflict and continues.",
        ])
    case .conflictMissing:
      Explanation(
        "no conflict of that number is kept",
        why: """
          Each target numbers the conflicts that it has met, and keeps them for 30 days. The number is not among them: \
          it is of another database, or older than that.
          """,
        what: [
          "List what is kept with `cairn conflicts list`.",
          "Name the database with `--database` if there are several.",
        ])
    case .clockAhead:
      Explanation(
        "the clock of another node is further ahead than it may be",
        why: """
          The later of two writes to one row wins, so a clock that is ahead would win for as long as it is. A trail \
          waits if its next transaction is ahead of this node's clock by more than `max_clock_skew`. Nothing \
          is lost, and the trail continues by itself when that moment has come here.
          """,
        what: [
          "Set the clocks of both nodes, for example by NTP (`timedatectl`).",
          "Or allow more, with `max_clock_skew` in the conf of the apply.",
        ])
    case .conflictStale:
      Explanation(
        "the row was changed after the conflict was resolved",
        why: """
          The row was written after the conflict was resolved, or the table was altered. To write the other version \
          would undo that change too. Nothing was changed.
          """,
        what: [
          "Compare the row with what `cairn conflicts show N` prints.",
          "Write the wanted row with a plain UPDATE: it replicates like any other.",
          "Or write the other version anyway: `cairn conflicts overturn N --force`.",
        ])
    case .undoRefused:
      Explanation(
        "a transaction cannot be undone without the loss of something else",
        why: """
          `cairn undo` writes the values before a transaction. It refuses if a later transaction wrote one of its \
          columns, or if the database has a value that the trail does not have. It also refuses if the trail does not \
          give the old value, or if the database refuses a row. Nothing was written: an undo is all or nothing.
          """,
        what: [
          "Read the reasons, one line for each: `cairn undo TRAIL N --dry-run` prints them again.",
          "Look at the later transactions: `cairn trail show TRAIL --table T --key K --last 5`.",
          "Undo those first, the newest first, or overwrite what they wrote with `--force`.",
          "For old values in the trail, PostgreSQL needs `ALTER TABLE … REPLICA IDENTITY FULL` beforehand.",
        ])
    case .quarantineHeld:
      Explanation(
        "a transaction waits for another one that is in quarantine",
        why: """
          With `on_error = "quarantine"` a transaction that the target does not take goes into quarantine, and the \
          apply continues. A later one that writes to the same rows, or to rows that refer to them, could not be \
          right without it. It goes into quarantine as well, whole, and nothing of it is lost.
          """,
        what: [
          "See with `cairn quarantine show N` which one it waits for, and why that is there.",
          "Remove the reason why the target refuses that one, then run `cairn quarantine retry N`; or `cairn quarantine discard N`.",
          "Transactions that waited for it are then tried, in their order.",
        ])
    case .quarantineMissing:
      Explanation(
        "no transaction of that number is in quarantine",
        why: """
          Each target numbers the transactions in its quarantine. The number is not among them: it has been \
          applied or discarded since, or is of another database.
          """,
        what: [
          "List the quarantine with `cairn quarantine list`.",
          "Name the database with `--database` if there are several.",
        ])
    default:
      Explanation(
        "two nodes would generate the same keys for different rows",
        why: """
          A table that is written at both ends generates its keys: AUTOINCREMENT or INTEGER PRIMARY KEY in \
          SQLite, serial and identity columns in PostgreSQL. Both ends would give the same number to different rows, \
          and one of two such rows would be lost. Nothing was written.
          """,
        what: [
          "Separate the keys of the nodes: `cairn identity separate DATABASE --nodes N --node K` at every node.",
          "If applications set the keys, such as UUIDs, write `keys = \"shared\"` in `[database.NAME]`.",
          "In a chain, where the other node does not apply the trail of this node, write `applied = \"include\"` in `[capture.NAME]`. The apply is then one-way.",
          "Run `cairn identity show DATABASE` to see the keys that each table generates.",
        ])
    }
  }
}
