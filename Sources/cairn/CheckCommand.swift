import Capturing
import Changes
import Configuring
import Mapping
import Operating
import PostgresKit
import SQLiteKit

/// `cairn check`: which tables would be captured, how, and which problems prevent it.
struct CheckCommand: Command {
  static let name = "check"
  static let summary = "look at a source and a target, or at a conf with all its databases, before replicating"
  static let operands = "--from URL [--to URL] | --config DIR"
  static let options = [
    Option("--from", "URL", "the source"),
    Option("--to", "URL", "the target"),
    Option("--tables", "PATTERN,...", "tables to take (default: all)"),
    Option("--names", "fold|keep", "SQLite to PostgreSQL: names in lower case (default), or as they are"),
    Option("--config", "DIR", "prove a conf and its databases: a folder with cairn.toml, or one file"),
    Option("--security", nil, "with --config: print what a security review asks, and what is below the advice"),
    Option("--user", "NAME", "with --config: who runs the daemon (default: the owner of the state folder)"),
    Option.json,
  ]
  static let details = """
    Says of every table by what its rows are told apart, whether it can be captured, and why not; with --to also the
    type contract of every column, proven by a round trip of edge values where a PostgreSQL server is at hand. Writes
    nothing. Exits 0 when replication can start, else with the status of the first error.

    With --config, all files of the conf are read first, and everything that is wrong in them is listed. If nothing is,
    each capture and each apply is proved as above, also when another one fails. Run by root, it takes on the rights of
    the daemon's user for that, without groups that only the unit gives.

    With --security, roles and their rights, certificates, files, listeners, allow-lists and limits are printed instead,
    a fact on a line. Those below the advice of docs/operations.md are marked, with what mends them; then it exits 1.

    example: cairn check --from sqlite:shop.db --to sqlite:copy.db
    example: cairn check --from sqlite:shop.db --to postgresql://cairn@db.example/erp
    example: cairn check --config /etc/cairn
    example: cairn check --config /etc/cairn --security
    """

  static func run(_ arguments: Arguments) throws -> Int32 {
    _ = try arguments.operands(0...0)
    if let path = arguments.value("--config") { return try checkConf(path, arguments) }
    if arguments.has("--security") { return try checkConf(ConfFolder.usual, arguments) }
    if arguments.value("--user") != nil { throw arguments.usage("--user goes with --config", nil) }
    let from = try DatabaseURL(arguments.required("--from"))
    let patterns = TablePatterns((arguments.value("--tables") ?? "*").split(at: ","))
    let names = NamePolicy(rawValue: arguments.value("--names") ?? "fold") ?? .fold
    let source = try SourceEnd(from)
    let isJSON = arguments.has("--json")
    if case .sqlite(let database) = source.handle { try tellOfFile(database, from.place, isJSON) }
    if let server = source.server, let notice = try PostgresSource.schemaNotice(server) {
      say(isJSON, notice, [("event", .text("notice")), ("text", .text(notice))])
    }
    if let server = source.server {
      let notices = try [
        PostgresSource.versionNotice(server), PostgresSource.encodingNotice(server), server.barNotice(),
      ]
      for case let notice? in notices { say(isJSON, notice, [("event", .text("notice")), ("text", .text(notice))]) }
      try tellRights(server, isSource: true, isJSON)
    }
    let ends = try [from] + (arguments.value("--to").map { [try DatabaseURL($0)] } ?? [])
    for url in ends {
      if let notice = url.trustNotice { say(isJSON, notice, [("event", .text("notice")), ("text", .text(notice))]) }
    }
    let tables = try source.tables(patterns)
    tellTables(tables, isJSON)
    if case .sqlite = source.handle { tellBlobs(tables, isJSON) }
    guard tables.contains(where: { $0.refusal == nil }) else {
      throw CairnError(
        .noTables, "\(from.place) has no table that could be captured",
        hint: "create a table first, or look at --tables", remedy: .badInput)
    }
    if let to = arguments.value("--to") {
      let target = try DatabaseURL(to)
      var options = Replication.Options()
      options.names = names
      options.joinsCapture = true
      let end = try Replication(from: from, to: target, options: options, notice: { _ in }).checkTarget(patterns)
      if let server = end.server { try tellRights(server, isSource: false, isJSON) }
      say(isJSON, "\(target.place): can be written", [("event", .text("target")), ("ok", .bool(true))])
      let captured = tables.filter { $0.refusal == nil }
      try tellContracts(captured, source, end, names, isJSON)
      try tellQuietTriggers(end, captured, names, firing: [], isJSON)
    }
    return 0
  }

  private static func tellRights(_ server: PostgresConnection, isSource: Bool, _ isJSON: Bool) throws {
    for notice in try ConfCheck.rightsNotices(server, isSource: isSource) {
      say(isJSON, notice, [("event", .text("notice")), ("text", .text(notice))])
    }
  }

  private static func checkConf(_ path: String, _ arguments: Arguments) throws -> Int32 {
    for option in ["--from", "--to", "--tables", "--names"] where arguments.value(option) != nil {
      throw arguments.usage("\(option) has no meaning with --config", "the conf says that itself;")
    }
    let loaded = ConfFolder.load(path)
    guard let configuration = loaded.configuration else {
      return ConfigCommand.report(loaded, isJSON: arguments.has("--json"))
    }
    if arguments.has("--security") {
      return SecurityReview(configuration, loaded, isJSON: arguments.has("--json")).run()
    }
    _ = ConfigCommand.report(loaded, isJSON: arguments.has("--json"))
    return try ConfCheck(configuration, loaded, user: arguments.value("--user"), isJSON: arguments.has("--json")).run()
  }
}
