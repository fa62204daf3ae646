import Changes
import Configuring
import Endpoints
import Mapping
import Replicating
import SystemKit
import TrailText
import Trails

/// `cairn restore`: makes a database as another one was at a moment, from its trail.
struct RestoreCommand: Command {
  static let name = "restore"
  static let summary = "make a new database as another one was at a moment, from its trail"
  static let operands = ""
  static let options = [
    Option("--trail", "TRAIL", "NODE.NAME, or a trail's folder; may be left out if there is only one"),
    Option("--to-time", "TIME", "with all that was committed at this time or before"),
    Option("--to-position", "POS", "as between two transactions; a position as 'cairn trail show' prints it"),
    Option("--before-transaction", "N", "without transaction N of the trail and all later ones"),
    Option("--into", "URL", "a new SQLite file, or an empty PostgreSQL database"),
    Option("--names", "fold|keep", "SQLite to PostgreSQL: names in lower case (default), or as they are"),
    Option.state, TrailHome.config, Option.json,
  ]
  static let details = """
    The database that the trail captures is not opened, and may be lost. The trail must have its beginning, with the
    first copy: set 'keep' in [trail.NAME]. TIME is RFC 3339, or in the local zone: 14:00, "2026-11-28 14:00",
    yesterday, "2 hours ago". If the clock of the source was set back, the restore ends before the first transaction
    that was committed after TIME.

    Tables, rows, keys, indexes and constraints are restored as 'cairn replicate' copies them. Triggers, views and
    functions are not in a trail. A trail without the rows that applies wrote to its database is refused, as is a moment
    in the middle of a copy.

    An SQLite file gets its name when it is complete; until then it is FILE.cairn-restore. Nothing of Cairn stays in the
    restored database.

    example: cairn restore --trail hq.erp --to-time "yesterday" --into sqlite:erp-yesterday.db
             cairn restore --config /etc/cairn --trail pos --to-time 14:00 --into sqlite:pos-at-two.db
             cairn restore --trail hq.erp --before-transaction 812 --into postgresql://localhost/erp_before
    """

  static func run(_ arguments: Arguments) throws -> Int32 {
    _ = try arguments.operands(0...0)
    guard let place = arguments.value("--into") else {
      throw arguments.usage("--into is missing", "add --into sqlite:FILE or --into postgresql://…;")
    }
    let moment = try moment(arguments)
    let folder = try TrailCommand.folder(arguments.value("--trail"), arguments)
    var restore = try Restore(folder: folder, to: moment, into: DatabaseURL(place).canonical)
    if let text = arguments.value("--names") {
      guard let names = NamePolicy(rawValue: text) else {
        throw arguments.usage("--names is '\(text)'", "allowed are fold and keep;")
      }
      restore.names = names
    }
    try run(restore)
    report(restore, asJSON: arguments.has("--json"))
    return 0
  }

  private static func moment(_ arguments: Arguments) throws -> RestoreMoment {
    let options = ["--to-time", "--to-position", "--before-transaction"]
    let given = options.compactMap { option in arguments.value(option).map { (option, $0) } }
    guard given.count == 1 else {
      throw arguments.usage(
        given.isEmpty ? "which moment?" : "\(given[0].0) does not go with \(given[1].0)",
        "name one moment by \(options.joined(separator: ", "));")
    }
    let (option, text) = given[0]
    switch option {
    case "--to-time": return .time(try TrailQuery.time(option, arguments) ?? 0)
    case "--to-position":
      if let position = Position(text) { return .position(position) }
      throw arguments.usage(
        "\(option): '\(text)' is not a position", "write a position as it is printed, such as 00000003:0001a2c0;")
    default:
      if let number = UInt64(text), number > 0 { return .before(transaction: number) }
      throw arguments.usage("\(option): '\(text)' is not the number of a transaction", "write a number, such as 812;")
    }
  }

  private static func run(_ restore: Restore) throws {
    let bar = TrailProgressBar("restore", unit: { $0.counted("transaction") })
    let worker = try WorkerThread<CairnError?> {
      do {
        try restore.run(stop: StopSignal())
        return nil
      } catch { return CairnError(enveloping: error, doing: "restore a database") }
    }
    while worker.outcome == nil {
      bar.update(restore.progress.snapshot.transactions, restore.last.number)
      Clock.sleep(milliseconds: 50)
    }
    bar.clear()
    if let error = worker.join() ?? nil { throw error }
  }

  private static func report(_ restore: Restore, asJSON: Bool) {
    for notice in restore.progress.snapshot.notices { Terminal.note(notice) }
    let (last, rows) = (restore.last, restore.progress.snapshot.rows)
    if asJSON {
      Terminal.print(
        JSONObject([
          ("event", .text("restored")), ("trail", .text(restore.trail.description)),
          ("database", .text(restore.target.place)), ("transaction", .integer(Int64(clamping: last.number))),
          ("committed", .text("\(UTCTime(last.commitTime))")), ("rows", .integer(Int64(clamping: rows))),
        ]).line)
    } else {
      Terminal.print(
        "restored \(restore.target.place) to transaction \(last.number) of \(restore.trail), "
          + "committed \(UTCTime(last.commitTime)): \(rows.counted("row")) applied")
    }
  }
}
