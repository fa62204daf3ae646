import Changes

extension ErrorCode {
  /// The explanation of an error code, for `cairn explain` and `docs/reference/errors.md`.
  package struct Explanation: Equatable, Sendable {
    /// The meaning of the code in one line, without a full stop.
    package let title: String
    package let why: String
    package let what: [String]

    init(_ title: String, why: String, what: [String]) {
      self.title = title
      self.why = why
      self.what = what
    }
  }

  package var explanation: Explanation {
    switch self {
    case .usage: Self.usageExplanation
    case .badURL, .unsupported, .sameDatabase, .noTables, .tableMissing: endExplanation
    case .databaseMissing, .databaseNotADatabase, .databaseReadOnly, .databaseBusy, .databaseFull, .databaseFailed,
      .databaseDamaged, .databaseUnsafe:
      databaseExplanation
    case .confSyntax, .confUnknown, .confValue, .confTwice, .confMissing, .confReference, .confSecret, .confUnsupported,
      .confUnsafe:
      confExplanation
    case .stateLocked, .stateUnwritable, .stateForeign, .diskFull, .ioFailed: stateExplanation
    case .trailMissing, .trailBusy, .trailDamaged, .trailVersion, .checkpointForeign, .checkpointMoved:
      trailExplanation
    case .sourceCaptured, .sourceWentBack, .tableRefused, .triggersOff: captureExplanation
    case .targetDiffers, .rowMissing, .rowDiffers, .rowExists, .constraintFailed, .schemaStopped: applyExplanation
    case .databaseUnreachable, .loginRefused, .privilegeMissing, .serverSetting, .slotLost, .slotMissing, .valueMisfit,
      .nameCollision:
      serverExplanation
    case .ruleRefused: Self.ruleExplanation
    case .tableForbidden: Self.forbiddenExplanation
    case .ownersCode: Self.ownersExplanation
    case .conflictStopped, .conflictMissing, .conflictStale, .undoRefused, .clockAhead, .keysAlike,
      .quarantineHeld, .quarantineMissing:
      conflictExplanation
    case .driftFound: Self.driftExplanation
    case .daemonUnreachable, .restartNeeded, .diskBudget: daemonExplanation
    case .peerUnreachable, .peerUntrusted, .peerUnknown, .peerRefused, .trailElsewhere, .trailForked, .trailOwn,
      .trailPurged, .busy:
      pumpExplanation
    case .bug: Self.bugExplanation
    }
  }
}

// MARK: - The command line and the ends

extension ErrorCode {
  private static var usageExplanation: Explanation {
    Explanation(
      "the command line is not understood",
      why: """
        A command, option, value or operand is unknown, missing, or given twice. Nothing was read or written: the \
        command line is checked before anything is opened.
        """,
      what: [
        "Read the hint: it names the nearest command or option.",
        "Run `cairn COMMAND --help` for the options of a command, with an example.",
        "Put `'...'` around values with `*`, `!`, `?` or spaces, so that the shell leaves them alone.",
      ])
  }

  private var endExplanation: Explanation {
    switch self {
    case .badURL:
      Explanation(
        "the URL of a database cannot be read",
        why: """
          A database is named by a URL: `sqlite:relative.db`, `sqlite:///absolute.db`, or \
          `postgresql://user@host:port/db`. The given text has no scheme before the colon, an unknown one, or no path.
          """,
        what: [
          """
          Write `sqlite:` before the path of a file; three slashes before an absolute one, as in \
          `sqlite:///srv/shop.db`.
          """,
          "Remove the host from an SQLite URL: the file must be on this machine.",
        ])
    case .unsupported:
      Explanation(
        "this version, or this machine, cannot do what is asked",
        why: """
          This build does not support the request. Examples are a kind of database that it does not replicate, a row \
          above 1 GiB, or values that the chosen SQL dialect cannot hold. Or a system library lacks a function. The \
          message says which. Nothing was half done.
          """,
        what: [
          "Read the message: it names what is not supported.",
          "For a row that is too large, leave its table out: `tables = [\"*\", \"!NAME\"]` in the conf, or `--tables '*,!NAME'`.",
          "For values that PostgreSQL cannot hold, look at the lines `-- cannot be represented` in the output.",
          "For a library, look at its configuration (OpenSSL: `openssl.cnf`, `OPENSSL_CONF`), or use a newer cairn.",
        ])
    case .sameDatabase:
      Explanation(
        "source and target are one and the same database",
        why: """
          Both ends lead to the same file or server database, by whatever path, link or host name. Replicating a \
          database into itself would send every change back to its source, so it is refused before anything \
          is written.
          """,
        what: [
          "Name another database after `--to`, or in the `[apply.NAME]` of the conf.",
          "If the paths look different, look for links: `realpath FILE`, `stat FILE`; of servers, compare `SELECT system_identifier FROM pg_control_system()`.",
        ])
    case .noTables:
      Explanation(
        "no table can be captured",
        why: """
          The source has no ordinary table, or `tables` (`--tables`) leaves all of them out. SQLite's own tables, those of Cairn, \
          virtual tables and their shadow tables are never captured.
          """,
        what: [
          "Run `cairn check --from URL`: it lists the tables, and why one cannot be captured.",
          "Check the patterns of `tables` (`--tables`): the last one that matches a table decides, `!` leaves it out.",
          "Create the first table, then run again.",
        ])
    default:
      Explanation(
        "the named table does not exist, or is not captured",
        why: """
          The command names a table that the database does not have, or that Cairn does not capture. It was never \
          captured, was unhooked before, or was left out by `tables` (`--tables`).
          """,
        what: [
          "Check the spelling; names are matched without regard to case.",
          "Run `cairn check --from URL` to see the tables and which of them are captured.",
          "If nothing of the database is captured yet, start `cairn replicate` on it first.",
        ])
    }
  }
}

// MARK: - Databases

extension ErrorCode {
  private var databaseExplanation: Explanation {
    switch self {
    case .databaseMissing:
      Explanation(
        "the database cannot be opened",
        why: """
          The file, or the folder that holds it, does not exist, or this user may not look into it. A source must \
          exist; a target that is missing is created, but its folder must be there.
          """,
        what: [
          "Check the path: relative ones start in the folder where cairn was started.",
          "Check with `ls -l FILE` that this user may read and write the file and may enter its folder.",
          "Create the folder of a new target first.",
          """
          The service `cairnd` sees neither `/home` nor `/tmp`, and all other folders read-only. Open a folder to it \
          with `ReadWritePaths=`, and `/home` with `ProtectHome=no`, in a drop-in (docs/guides/install.md).
          """,
        ])
    case .databaseNotADatabase:
      Explanation(
        "the file is not an SQLite database",
        why: """
          The file does not begin as an SQLite database does. It is another kind of file, a folder, encrypted by an \
          extension, or its first page was overwritten.
          """,
        what: [
          "Check the path. `file FILE` prints the kind of a file.",
          "`sqlite3 FILE .schema` must be able to read it; an encrypted database cannot be replicated.",
          "If it was a database before, restore it from a backup.",
        ])
    case .databaseReadOnly:
      Explanation(
        "the database cannot be written",
        why: """
          This user has no right to write the file or its folder, or the file system is mounted read-only. A source, \
          too, is written to: its triggers log changes into a journal table. SQLite needs the folder for the files \
          `-wal`, `-shm` and `-journal`.
          """,
        what: [
          """
          Give this user write access to the file and to its folder, or run cairn as the user of the program that \
          owns it.
          """,
          """
          The service `cairnd` may write only where its unit says so: `ReadWritePaths=FOLDER` in a drop-in \
          (docs/guides/install.md).
          """,
          "Check that the file system is mounted read-write: `findmnt -T FILE`.",
          "Run again; nothing was changed.",
        ])
    case .databaseBusy:
      Explanation(
        "another program keeps the database locked",
        why: """
          SQLite lets one connection write at a time. Another connection held the lock for longer than Cairn waits \
          (10 s). Usual causes are a long transaction, a backup, a connection with `locking_mode=EXCLUSIVE`, and a \
          shell with an open BEGIN. Nothing was lost; it works when tried again.
          """,
        what: [
          "Find the process that has the file open: `fuser -v FILE` or `lsof FILE`.",
          "End the long transaction, or the exclusive connection.",
          "Run again: it continues where it stopped.",
        ])
    case .databaseFull:
      Explanation(
        "the database has no more room",
        why: """
          The disk of the database is full, a quota is reached, or the database has reached its own `max_page_count`. \
          The transaction that did not fit was rolled back; what was committed before stays.
          """,
        what: [
          "Make room: `df -h FILE` shows the file system.",
          "Look at `PRAGMA max_page_count` if the disk has room.",
          "Run again: it continues where it stopped, and nothing is applied twice.",
        ])
    case .databaseUnsafe:
      Explanation(
        "a database file would make Cairn do what only an application may do",
        why: """
          A program that writes to a database, or to its folder, can prepare files that harm the program that opens \
          them. Examples are a link in the place of the file, or a view in the place of a table of Cairn. Another one \
          is a `-journal` that names a file which SQLite then deletes. Cairn refuses such a file before it does any \
          harm. The message names the file.
          """,
        what: [
          "Find out which user made the file that the message names: `ls -l FILE FILE-journal FILE-wal FILE-shm`.",
          "Name the file itself in the conf, not a symbolic link. Links among its folders are allowed.",
          """
          A transaction over several databases that was cut off by a crash leaves such a `-journal` too. Open all of \
          these databases with their own program once: that ends the transaction, and Cairn continues by itself.
          """,
          "Remove files that none of your programs created. Users with write access to the folder decide what the database holds.",
        ])
    case .databaseFailed:
      Explanation(
        "the database reported an error that has no code of its own",
        why: """
          SQLite refused a statement for a reason without a code of its own. The message has SQLite's text, \
          with its result code and the statement (never the values). The transaction was rolled back.
          """,
        what: [
          "Read SQLite's message; its result codes are explained at https://sqlite.org/rescode.html.",
          "Look for what the schema needs that is not there: an extension, a function, a collation of the program.",
          "Fix the cause, then run again.",
        ])
    default:
      Explanation(
        "the database, or one of Cairn's tables in it, is damaged",
        why: """
          SQLite found pages that contradict each other, or one of the tables `cairn_...` holds rows that Cairn did \
          not write. Broken disks, copies of a database in use, and programs that delete `-wal` or `-journal` files \
          are the usual causes.
          """,
        what: [
          "Run as the owner of the file, because the check computes expressions of the file: `sudo -u OWNER sqlite3 FILE 'PRAGMA integrity_check'`. Stop the programs that write to it if it reports anything.",
          "Restore a damaged database from a backup, or recover it with `sqlite3 FILE .recover`.",
          """
          If only Cairn's tables are wrong, run `cairn detach URL`: it removes them and no row of yours. Then \
          replicate again.
          """,
        ])
    }
  }
}

// MARK: - State

extension ErrorCode {
  private var stateExplanation: Explanation {
    switch self {
    case .stateLocked:
      Explanation(
        "another cairn is running on the same state folder",
        why: """
          The state folder holds the trail of one replication, and one process works on it at a time. The lock is \
          released when its process ends, however it ends: no lock is ever left over.
          """,
        what: [
          "Find the other one: `fuser -v DIR/lock`.",
          "Stop it, or leave it running: it does the same work.",
          "For another pair of databases, give a `--state` folder of its own.",
        ])
    case .stateUnwritable:
      Explanation(
        "the state folder cannot be written",
        why: """
          This user may not create or write files in the state folder or a folder above it, or its file system is \
          mounted read-only.
          """,
        what: [
          "Check owner and mode with `ls -ld DIR`, and the mount with `findmnt -T DIR`.",
          "Make the folder writable for this user, or choose another one with `--state`.",
        ])
    case .stateForeign:
      Explanation(
        "the state folder belongs to another replication",
        why: """
          The folder given with `--state` holds the trail of another source or target. To continue in it would mix the \
          changes of two databases, so it is refused.
          """,
        what: [
          """
          Give each pair of databases a folder of its own, or leave `--state` out: the default name is made of both \
          ends.
          """,
          "If a database was moved, use the path by which it was replicated first, or begin again in an empty folder.",
          "See what a folder holds with `cairn trail list --state DIR`.",
        ])
    case .diskFull:
      Explanation(
        "the disk of the trail or of the state is full",
        why: """
          A file could not grow because its file system, or the quota of this user, is used up. Durable data stays. \
          The changes that were not written yet are still in the journal of the SQLite source, or in PostgreSQL's log, \
          which the slot keeps.
          """,
        what: [
          "Make room on the file system (`df -h DIR` shows it), or raise the quota.",
          "Run again: it continues where it stopped, and nothing is lost.",
        ])
    default:
      Explanation(
        "the operating system could not read, write or sync a file",
        why: """
          A system call failed for another reason than space and rights: a failing disk, a network file system that \
          went away, too many open files. After a failed sync it is unknown what reached the disk, so Cairn stops and \
          reads it again from the disk at the next start.
          """,
        what: [
          "Read the kernel log: `dmesg` or `journalctl -k`.",
          "Check the disk (`smartctl -a DEVICE`) and the mount.",
          "For too many open files, raise `ulimit -n`, or `LimitNOFILE=` of the service.",
          "Run again; then `cairn trail verify` checks that the trail is whole.",
        ])
    }
  }
}

// MARK: - Trails

extension ErrorCode {
  private var trailExplanation: Explanation {
    switch self {
    case .trailMissing:
      Explanation(
        "there is no such trail",
        why: """
          The state folder has no trail of this name. A trail exists as soon as its capture has started once; it is a \
          folder `NODE.NAME` that holds segments and a file `durable`.
          """,
        what: [
          "List the trails that are there: `cairn trail list`, or `cairn trail list --state DIR`.",
          "Name the state folder with `--state` if it is not below `$XDG_STATE_HOME/cairn`.",
          "Start the replication that writes it.",
          """
          If it was removed or moved while it was in use, the source has kept its changes. The capture begins a new \
          trail with a copy. Run `cairn copy APPLY` for each apply of the old one.
          """,
        ])
    case .trailBusy:
      Explanation(
        "the trail has a writer already",
        why: """
          One process appends to a trail at a time, and another one holds its lock. The lock goes when that process \
          ends. Readers need no lock and are not disturbed.
          """,
        what: [
          "Find the other process: `fuser -v DIR/NODE.NAME/lock`.",
          "Stop it, or let it do the work.",
        ])
    case .trailDamaged:
      Explanation(
        "the trail is not what was written",
        why: """
          A checksum, the chain hash, or the order of the records does not agree, in a part of the trail that was \
          durable. This is not the torn end that a power cut leaves: such an end is cut off and reported, without an \
          error. Causes are a failing disk, a file that was edited or copied while it was written, a segment that was \
          deleted by hand. Nothing after the damage is applied.
          """,
        what: [
          "Run `cairn trail verify TRAIL`: it names the first bad position.",
          "Check the disk (`dmesg`, `smartctl -a DEVICE`) before you write to it again.",
          """
          Put back a good copy of the segment that the position names, if there is one: equal positions hold equal \
          bytes in every copy.
          """,
          """
          Otherwise begin again: `cairn detach` the source, then replicate with a new `--state` and `--existing \
          overwrite`.
          """,
        ])
    case .trailVersion:
      Explanation(
        "the trail, or the journal, was written by a newer version",
        why: """
          A segment, a record or the journal in the source carries a version or a feature that this cairn does not \
          know. It is refused rather than guessed at.
          """,
        what: [
          "Look at `cairn --version` and use the newer cairn that wrote it.",
          """
          To go back for good, run `cairn detach` on the source with the newer version, then replicate into a new \
          `--state`.
          """,
        ])
    case .checkpointForeign:
      Explanation(
        "the position of the target is not in this trail",
        why: """
          The target remembers the trail, the position and the hash up to which it has applied. That place is not in \
          the trail that was found. The state folder was deleted or exchanged, the segment is purged already, or the \
          target was restored from a backup older than the trail. The changes in between are missing, so to continue \
          would silently lose them. If only the segment is gone, the daemon copies everything again by itself.
          """,
        what: [
          "Check that `--state` names the folder that was used before.",
          """
          If the old trail is lost, or no longer has that place, have everything copied again: with the daemon \
          `cairn copy APPLY`, else by `cairn replicate` with `--existing overwrite`.
          """,
          """
          If both ends take writes, the target may hold rows that no trail has any longer. A copy removes them. Run \
          `cairn compare` first, and begin with the copy from the end that holds the newer rows: the hint names it.
          """,
        ])
    default:
      Explanation(
        "another process moved the target's checkpoint",
        why: """
          Every commit at the target moves the checkpoint from where this process left it. It was somewhere else: a \
          second process applies the same trail to the same target. This one's transaction was rolled back, so nothing \
          was applied twice.
          """,
        what: [
          "Find the other process: `fuser -v FILE` on the target.",
          "Let only one of them run, then start it again.",
        ])
    }
  }
}

// MARK: - Capture

extension ErrorCode {
  private var captureExplanation: Explanation {
    switch self {
    case .sourceCaptured:
      Explanation(
        "the source is already captured into another trail",
        why: """
          The journal of the source belongs to the trail of another state folder, which the message names. Two \
          captures would take the journal's rows from each other. Several `cairn replicate` from one file share its \
          capture. They do not share it with a daemon, with another user, or with `--two-way`, or if the folder is \
          not what it must be.
          """,
        what: [
          """
          To continue that replication, run `cairn replicate` with `--state` and the folder in the message, or remove the \
          capture from the daemon's conf.
          """,
          """
          If that replication is over and its folder gone, run `cairn detach URL` on the source, then replicate \
          again. With the daemon, remove the trail's folder here before, and `cairn copy` each apply afterwards.
          """,
        ])
    case .sourceWentBack:
      Explanation(
        "the source is older than the trail, or is another database",
        why: """
          The source was restored from a backup, replaced by a copy, or lost transactions in a power cut \
          (`synchronous=OFF`). The trail holds changes that the source no longer has, so source and target would \
          differ without a trace. Or the state folder is an older one: what was taken since is in a trail that it does \
          not have.
          """,
        what: [
          """
          If another url was given, or another state folder was used since, put the right one back: the replication \
          continues. Otherwise find out why the source went back, and whether the target's rows are the ones to keep: \
          it may hold the lost changes.
          """,
          """
          If the source as it is now is right, stop the daemon, run `cairn detach URL` on the source, and remove the \
          trail's folder. Start the daemon, and `cairn copy` each apply. Without a daemon run `cairn detach URL`, \
          then replicate into a new `--state` with `--existing overwrite`.
          """,
          """
          If both ends take writes, the other end may hold newer rows, which such a copy removes. With the daemon, \
          first run `cairn copy` of the apply that brings the other end's rows: the hint names it. Without a daemon, \
          run `cairn detach` on both ends, and replicate from the end whose rows are to be kept.
          """,
        ])
    case .tableRefused:
      Explanation(
        "a table cannot be captured",
        why: """
          Capture needs triggers and a way to identify rows. Virtual tables cannot have triggers. A table with more \
          than 1900 columns does not fit into the journal. A table without key whose columns are called rowid, \
          _rowid_ and oid gives no way to name a row.
          """,
        what: [
          "Run `cairn check --from URL`: it says why for each table.",
          "Leave the table out: `tables = [\"*\", \"!NAME\"]` in the conf, or `--tables '*,!NAME'`.",
          "Or give it a key: a PRIMARY KEY, or a UNIQUE index over NOT NULL columns.",
        ])
    default:
      Explanation(
        "triggers do not run at the source",
        why: """
          The application that writes to the source has switched triggers off (`SQLITE_DBCONFIG_ENABLE_TRIGGER`), or the \
          triggers of Cairn are gone. Changes that are made in this way are not logged, and cannot be replicated.
          """,
        what: [
          "Switch triggers on in the application, and find out what drops them.",
          "Run `cairn rehook URL`: it puts the triggers back and copies the rows that were missed.",
        ])
    }
  }
}

// MARK: - Apply

extension ErrorCode {
  private var applyExplanation: Explanation {
    switch self {
    case .targetDiffers:
      Explanation(
        "the target already holds other rows",
        why: """
          Before the first copy, tables with rows were found at the target that are not those of the source. Cairn \
          does not overwrite rows by itself; nothing was written. A table without key cannot be merged, since its rows \
          cannot be identified.
          """,
        what: [
          "Check that `--to`, or `database` of the apply, names the right database.",
          """
          Choose what happens to the rows with `existing` (`--existing`): `overwrite` (the target becomes equal to the \
          source), `merge` (the source's rows win, others stay) or `keep` (present rows stay).
          """,
          "Or empty the table at the target and run again.",
        ])
    case .rowMissing:
      Explanation(
        "a row that the source changed is not at the target",
        why: """
          An update or delete names a row that the target does not have. Another program removed it there, or changed \
          its key; or the source has rows that break its own constraint, as a damaged index lets it. The transaction \
          was rolled back and apply stopped at the position in the message.
          """,
        what: [
          "See the transaction: `cairn trail show --from POSITION`.",
          .differenceCause,
          "Put the row back by hand and run again, or \(String.copyAgain).",
          .decideRow,
        ])
    case .rowDiffers:
      Explanation(
        "a row at the target differs from the source",
        why: """
          Before a row is changed it is compared with what the source had. A column differs: another program wrote to \
          the row at the target, or the source has rows that break its own constraint. If another program wrote, \
          to continue would lose its change without a trace; so the transaction was rolled back.
          """,
        what: [
          "See the row before and after: `cairn trail show --from POSITION`.",
          .differenceCause,
          "Set the column to the source's value by hand and run again, or \(String.copyAgain).",
          .decideRow,
        ])
    case .rowExists:
      Explanation(
        "a row that the source inserted is already at the target",
        why: """
          The target has a row with the same key, or with the same value of another UNIQUE index. Another \
          program wrote to the target. Or the target has a unique index that the source lacks, or the source has rows \
          that break its own constraint. The transaction was rolled back.
          """,
        what: [
          "Compare both rows: `cairn trail show --from POSITION`, and the row at the target.",
          "Remove a UNIQUE index that only the target has.",
          .differenceCause,
          "Remove or change the target's row by hand and run again, or \(String.copyAgain).",
          .decideRow,
        ])
    case .constraintFailed:
      Explanation(
        "a constraint of the target refuses a row",
        why: """
          The row satisfies the constraints of the source but not those of the target: a CHECK, a NOT NULL, a type of \
          a STRICT table. The transaction was rolled back, and apply stops until the target accepts the row.
          """,
        what: [
          "Read the message: it names the row and the constraint.",
          "Make the target's constraints equal to the source's.",
          "Run again: it continues where it stopped. \(String.leaveOut)",
        ])
    default:
      Explanation(
        "a change of the schema must be made by hand at the target",
        why: """
          A table at the source was created, dropped or changed, and the target's was not. Cairn did not create it, \
          or `ddl` is `stop`. Or the target refuses the change, for a constraint, a privilege, or a view or \
          trigger that depends on it. Or the target's language cannot express it. Only this table is suspended: its \
          changes stay in the trail, which is kept for it, and all others continue.
          """,
        what: [
          "Run the statements of the hint at the target, or others that give the table the shape that is wanted.",
          "A running apply continues with the table by itself, within a minute; otherwise start it again.",
          "`ddl = \"follow\"` lets Cairn alter tables that it did not create, `\"ignore\"` leaves out what they lack (`--ddl`).",
          "While a table is suspended, `--once` and Ctrl-C end with this code, after everything else was applied.",
        ])
    }
  }
}

// MARK: - Us

extension ErrorCode {
  private static var bugExplanation: Explanation {
    Explanation(
      "something happened that should not be possible",
      why: """
        Cairn checks its own assumptions, and one of them was wrong. It stopped before it committed anything: the \
        trail and the target are intact.
        """,
      what: [
        "Run again: if it continues, nothing was lost.",
        "Report it with the message, `cairn --version`, and the output of `cairn trail verify`.",
      ])
  }
}
