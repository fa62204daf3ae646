import Applying
import Changes
import Configuring
import Deploying
import Endpoints
import Mapping
import SystemKit

/// `cairn conflicts`: lists the conflicts that two-way replication has resolved, and changes their results.
struct ConflictsCommand: Command {
  static let name = "conflicts"
  static let summary = "list and show resolved conflicts, and write a version that lost"
  static let operands = "list|show|overturn [N]"
  static let options = [
    Option("--database", "URL|DATABASE", "only this one; DATABASE is one of the daemon's conf"),
    Option("--config", "DIR", "the databases that the applies of the daemon's conf write to"),
    Option.state,
    Option("--limit", "N", "list: the latest N of each database (default 20)"),
    Option("--waiting", nil, "list: the rows that wait for a unique value that another row has"),
    Option("--to", "local|incoming", "overturn: the version to write (default: the one that lost)"),
    Option("--force", nil, "overturn: also if the row has been written since"),
    Option.json,
  ]
  static let details = """
    Each target keeps the conflicts that it has met, for 30 days: the kind, both rows, the rule, and its outcome.
    Without --database and --config, the targets are those of the replications whose states are in the state folder.

      list       the latest conflicts, those with the greatest numbers first
      show       one of them with its rows, column by column
      overturn   write the version that lost, as a new change that replicates like any other

    If the daemon's conf has an apply for the database, only tables are written that its 'tables' includes.
    'list --waiting' shows rows that applications committed and that no table has: another row has one of their unique
    values. A row is inserted when its value is free: change that value in the other row.

    A conflict under the rule 'ask' is open until it is overturned; --to may name the version that won, too. See
    docs/explanation/conflicts.md.

    example: cairn conflicts list --database sqlite:shop.db
    example: cairn conflicts list --waiting --database sqlite:shop.db
    example: cairn conflicts show 7 --config /etc/cairn --database erp
    example: cairn conflicts overturn 7 --database sqlite:shop.db
    """

  static func run(_ arguments: Arguments) throws -> Int32 {
    let words = try arguments.operands(1...2)
    let allowed = ["list": ["--limit", "--waiting"], "show": [], "overturn": ["--to", "--force"]]
    guard let own = allowed[words[0]] else {
      let near = words[0].nearest(in: ["list", "show", "overturn"])
      throw arguments.usage("there is no 'cairn conflicts \(words[0])'", near.map { "did you mean '\($0)'?" })
    }
    for option in ["--limit", "--waiting", "--to", "--force"]
    where !own.contains(option) && (arguments.value(option) != nil || arguments.has(option)) {
      throw arguments.usage("option \(option) is not for 'cairn conflicts \(words[0])'", nil)
    }
    let isJSON = arguments.has("--json")
    if words[0] == "list" {
      if words.count > 1 { throw arguments.usage("'\(words[1])' is one argument too many", nil) }
      return arguments.has("--waiting") ? try listWaiting(arguments, isJSON) : try list(arguments, isJSON)
    }
    guard words.count > 1, let id = Int64(words[1]), id > 0 else {
      throw arguments.usage("which conflict?", "run 'cairn conflicts list' for their numbers;")
    }
    let (url, log, record) = try find(id, arguments)
    if words[0] == "show" {
      Terminal.page(isJSON ? ConflictText.json(record, url) : ConflictText.whole(record, url))
      return 0
    }
    let winner = try arguments.value("--to").map { text in
      guard let winner = ConflictRecord.Winner(rawValue: text), winner != .merged else {
        throw arguments.usage("--to is '\(text)'", "allowed are local and incoming;")
      }
      return winner
    }
    let configuration = try configuration(arguments)
    let scope = try configuration.map { try ConflictLogs.scope(of: record.trail, into: url, by: $0) } ?? TargetScope()
    let turned = try log.overturn(
      id, to: winner, force: arguments.has("--force"), now: Clock.system.microseconds(), within: scope)
    Terminal.print(
      isJSON
        ? ConflictText.json(turned, url)
        : "overturned conflict \(id) of \(url.place): the row of table \(turned.fullName), key \(turned.key.shown), is the \((winner ?? turned.loser)?.rawValue ?? "other") one now"
    )
    return 0
  }

  private static func list(_ arguments: Arguments, _ isJSON: Bool) throws -> Int32 {
    var limit = 20
    if let text = arguments.value("--limit") {
      guard let number = Int(text), number > 0 else {
        throw arguments.usage("--limit is '\(text)'", "a number from 1 is allowed;")
      }
      limit = number
    }
    let urls = try databases(arguments)
    var count = 0
    for url in urls {
      let records = try ConflictLogs.open(url).list(before: nil, limit: limit)
      count += records.count
      if !records.isEmpty, !isJSON { Terminal.print(url.place) }
      for record in records { Terminal.print(isJSON ? ConflictText.json(record, url) : ConflictText.line(record)) }
    }
    if count == 0, !isJSON {
      Terminal.note(urls.isEmpty ? "the conf has no database: name one with --database" : "no conflicts")
    }
    return 0
  }

  private static func listWaiting(_ arguments: Arguments, _ isJSON: Bool) throws -> Int32 {
    if arguments.value("--limit") != nil { throw arguments.usage("--limit and --waiting exclude each other", nil) }
    let urls = try databases(arguments)
    var count = 0
    for url in urls {
      let rows = try Detaching.waitingRows(at: url).rows
      count += rows.count
      if !rows.isEmpty, !isJSON { Terminal.print(url.place) }
      for row in rows { Terminal.print(isJSON ? ConflictText.json(row, url) : ConflictText.line(row)) }
    }
    if count == 0, !isJSON {
      Terminal.note(urls.isEmpty ? "the conf has no database: name one with --database" : "no row waits")
    }
    return 0
  }

  /// Returns the conflict with this number, and the database that logged it.
  /// - Throws: `conflict-missing` if no database has such a conflict; `usage` if several have.
  private static func find(_ id: Int64, _ arguments: Arguments) throws -> (DatabaseURL, ConflictLog, ConflictRecord) {
    var found: [(DatabaseURL, ConflictLog, ConflictRecord)] = []
    let urls = try databases(arguments)
    for url in urls {
      let log = try ConflictLogs.open(url)
      if let record = try log.find(id) { found.append((url, log, record)) }
    }
    if found.count > 1 {
      let places = found.map { $0.0.place }.joined(separator: " and ")
      throw arguments.usage("\(places) both have a conflict \(id)", "name one of them with --database;")
    }
    guard let one = found.first else {
      if urls.isEmpty { throw arguments.usage("the conf has no database", "name one with --database;") }
      throw CairnError(
        .conflictMissing, "\(urls.map(\.place).joined(separator: ", ")): there is no conflict \(id)",
        hint: "run 'cairn conflicts list' to see the conflicts that are kept", remedy: .badInput)
    }
    return one
  }

  /// Returns the configuration of `--config`, or of the default folder; nil if the default folder has none. Throws if
  /// the configuration is invalid.
  private static func configuration(_ arguments: Arguments) throws -> Configuration? {
    if let folder = arguments.value("--config") { return try DaemonConf.load(folder) }
    let usual = ConfFolder.load(ConfFolder.usual)
    return usual.files.isEmpty ? nil : try usual.get()
  }

  /// Returns the databases that the options `--database`, `--config` and `--state` select.
  static func databases(_ arguments: Arguments) throws -> [DatabaseURL] {
    let (named, config) = (arguments.value("--database"), arguments.value("--config"))
    if let named, named.contains(":") { return [try DatabaseURL(named).canonical] }
    guard let named else {
      guard let config else { return try ConflictLogs.databases(inState: arguments.value("--state")) }
      return try ConflictLogs.databases(of: DaemonConf.load(config))
    }
    return [try DaemonConf.database(named, in: DaemonConf.load(config))]
  }
}
