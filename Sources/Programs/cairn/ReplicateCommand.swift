import Applying
import Capturing
import Changes
import Configuring
import Conflicts
import Endpoints
import Glibc
import Mapping
import PostgresKit
import Replicating
import SystemKit

struct ReplicateCommand: Command {
  static let name = "replicate"
  static let summary = "copy a database to another and follow its changes"
  static let operands = "--from URL --to URL"
  static let options = [
    Option("--from", "URL", "the source: sqlite:relative.db, sqlite:///absolute.db or postgresql://user@host/db"),
    Option("--to", "URL", "the target; a missing SQLite file is created"),
    Option("--two-way", nil, "replicate writes to the target back to the source; the later write to a row wins"),
    Option("--accept-moved-keys", nil, "two-way: take tables that refer to themselves (see below)"),
    Option("--cascade", nil, "also send rows that other replications write to the source (see below)"),
    Option("--once", nil, "apply everything committed up to now, then exit 0"),
    Option("--tables", "PATTERN,...", "tables to take, such as 'order*,!tmp_*' (default: all)"),
    Option("--existing", "keep|overwrite|merge", "rows that the target already has: keep, overwrite or merge them"),
    Option("--local-writes", "stop|allow|refuse|undo", "writes of other programs to the target (see below)"),
    Option("--ddl", "follow|stop|ignore", "effect of schema changes of the source at the target (see below)"),
    Option("--misfit", "stop|null|widen", "values that do not fit the target's column; also TABLE.COLUMN=POLICY,..."),
    Option(
      "--replay", "rows|auto|statements",
      "execute statements of the trail instead of applying their rows (default rows)"),
    Option("--names", "fold|keep", "SQLite to PostgreSQL: names in lower case (default), or as they are"),
    Option.state,
    Option("--audit", "RATE", "compare both ends all the time, reading at most so many bytes a second, such as 1MiB"),
    Option("--journal-rows", "N", "rows that the journal of an SQLite source may hold (default 5000000)"),
    Option.json,
  ]
  static let details = """
    Creates the tables that are missing at the target, copies the rows that are there, then follows changes until
    Ctrl-C. Run again, it continues where it stopped. An SQLite source gets triggers and tables named cairn_…, a
    PostgreSQL source a publication and a replication slot of that name; 'cairn detach' removes them. Applications
    continue to use the source as before.

    Several replications from one SQLite file share its capture. One captures the file, and the others read its trail,
    in the state folder of the first. When the first ends, one of them continues the capture. Each has its own target,
    --tables and policies. The trail is kept for each target until 'cairn detach' of that target.

    With '--existing keep', rows of the target stay, and missing ones are added. With 'merge', the source's rows win,
    and others stay. With 'overwrite', the target becomes equal to the source. If it is given again later, everything is
    copied again.

    With '--local-writes allow', writes of other programs to the target stay. If the source writes the same row, its row
    wins, and the other one is kept ('cairn conflicts list'). With 'undo' it is the same, until '--existing overwrite'
    makes the target equal to the source. With 'refuse', programs that write to the target's tables get an error. It
    comes from triggers, which stay until a run without the option, or 'cairn detach'. With 'stop', the default, a row
    that differs from the source ends the replication.

    With '--ddl follow', tables of the target are created, altered and renamed as at the source. They are dropped only
    if Cairn created them. With 'stop', nothing is altered. The table is suspended until an operator has run the
    statement, which the hint has. With 'ignore', tables of the target stay as they are. Columns and tables that it
    lacks are left out. Without --ddl, tables that Cairn created follow, and others are suspended. While a table is
    suspended all others continue; the exit status is then 65 ('cairn explain schema-stopped').

    With '--replay auto', statements that an application executed through Cairn's API are executed again at the target.
    Each must have written many rows, and be proven to do the same there. Its rows are compared before the commit. With
    'statements', the number of rows does not matter. UPDATE, upsert and REPLACE also need '--local-writes refuse'.
    Two-way, rows are always applied.

    --two-way: the target is captured as well, from the moment at which it has the tables. A row that was written at
    both ends is resolved alike at both: the later write wins, and the other one is kept ('cairn conflicts list').
    Tables must have a key. Rows that are at the target already are not sent back. An SQLite table with a foreign key to
    itself and ON UPDATE CASCADE is refused. A row that refers to itself may differ after its key has changed.
    --accept-moved-keys takes such tables, for applications that change no keys of such rows.

    --cascade: in a chain A to B to C, rows from A are also sent to C. That is the default if no way leads back from the
    target to the source; with --cascade, cairn refuses to start if one does.

    example: cairn replicate --from sqlite:shop.db --to sqlite:///backup/shop.db
    example: cairn replicate --from sqlite:shop.db --to sqlite:copy.db --tables 'item,order*' --once
    example: cairn replicate --from postgresql://cairn@db.example/erp --to sqlite:erp.db
    """

  static func run(_ arguments: Arguments) throws -> Int32 {
    _ = try arguments.operands(0...0)
    var options = Replication.Options()
    options.once = arguments.has("--once")
    options.joinsCapture = true
    options.state = arguments.value("--state")
    if let text = arguments.value("--tables") {
      options.tables = TablePatterns(text.split(at: ","))
    }
    if let text = arguments.value("--existing") {
      guard let existing = ExistingRows(rawValue: text) else {
        throw arguments.usage("--existing is '\(text)'", "allowed are keep, overwrite and merge;")
      }
      options.existing = existing
    }
    options.isTwoWay = arguments.has("--two-way")
    if options.isTwoWay, let existing = options.existing, existing != .overwrite {
      throw arguments.usage(
        "--existing is '\(existing.rawValue)', and --two-way is given",
        "rows of the target are not copied back, so both ends would differ: only overwrite is allowed;")
    }
    options.acceptsMovedKeys = arguments.has("--accept-moved-keys")
    options.cascades = arguments.has("--cascade")
    if options.isTwoWay, options.cascades {
      throw arguments.usage("--cascade and --two-way are given", "two-way rows are not sent to other databases;")
    }
    if let text = arguments.value("--local-writes") {
      guard let writes = LocalWrites(rawValue: text) else {
        throw arguments.usage("--local-writes is '\(text)'", "allowed are stop, allow, refuse and undo;")
      }
      if options.isTwoWay, writes != .stop {
        throw arguments.usage(
          "--local-writes is '\(text)', and --two-way is given", "writes to the target are sent back;")
      }
      options.localWrites = writes
    }
    if let text = arguments.value("--ddl") {
      guard let policy = DDLPolicy(rawValue: text) else {
        throw arguments.usage("--ddl is '\(text)'", "allowed are follow, stop and ignore;")
      }
      options.ddl = policy
    }
    if let text = arguments.value("--replay") {
      guard let policy = ReplayPolicy(rawValue: text) else {
        throw arguments.usage("--replay is '\(text)'", "allowed are rows, auto and statements;")
      }
      options.replay = policy
    }
    if let text = arguments.value("--misfit") { options.misfits = try MisfitPolicies(parsing: text) }
    if let text = arguments.value("--names") {
      guard let names = NamePolicy(rawValue: text) else {
        throw arguments.usage("--names is '\(text)'", "allowed are fold and keep;")
      }
      options.names = names
    }
    if let text = arguments.value("--audit") {
      guard let rate = ByteRate(text) else {
        throw arguments.usage("--audit is '\(text)'", "bytes a second are allowed, such as 500KiB or 10MiB;")
      }
      // An audit has no end of its own.
      guard !options.once else {
        throw arguments.usage("--audit and --once are given", "run 'cairn compare' afterwards instead of --audit;")
      }
      options.auditBytesPerSecond = rate.bytesPerSecond
    }
    if let text = arguments.value("--journal-rows") {
      guard let rows = Int64(text), rows >= 1000 else {
        throw arguments.usage("--journal-rows is '\(text)'", "a number from 1000 is allowed;")
      }
      options.journalRows = rows
    }
    let isJSON = arguments.has("--json")
    let from = try DatabaseURL(arguments.required("--from"))
    let to = try DatabaseURL(arguments.required("--to"))
    // From here on a signal stays pending until the replication can handle it.
    let signals = blockSignals()
    let stopped = StopSignal()
    PostgresConnection.isEnding.withLock { $0 = { stopped.isSet || Self.isStopPending } }
    /// Runs the replication until it ends. Returns false if another process began to capture the source at the same
    /// time; call it again to join that capture.
    func replicate(isSecondTry: Bool) throws -> Bool {
      let replication = try Replication(from: from, to: to, options: options) { notice in
        Terminal.note("cairn: \(notice.text)")
      }
      let state: StateFolder
      do { state = try replication.prepare() } catch {
        // A signal came while the databases were looked at.
        if Self.isStopPending { return true }
        throw error
      }
      return try withExtendedLifetime(state) {
        var display = Display(replication, isJSON: isJSON, once: options.once)
        let isStopped = try follow(replication, signals, stopped, &display)
        if replication.mayJoin, !isStopped, !isSecondTry { return false }
        // A replication that was to stop anyway does not report that another one captures its source.
        let isOvertaken = replication.mayJoin && replication.error?.code == .sourceCaptured
        let error = isOvertaken && isStopped ? nil : replication.error
        display.end(error)
        if let error { throw error }
        return true
      }
    }
    if try !replicate(isSecondTry: false) {
      Terminal.note("cairn: another replication has just begun to capture \(from.place): starting again to join it")
      _ = try replicate(isSecondTry: true)
    }
    return 0
  }

  private static func blockSignals() -> sigset_t {
    var signals = sigset_t()
    sigemptyset(&signals)
    for number in [SIGINT, SIGTERM, SIGHUP, SIGUSR1] { sigaddset(&signals, number) }
    pthread_sigmask(SIG_BLOCK, &signals, nil)
    return signals
  }

  /// Whether a signal that ends the replication waits for ``follow(_:_:_:_:)``.
  private static var isStopPending: Bool {
    var pending = sigset_t()
    sigpending(&pending)
    return [SIGINT, SIGTERM, SIGHUP].contains { sigismember(&pending, $0) == 1 }
  }

  /// Waits until capture and apply have ended, and prints their progress. Returns whether a signal stopped them.
  private static func follow(
    _ replication: Replication, _ blocked: sigset_t, _ stopped: StopSignal, _ display: inout Display
  ) throws -> Bool {
    var signals = blocked
    var isStopped = false
    display.begin()
    let process = getpid()
    let workers = try replication.start { kill(process, SIGUSR1) }
    let interval = display.interval
    while replication.isRunning {
      var wait = timespec(tv_sec: interval / 1000, tv_nsec: interval % 1000 * 1_000_000)
      let number = sigtimedwait(&signals, nil, &wait)
      if number == SIGINT || number == SIGTERM || number == SIGHUP {
        isStopped = true
        stopped.set()
        display.stopping()
        replication.stop()
        // A second signal ends the program at once, which loses nothing either.
        sigdelset(&signals, SIGUSR1)
        pthread_sigmask(SIG_UNBLOCK, &signals, nil)
        break
      }
      display.tick()
    }
    for worker in workers { _ = worker.join() }
    return isStopped
  }
}
