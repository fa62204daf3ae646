import Changes
import Comparing
import Configuring
import ControlAPI
import Endpoints
import Glibc
import Mapping
import Replicating
import SystemKit
import Trails
import Transforming

/// `cairn compare`: checks row by row whether the target is equal to the source.
struct CompareCommand: Command {
  static let name = "compare"
  static let summary = "compare source and target row by row, also while applications write"
  static let operands = "--from URL --to URL | APPLY"
  static let options = [
    Option("--from", "URL", "the source"),
    Option("--to", "URL", "the target"),
    Option("--config", "DIR", "folder of the conf that has APPLY (default /etc/cairn)"),
    Option("--tables", "PATTERN,...", "tables to compare, such as 'order*,!tmp_*' (default: those replicated, or all)"),
    Option(
      "--names", "fold|keep", "SQLite to PostgreSQL: names in lower case, or as they are (default: as replicated)"),
    Option.state,
    Option("--repair", nil, "make the source send differing rows again through the trail, and check them again"),
    Option("--sql", nil, "print statements that make the target equal; the report goes to standard error"),
    Option("--limit", "N", "differences listed for each table (default 20); all are counted"),
    Option("--rate", "RATE", "bytes of rows a second at both ends together, such as 10MiB (default: no limit)"),
    Option.json,
  ]
  static let details = """
    APPLY is an apply of the daemon: its conf names both ends and the tables.

    Between databases that 'cairn replicate' or the daemon keeps equal, it separates differences from rows on their
    way, by the trail in the state folder. Replication may run meanwhile, and both ends may take writes. Values are
    equal by the contract of their column ('cairn check'). Nothing is written to either database except the request of
    --repair, at the source.

    Exits 0 when they are equal, or all rows were repaired. Exits 1 when there are differences, and 75 when rows were
    still on the way and nothing else differs.

    example: cairn compare --from sqlite:shop.db --to sqlite:copy.db
    example: cairn compare --from sqlite:shop.db --to sqlite:copy.db --repair
    example: cairn compare erp --repair
    example: cairn compare --from sqlite:shop.db --to sqlite:copy.db --sql | sqlite3 copy.db
    example: cairn compare --from sqlite:shop.db --to postgresql://cairn@db.example/erp --tables 'item,order*'
    """

  /// The exit status if all differing rows were in flight: EX_TEMPFAIL of sysexits.h.
  private static let inFlightStatus: Int32 = 75

  static func run(_ arguments: Arguments) throws -> Int32 {
    let named = try arguments.operands(0...1).first
    var options = Comparison.Options()
    if let text = arguments.value("--tables") {
      options.tables = TablePatterns(text.split(at: ","))
    }
    if let text = arguments.value("--names") {
      guard let names = NamePolicy(rawValue: text) else {
        throw arguments.usage("--names is '\(text)'", "allowed are fold and keep;")
      }
      options.names = names
    }
    options.repairs = arguments.has("--repair")
    let limit = try limit(arguments)
    let rate = try arguments.value("--rate").map { text in
      guard let bytes = ByteRate(text) else {
        throw arguments.usage("--rate is '\(text)'", "bytes a second are allowed, such as 500KiB or 10MiB;")
      }
      return bytes.bytesPerSecond
    }
    let watch = CompareWatch(rate: RateLimit(bytesPerSecond: rate))
    let (comparison, target) =
      try named.map { try ofDaemon($0, arguments, options, watch) }
      ?? ofEnds(arguments, options, watch)
    let report = CompareReport(
      watch, isJSON: arguments.has("--json"), listed: limit, sql: arguments.has("--sql") ? target.engine : nil)
    let summary = try report.follow { tell in try comparison.run(tell) }
    report.finish(summary)
    if summary.differences > summary.mended { return 1 }
    return summary.inFlight > 0 || summary.isStopped ? inFlightStatus : 0
  }

  private static func ofEnds(
    _ arguments: Arguments, _ options: Comparison.Options, _ watch: CompareWatch
  ) throws -> (Comparison, DatabaseURL) {
    let from = try DatabaseURL(arguments.required("--from"))
    let to = try DatabaseURL(arguments.required("--to"))
    let state = arguments.value("--state")
    return (try Comparison(from: from, to: to, state: state, options: options, watch: watch), to)
  }

  private static func ofDaemon(
    _ name: String, _ arguments: Arguments, _ given: Comparison.Options, _ watch: CompareWatch
  ) throws -> (Comparison, DatabaseURL) {
    if let option = ["--from", "--to", "--state"].first(where: { arguments.value($0) != nil }) {
      throw arguments.usage("\(option) does not go with the name of an apply", "the conf names its ends;")
    }
    let configuration = try DaemonConf.load(arguments.value("--config"))
    let ends = try DaemonConf.ends(of: name, in: configuration)
    var options = given
    options.tables = given.tables ?? ends.source.map { TablePatterns($0.capture.tables) } ?? TablePatterns()
    options.names = given.names ?? ends.apply.names
    options.rules = ends.apply.rules
    options.scope = TargetScope(ends.apply.tables)
    let state = configuration.node.state
    guard let source = ends.source else {
      guard let trail = TrailName(ends.apply.trail) else {
        throw CairnError(.bug, "\(ends.apply.trail) is no trail", hint: "please report this", remedy: .bug)
      }
      tellOfStanding(["apply.\(ends.apply.name)"], arguments)
      let origin = origin(of: trail, DaemonConf.address(arguments.value("--config")), watch)
      return (
        try Comparison(origin: origin, to: ends.to, trail: trail, state: state, options: options, watch: watch), ends.to
      )
    }
    let trail = TrailName(origin: configuration.node.name, name: source.capture.name)
    tellOfStanding(["capture.\(source.capture.name)", "apply.\(ends.apply.name)"], arguments)
    let comparison = try Comparison(
      from: source.url, to: ends.to, trail: trail, state: state, options: options, watch: watch)
    return (comparison, ends.to)
  }

  /// Returns access to the source of a trail that begins at another node. The daemon forwards the questions about the
  /// source's rows.
  private static func origin(of trail: TrailName, _ daemon: DaemonAddress, _ watch: CompareWatch) -> OriginSource {
    OriginSource(stop: watch.stop) { question in
      let answer = try daemon.ask(ControlRequest(.question, trail.description, data: HexText.text(question)))
      guard let bytes = answer.text("data").flatMap({ HexText.bytes($0) }) else {
        throw CairnError(
          .daemonUnreachable, "the cairnd of this node does not answer questions about rows",
          hint: "use the same version of cairn and cairnd: run 'systemctl restart cairnd' after an update",
          remedy: .badInput)
      }
      return bytes
    }
  }

  private static func tellOfStanding(_ names: [String], _ arguments: Arguments) {
    let daemon = DaemonConf.address(arguments.value("--config"))
    guard let answer = try? daemon.ask(ControlRequest(.status), seconds: 2) else { return }
    for worker in answer.objects("workers").compactMap(NodeStatus.Worker.init)
    where names.contains(worker.name.description) && [.stopped, .failed, .paused].contains(worker.state) {
      Terminal.note(
        "cairn: \(worker.name) is \(worker.state.rawValue): the target lacks what it has not applied yet; run 'cairn start \(worker.name)'"
      )
    }
  }

  private static func limit(_ arguments: Arguments) throws -> Int {
    guard let text = arguments.value("--limit") else { return 20 }
    guard let limit = Int(text), limit >= 0 else {
      throw arguments.usage("--limit is '\(text)'", "a number from 0 is allowed;")
    }
    return limit
  }
}
