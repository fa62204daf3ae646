extension ErrorCode {
  var conflictExplanation: Explanation {
    switch self {
    case .conflictStopped:
      Explanation(
        "two nodes wrote the same row, and the rule says that a person decides",
        why: """
          The conf has `conflict = "stop"` for the table, or for the column. A transaction came whose author did not \
          know what had been written here. Nothing of it was applied; the apply stands before it, and all other \
          workers go on.
          """,
        what: [
          "Read the message: it names the table, the key, and whose version is there.",
          "Make the row here what it is to be, or write another rule for the table: see docs/conflicts.md.",
          "Start the apply again. With a rule such as \"newest\" it settles the conflict and goes on.",
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
          "Name the apply whose target is meant, where there are several.",
        ])
    case .clockAhead:
      Explanation(
        "the clock of another node is further ahead than it may be",
        why: """
          Of two writes to one row the later one wins, so a clock that is ahead would win for as long as it is. A trail \
          whose next transaction is ahead of this node's clock by more than `max_clock_skew` is held back; nothing of it \
          is lost, and it goes on by itself when that moment has come here.
          """,
        what: [
          "Set the clocks of both nodes right, such as by NTP (`timedatectl`).",
          "Or allow more, with `max_clock_skew` in the conf of the apply.",
        ])
    case .conflictStale:
      Explanation(
        "a row is no longer what the conflict left it",
        why: """
          Somebody has written the row since the conflict was settled, or the table was altered. To put the other \
          version in its place would undo that, too. Nothing was changed.
          """,
        what: [
          "Compare the row with what `cairn conflicts show N` prints.",
          "Write what it is to be with a plain UPDATE: it replicates like any other.",
          "Or put the other version in place all the same: `cairn conflicts overturn N --force`.",
        ])
    case .quarantineHeld:
      Explanation(
        "a transaction waits for another one that is in quarantine",
        why: """
          With `on_error = "quarantine"` a transaction that the target does not take is put aside, and the apply goes \
          on. One that comes later and writes to the same rows, or to rows that refer to them, could not be right \
          without it: it is put aside as well, whole, and nothing of it is lost.
          """,
        what: [
          "See with `cairn quarantine show N` which one it waits for, and why that is there.",
          "Mend what the target has against that one, then `cairn quarantine retry N`; or `cairn quarantine discard N`.",
          "Those that waited for it are tried then, in their order.",
        ])
    case .quarantineMissing:
      Explanation(
        "no transaction of that number is in quarantine",
        why: """
          Each target numbers the transactions that it has put aside. The number is not among them: it has been applied \
          or discarded since, or is of another database.
          """,
        what: [
          "List what is there with `cairn quarantine list`.",
          "Name the database with `--database`, where there are several.",
        ])
    default:
      Explanation(
        "two nodes would draw the same keys for different rows",
        why: """
          A table that is written at both ends makes its keys by itself: AUTOINCREMENT or INTEGER PRIMARY KEY in \
          SQLite, serial and identity columns in PostgreSQL. Both ends would give the same number to different rows, \
          and of each two one would be lost to the other. Nothing was written.
          """,
        what: [
          "Give each node keys of its own: `cairn identity separate DATABASE --nodes N --node K` at every node.",
          "Where programs bring keys of their own, such as UUIDs, write `keys = \"shared\"` into `[database.NAME]`.",
          "Look at what each table draws with `cairn identity show DATABASE`.",
        ])
    }
  }
}
