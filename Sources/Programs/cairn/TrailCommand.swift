import Changes
import Endpoints
import SystemKit
import TrailText
import Trails

/// `cairn trail`: lists, shows and verifies trails, without a lock.
struct TrailCommand: Command {
  static let name = "trail"
  static let summary = "list, show and verify trails"
  static let operands = "list|show|verify [TRAIL]"
  static let options =
    [
      Option.state, TrailHome.config,
      Option("--from", "POS", "show: transactions that begin at this position or after it"),
      Option("--to", "POS", "show: transactions that end at this position or before it"),
    ] + TrailQuery.options + [
      Option("--sql", "sqlite|postgres", "show: as statements that can be executed, in commit order; see --reverse"),
      Option("--statements", nil, "show: the statements that applications executed, for reading"),
      Option.json,
    ]
  static let details = """
    TRAIL is NODE.NAME as 'cairn trail list' prints it, or the path of a trail's folder. If there is only one trail,
    it may be left out. With --config, trails are those of the daemon, and NAME is enough for a trail of its own node.

      list     all trails, with their size and range
      show     every record: transactions with their changes; with --sql, statements that replay them; with --statements,
               what applications executed through the embedded API, and with --sql also the changes without a known
               statement. 'as rows' gives the reason why a statement cannot be executed again (replay in [apply.NAME])
               --table, --key, --column, --since, --until, --by and --last search, by an index of each segment. TIME is
               RFC 3339, or in the local zone: 14:00, "2026-11-28 14:00", yesterday, "2 hours ago". A key is compared
               as text. With one of these options, --to selects transactions that begin before the position
      verify   read everything and check every checksum, hash and value; exit status 65 when the trail is damaged

    example: cairn trail show --sql sqlite | sqlite3 copy.db
             cairn trail show pos --config /etc/cairn --last 5
             cairn trail show hq.erp --table item --key 7 --since yesterday --column price --last 5

    With --sql and --reverse, statements undo the changes, the newest first: an insert becomes a delete, an update writes
    the values before. They find a row by its key, also if changes that are not shown have written it since. A change without
    its row before is a comment: copies, truncations, schema changes and what is older in that table. In PostgreSQL,
    updates and deletes need REPLICA IDENTITY FULL. If there is such a comment, the exit status is not 0.

    To stop at the first statement that fails, use 'sqlite3 -bail' or 'psql -v ON_ERROR_STOP=1'. A value that the
    dialect cannot hold is left out with a comment that says why, and the exit status is then not 0.
    """

  static func run(_ arguments: Arguments) throws -> Int32 {
    let words = try arguments.operands(1...2)
    let trail = words.count > 1 ? words[1] : nil
    if words[0] != "show",
      let option = options.map(\.name).filter({ !["--state", "--config", "--json"].contains($0) }).first(where: {
        arguments.value($0) != nil || arguments.has($0)
      })
    {
      throw arguments.usage("option \(option) is for 'cairn trail show'", nil)
    }
    switch words[0] {
    case "list":
      if let trail { throw arguments.usage("'\(trail)' is one argument too many", nil) }
      return try TrailListing.run(state: TrailHome(arguments).state, asJSON: arguments.has("--json"))
    case "show":
      return try show(folder(trail, arguments), arguments)
    case "verify":
      return try verify(folder(trail, arguments), asJSON: arguments.has("--json"))
    default:
      let near = words[0].nearest(in: ["list", "show", "verify"])
      throw arguments.usage("there is no 'cairn trail \(words[0])'", near.map { "did you mean '\($0)'?" })
    }
  }

  // MARK: Which trail

  /// Returns the folder of a trail that the operator names by its name or its path; nil: the only one.
  static func folder(_ trail: String?, _ arguments: Arguments) throws -> String {
    if let trail, trail.split(separator: "/", omittingEmptySubsequences: false).count > 1 { return trail }
    let home = try TrailHome(arguments)
    let state = home.state
    let all = try StateFolders.entries(in: state)
    let meant = all.filter { entry in trail.map { home.isMeant(entry.name.description, by: $0) } ?? true }
    if meant.count == 1 { return meant[0].folder }
    if let trail, meant.isEmpty, Trail.exists(folder: trail) { return trail }
    let place = state ?? StateFolders.base()
    let names = all.map { $0.name.description }.joined(separator: ", ")
    let near =
      trail.flatMap { trail in
        trail.nearest(in: all.flatMap { [$0.name.description] + (home.node == nil ? [] : [$0.name.name]) })
      }.map { "did you mean '\($0)'? " } ?? ""
    if meant.isEmpty {
      throw CairnError(
        .trailMissing, trail.map { "there is no trail \($0) in \(place)" } ?? "there is no trail in \(place)",
        hint: all.isEmpty
          ? "start 'cairn replicate', or name the folder with --state, or the daemon's conf with --config"
          : "\(near)there are: \(names)",
        remedy: .badInput)
    }
    guard let trail else { throw arguments.usage("which trail? There are: \(names)", nil) }
    let folders = meant.map(\.folder).joined(separator: ", ")
    throw arguments.usage("there are several trails \(trail)", "name one of the folders: \(folders);")
  }

  // MARK: Show

  private static func show(_ folder: String, _ arguments: Arguments) throws -> Int32 {
    let from = try position("--from", arguments)
    let to = try position("--to", arguments)
    let dialect = try arguments.value("--sql").map { name -> TrailSQL.Dialect in
      if let dialect = TrailSQL.Dialect(rawValue: name) { return dialect }
      let known = TrailSQL.Dialect.allCases.map(\.rawValue)
      let near = name.nearest(in: known).map { "did you mean \($0)?" }
      throw arguments.usage("--sql: '\(name)' is unknown", near ?? "use \(known.joined(separator: " or "));")
    }
    if arguments.has("--statements"), arguments.has("--json") {
      throw arguments.usage("--statements and --json exclude each other", "--json shows statements as it is;")
    }
    if dialect != nil, arguments.has("--json") { throw arguments.usage("--sql and --json exclude each other", nil) }
    try TrailQuery.check(from, "--from", arguments, folder: folder)
    try TrailQuery.check(to, "--to", arguments, folder: folder)
    if TrailQuery.isMeant(arguments) {
      if arguments.has("--statements") {
        throw arguments.usage(
          "--statements shows all transactions between --from and --to", "leave out the other options;")
      }
      return try TrailQuery(arguments, folder: folder).run(from: from, to: to, dialect: dialect)
    }
    let extract = TrailExtract(folder: folder, from: from, to: to)
    if arguments.has("--statements") { return try TrailExecuted(dialect: dialect).run(extract) }
    if let dialect { return try TrailStatements(dialect).run(extract) }
    return try arguments.has("--json") ? TrailRecordsJSON().run(extract) : TrailRecordsText().run(extract)
  }

  private static func position(_ option: String, _ arguments: Arguments) throws -> Position? {
    guard let text = arguments.value(option) else { return nil }
    if let position = Position(text) { return position }
    throw arguments.usage(
      "\(option): '\(text)' is not a position", "write a position as it is printed, such as 00000003:0001a2c0;")
  }

  // MARK: Verify

  private static func verify(_ folder: String, asJSON: Bool) throws -> Int32 {
    let bar = TrailProgressBar("verify")
    let summary: TrailSummary
    let info: TrailInfo
    do {
      summary = try Trail.verify(folder: folder) { bar.update($0, $1) }
      info = try Trail.info(folder: folder)
      bar.clear()
    } catch {
      bar.clear()
      throw error
    }
    if asJSON {
      Terminal.print(
        JSONObject([
          ("event", .text("verified")), ("trail", .text(info.name.description)), ("id", .text(info.id.description)),
          ("segments", .integer(Int64(clamping: summary.segments))),
          ("bytes", .integer(Int64(clamping: summary.bytes))),
          ("transactions", .integer(Int64(clamping: summary.transactions))),
          ("changes", .integer(Int64(clamping: summary.changes))),
        ]).line)
    } else {
      Terminal.print(
        "trail \(info.name) is whole: \(summary.segments.counted("segment")), \(byteCount(summary.bytes)), "
          + "\(summary.transactions.counted("transaction")), \(summary.changes.counted("change"))")
    }
    return 0
  }

  static func byteCount(_ bytes: UInt64) -> String {
    if bytes < 1024 { return "\(bytes) B" }
    var tenths = bytes &* 10 / 1024
    for unit in ["KiB", "MiB", "GiB"] {
      if tenths < 10_240 { return "\(tenths / 10).\(tenths % 10) \(unit)" }
      tenths /= 1024
    }
    return "\(tenths / 10).\(tenths % 10) TiB"
  }
}
