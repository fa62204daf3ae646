import Capturing
import Changes
import Checking
import Configuring
import Deploying
import Endpoints
import Mapping
import PostgresKit
import Replicating
import SQLiteKit

/// `cairn check`: the tables that would be captured, and the problems that prevent capture.
struct CheckCommand: Command {
  static let name = "check"
  static let summary = "check a source and a target, or a conf with all its databases, before you replicate"
  static let operands = "--from URL [--to URL] | --config DIR"
  static let options = [
    Option("--from", "URL", "the source"),
    Option("--to", "URL", "the target"),
    Option("--tables", "PATTERN,...", "tables to take (default: all)"),
    Option("--names", "fold|keep", "SQLite to PostgreSQL: names in lower case (default), or as they are"),
    Option("--rows", "N", "rows of each SQLite table to look at for values that do not fit (default 100000; 0: none)"),
    Option("--config", "DIR", "check a conf and its databases: a folder with cairn.toml, or one file"),
    Option("--security", nil, "with --config: print the facts of a security review, and mark what is below the advice"),
    Option("--user", "NAME", "with --config: user of the daemon (default: the owner of the state folder)"),
    Option.json,
  ]
  static let details = """
    Reports for every table what identifies its rows, whether it can be captured, and why not. With --to, the report
    has the type contract of every column too. If an end is a PostgreSQL server, a round trip of edge values proves it.
    Writes nothing. Exits 0 when replication can start, else with the status of the first error.

    From SQLite to PostgreSQL, it also reads rows, and lists the values that do not fit. Examples are numbers out of
    range, text in columns of numbers, wrong dates, and text with NUL or invalid UTF-8. For each column it prints the
    first such row, and the setting that takes such values. It reads at most --rows rows of each table, in 30 s for all
    tables, and says how many. Left out are tables with rules of the conf, and values that only the server can judge, such
    as addresses. Such values do not change the exit status: replication starts, and the apply stops at them.

    With --config, all files of the conf are read first, and everything that is wrong in them is listed. If nothing is,
    each capture and each apply is checked as above, also if another one fails. Run by root, the command takes on the
    rights of the daemon's user for that, without groups that only the unit gives.

    With --security, roles and their rights, certificates, files, listeners, allow-lists and limits are printed instead,
    a fact on a line. Facts below the advice of docs/guides/review-security.md are marked, with a hint; then the exit
    status is 1.

    example: cairn check --from sqlite:shop.db --to sqlite:copy.db
    example: cairn check --from sqlite:shop.db --to postgresql://cairn@db.example/erp
    example: cairn check --config /etc/cairn
    example: cairn check --config /etc/cairn --security
    """

  static func run(_ arguments: Arguments) throws -> Int32 {
    _ = try arguments.operands(0...0)
    let rows = try arguments.value("--rows").map { text in
      guard let rows = Int(text), rows >= 0 else {
        throw arguments.usage("--rows is '\(text)'", "a number from 0 is allowed;")
      }
      return rows
    }
    if let path = arguments.value("--config") { return try checkConf(path, arguments, rows) }
    if arguments.has("--security") { return try checkConf(ConfFolder.usual, arguments, rows) }
    if arguments.value("--user") != nil { throw arguments.usage("--user goes with --config", nil) }
    let from = try DatabaseURL(arguments.required("--from"))
    let patterns = TablePatterns((arguments.value("--tables") ?? "*").split(at: ","))
    let names = NamePolicy(rawValue: arguments.value("--names") ?? "fold") ?? .fold
    let source = try SourceDatabase(from)
    let output = CheckOutput(asJSON: arguments.has("--json"))
    if case .sqlite(let database) = source.handle { try output.tellOfFile(database, from.place) }
    if let server = source.server, let notice = try PostgresSource.schemaNotice(server) {
      output.say(notice, [("event", .text("notice")), ("text", .text(notice))])
    }
    if let server = source.server {
      let notices = try [
        PostgresSource.versionNotice(server), PostgresSource.encodingNotice(server), server.barNotice(),
      ]
      for case let notice? in notices { output.say(notice, [("event", .text("notice")), ("text", .text(notice))]) }
      try tellRights(server, isSource: true, output)
    }
    let ends = try [from] + (arguments.value("--to").map { [try DatabaseURL($0)] } ?? [])
    for url in ends {
      if let notice = url.trustNotice { output.say(notice, [("event", .text("notice")), ("text", .text(notice))]) }
    }
    let tables = try source.tables(patterns, passesLocked: true)
    output.tellTables(tables)
    for notice in try source.startNotices() { output.note(notice) }
    for name in try source.unmatched(patterns) {
      let error = name.error("--tables", at: from.place)
      guard !name.isMistake else { throw error }
      let text = "\(error.message); \(error.hint)"
      output.say(text, [("event", .text("notice")), ("text", .text(text))])
    }
    if case .sqlite = source.handle {
      output.tellBlobs(tables)
      let text = "note: \(SQLiteCapture.unseenNotice); or audit the target (--audit)"
      output.say(text, [("event", .text("notice")), ("text", .text(text))])
    }
    guard tables.contains(where: { $0.refusal == nil }) else {
      throw CairnError(
        .noTables, "\(from.place) has no table that can be captured",
        hint: "create a table first, or check the patterns of 'tables' (--tables)", remedy: .badInput)
    }
    if let to = arguments.value("--to") {
      let target = try DatabaseURL(to)
      var options = Replication.Options()
      options.names = names
      options.joinsCapture = true
      let end = try Replication(from: from, to: target, options: options, notice: { _ in }).checkTarget(patterns)
      if let server = end.server { try tellRights(server, isSource: false, output) }
      output.say("\(target.place): can be written", [("event", .text("target")), ("ok", .bool(true))])
      let captured = tables.filter { $0.refusal == nil }
      try output.tellContracts(captured, source, end, names)
      try output.tellMisfits(captured, source, end, names, rows: rows ?? CheckOutput.scanRows)
      try output.tellQuietTriggers(end, captured, names, firing: [])
    }
    return 0
  }

  private static func tellRights(_ server: PostgresConnection, isSource: Bool, _ output: CheckOutput) throws {
    for notice in try ConfCheck.rightsNotices(server, isSource: isSource) {
      output.say(notice, [("event", .text("notice")), ("text", .text(notice))])
    }
  }

  private static func checkConf(_ path: String, _ arguments: Arguments, _ rows: Int?) throws -> Int32 {
    for option in ["--from", "--to", "--tables", "--names"] where arguments.value(option) != nil {
      throw arguments.usage("\(option) has no meaning with --config", "the conf sets that;")
    }
    let loaded = ConfFolder.load(path)
    guard let configuration = loaded.configuration else {
      return ConfigCommand.report(loaded, isJSON: arguments.has("--json"))
    }
    if arguments.has("--security") {
      return SecurityReview(configuration, loaded, isJSON: arguments.has("--json")).run()
    }
    _ = ConfigCommand.report(loaded, isJSON: arguments.has("--json"))
    let output = CheckOutput(asJSON: arguments.has("--json"))
    return try ConfCheck(
      configuration, loaded, user: arguments.value("--user"), scanRows: rows ?? CheckOutput.scanRows, output: output
    ).run()
  }
}

extension CheckOutput {
  /// Prints each fact as a line of text, or as a line of JSON.
  init(asJSON isJSON: Bool) {
    self.init(
      say: { text, members in
        guard isJSON else { return Terminal.print(text) }
        if !members.isEmpty { Terminal.print(JSONObject(members).line) }
      }, report: { Terminal.report($0, asJSON: isJSON) })
  }
}
