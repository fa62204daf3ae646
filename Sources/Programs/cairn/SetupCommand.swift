import Changes
import Deploying
import Endpoints
import Glibc
import PostgresKit
import SystemKit

/// `cairn setup`: prints or does what a database needs before Cairn can use it.
struct SetupCommand: Command {
  static let name = "setup"
  static let summary = "give Cairn the rights, groups, roles and settings that it needs at a database"
  static let operands = "URL|DATABASE"
  static let options = [
    Option("--dry-run", nil, "print the steps, and change nothing; the default"),
    Option("--apply", nil, "do the steps that are missing"),
    Option("--group", "NAME", "SQLite: the group that programs and the daemon share; default: that of the folder"),
    Option("--user", "USER", "SQLite: the user of the daemon; default: that of the unit, else cairn"),
    Option("--program", "USER,...", "SQLite: users whose programs write the file, besides its owner"),
    Option("--role", "ROLE", "PostgreSQL: the role of the daemon (default cairn)"),
    Option("--source", nil, "PostgreSQL: the database is captured"),
    Option("--target", nil, "an apply writes to the database; an SQLite file is created if there is none"),
    Option("--tables", "PATTERN,...", "PostgreSQL: only these tables (default: all)"),
    Option("--config", "DIR", "the conf that has DATABASE (default /etc/cairn)"),
    Option.json,
  ]
  static let details = """
    SQLite: the programs and the daemon get a common group. The group may write the file, its companions -wal and -shm,
    and the folder, which gets the setgid bit. A drop-in opens the folder to the unit. No right is taken away. Run --apply as
    root. Programs notice a new group after a restart. Links are refused, and so are folders of the system.

    PostgreSQL: the URL is that of a superuser, and --role names the role that the daemon connects as. At a source:
    wal_level, REPLICATION, the event triggers, and membership in the owners of the tables. Only owners publish tables.
    At a target: the right to create tables, to write those that exist, and to switch triggers off in its sessions.

    Each step is printed with its state: done, missing, or by-hand. A second run changes nothing. The exit status is 1
    if steps are left for a person after --apply. Afterwards 'cairn check' looks at the whole conf.

    example: cairn setup sqlite:///srv/pos/pos.db --group pos
    example: sudo cairn setup sqlite:///srv/pos/pos.db --group pos --program till --apply
    example: sudo -u postgres cairn setup 'postgresql:///erp?host=/run/postgresql' --target --apply
    """

  static func run(_ arguments: Arguments) throws -> Int32 {
    let word = try arguments.operands(1...1)[0]
    let isApplied = arguments.has("--apply")
    if isApplied, arguments.has("--dry-run") {
      throw arguments.usage("--apply does not go with --dry-run", "give one of them;")
    }
    let url =
      word.has(":")
      ? try DatabaseURL(word) : try DaemonConf.database(word, in: DaemonConf.load(arguments.value("--config")))
    let run = Run(place: url.place, isApplied: isApplied, isJSON: arguments.has("--json"))
    switch url {
    case .sqlite: return try file(url.canonical.place, run, arguments)
    case .postgres(let uri): return try server(uri, run, isOfConf: !word.has(":"), arguments)
    }
  }

  /// Throws `usage` if one of the options, which are for the other engine, is given.
  private static func refuse(_ options: [String], for engine: String, _ arguments: Arguments) throws {
    for option in options where arguments.value(option) != nil || arguments.has(option) {
      throw arguments.usage("option \(option) is for \(engine)", nil)
    }
  }

  private static func file(_ path: String, _ run: Run, _ arguments: Arguments) throws -> Int32 {
    try refuse(["--role", "--source", "--tables"], for: "PostgreSQL", arguments)
    let root = getenv("CAIRN_TEST_UNIT_ROOT").map { String(cString: $0) } ?? ""
    let (setup, group) = try FileSetup.read(
      path, group: arguments.value("--group"), daemon: arguments.value("--user"),
      programs: arguments.value("--program")?.split(at: ",") ?? [], mayBeMissing: arguments.has("--target"),
      unitRoot: root)
    let steps = try setup.steps(group: group)
    if run.isApplied, geteuid() != 0, let missing = steps.first(where: { $0.state == .missing }) {
      throw CairnError(
        .privilegeMissing, "only root can do the steps that are missing, such as: \(missing.what)",
        hint: "run it with sudo")
    }
    let status = try run.take(steps) { try FileSetup.perform($0, unitRoot: root) }
    if run.isApplied, steps.contains(where: { $0.state == .missing }) {
      run.note("restart the programs and cairnd, so that they notice the group: systemctl restart cairnd")
    }
    return status
  }

  private static func server(
    _ uri: String, _ run: Run, isOfConf: Bool, _ arguments: Arguments
  ) throws -> Int32 {
    try refuse(["--group", "--user", "--program"], for: "SQLite", arguments)
    guard !isOfConf else {
      throw arguments.usage(
        "the role of the conf cannot give itself rights", "give the URL of a superuser, and --role;")
    }
    var purposes: Set<ServerSetup.Purpose> = []
    if arguments.has("--source") { purposes.insert(.source) }
    if arguments.has("--target") { purposes.insert(.target) }
    guard !purposes.isEmpty else {
      throw arguments.usage("it is open what the database is for", "add --source, --target or both;")
    }
    let connection = try PostgresConnection(uri)
    let setup = try ServerSetup(
      connection, role: arguments.value("--role") ?? "cairn", purposes: purposes,
      TablePatterns(arguments.value("--tables")?.split(at: ",") ?? ["*"]))
    return try run.take(setup.steps()) { try ServerSetup.perform($0, connection) }
  }

  /// One run of the command: prints the steps, and does them if that was asked for.
  private struct Run {
    let place: String
    let isApplied: Bool
    let isJSON: Bool

    /// Returns the exit status.
    func take(_ steps: [SetupStep], _ perform: (SetupStep.Deed) throws -> Void) throws -> Int32 {
      if !isJSON { Terminal.print(place) }
      for step in steps {
        let isDone = isApplied && step.state == .missing
        if isDone { try perform(step.deed) }
        say(step, isDone ? "did" : step.state.rawValue)
      }
      let missing = steps.filter { $0.state == .missing }.count
      let byHand = steps.filter { $0.state == .byHand }.count
      summarize(steps.count, missing, byHand)
      return isApplied && byHand > 0 ? 1 : 0
    }

    private func say(_ step: SetupStep, _ state: String) {
      if isJSON {
        return Terminal.print(
          JSONObject([
            ("event", .text("step")), ("database", .text(place)), ("state", .text(state)), ("what", .text(step.what)),
            ("command", .text(step.command)),
          ]).line)
      }
      let word = state + String(repeating: " ", count: max(0, 9 - state.count))
      let command = step.state == .done || state == "did" ? "" : "\n           \(step.command)"
      Terminal.page("  \(word)\(step.what)\(command)")
    }

    private func summarize(_ count: Int, _ missing: Int, _ byHand: Int) {
      if isJSON {
        return Terminal.print(
          JSONObject([
            ("event", .text("setup")), ("database", .text(place)), ("steps", .integer(Int64(count))),
            (isApplied ? "did" : "missing", .integer(Int64(missing))), ("by_hand", .integer(Int64(byHand))),
          ]).line)
      }
      let left = byHand == 0 ? "" : "; \(byHand.counted("step")) by hand"
      if missing == 0 {
        note("all is done\(byHand == 0 ? "" : " but \(byHand.counted("step")) by hand")")
      } else if isApplied {
        note("did \(missing) of \(count.counted("step"))\(left)")
      } else {
        note("\(missing) of \(count.counted("step")) are missing\(left); nothing was changed: --apply does them")
      }
    }

    func note(_ line: String) { if !isJSON { Terminal.note(line) } }
  }
}
