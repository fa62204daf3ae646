import Changes
import Conflicts
import Endpoints

/// `cairn identity`: changes how a database generates keys, so that two nodes do not generate the same key.
struct IdentityCommand: Command {
  static let name = "identity"
  static let summary = "show keys that a database generates, and give each node keys of its own"
  static let operands = "show|separate|catch-up URL|DATABASE"
  static let options = [
    Option("--nodes", "N", "separate: number of nodes that write"),
    Option("--node", "K", "separate: number of this node, from 1"),
    Option("--below-zero", nil, "separate: generate keys downwards from zero, for use with an SQLite node"),
    Option("--tables", "PATTERN,...", "only these tables (default: all)"),
    Option("--sql", nil, "separate: print the statements, and change nothing"),
    Option("--config", "DIR", "folder of the conf that has DATABASE (default /etc/cairn)"),
    Option.json,
  ]
  static let details = """
    AUTOINCREMENT, INTEGER PRIMARY KEY, serial and identity columns give the next number to the next row. Two nodes that
    write one table would give the same number to different rows.

      show       the tables that generate keys, and the next key of each
      separate   PostgreSQL: every sequence continues in steps of N, from the next number with remainder K
      catch-up   PostgreSQL: every sequence continues after the greatest key in its table, as after a switch-over

    Separate every node before two of them write, each with its own K. SQLite takes the greatest key in the table plus
    one, so it cannot take a stride. If one node is an SQLite file, separate all others with --below-zero. If two nodes
    are, applications must set the keys.

    example: cairn identity show sqlite:shop.db
    example: cairn identity separate postgresql://cairn@db.example/erp --nodes 3 --node 2
    example: cairn identity catch-up erp --config /etc/cairn
    """

  static func run(_ arguments: Arguments) throws -> Int32 {
    let words = try arguments.operands(2...2)
    let isSeparate = words[0] == "separate"
    guard isSeparate || ["show", "catch-up"].contains(words[0]) else {
      let near = words[0].nearest(in: ["show", "separate", "catch-up"])
      throw arguments.usage("there is no 'cairn identity \(words[0])'", near.map { "did you mean '\($0)'?" })
    }
    for option in ["--nodes", "--node", "--below-zero", "--sql"]
    where !isSeparate && (arguments.value(option) != nil || arguments.has(option)) {
      throw arguments.usage("option \(option) is for 'cairn identity separate'", nil)
    }
    let patterns = TablePatterns(
      arguments.value("--tables")?.split(at: ",") ?? ["*"])
    let isJSON = arguments.has("--json")
    let share = isSeparate ? try share(arguments) : nil
    let keys = try DrawnKeys(database(words[1], arguments))
    if let share { return try separate(keys, share, patterns, arguments) }
    if words[0] == "show" {
      let all = try keys.all(patterns)
      for key in all { Terminal.print(isJSON ? json(key, keys.url) : text(key)) }
      if all.isEmpty, !isJSON { Terminal.note("\(keys.url.place) generates no keys") }
      return 0
    }
    let moved = try keys.catchUp(patterns)
    try noteBorrowed(keys, patterns)
    for (key, next) in moved {
      Terminal.print(
        isJSON
          ? JSONObject([("event", .text("caught_up")), ("table", .text(key.fullName)), ("next", .integer(next))]).line
          : "\(key.fullName).\(key.column) continues with \(next)")
    }
    if moved.isEmpty, !isJSON { Terminal.note("every sequence already continues after the greatest key of its table") }
    return 0
  }

  private static func noteBorrowed(_ keys: DrawnKeys, _ patterns: TablePatterns) throws {
    for key in try keys.borrowed(patterns) {
      guard case .sequence(let sequence) = key.source else { continue }
      Terminal.note(
        "\(key.fullName).\(key.column) is left out: the owner of the table may not move sequence \(sequence.name). As the owner of the sequence: GRANT UPDATE ON SEQUENCE \(sequence.name) TO the owner of the table"
      )
    }
  }

  private static func separate(
    _ keys: DrawnKeys, _ share: KeyShare, _ patterns: TablePatterns, _ arguments: Arguments
  ) throws -> Int32 {
    let isDry = arguments.has("--sql")
    let statements = try keys.separate(share, patterns, isDry: isDry)
    try noteBorrowed(keys, patterns)
    for statement in statements {
      Terminal.script(
        arguments.has("--json")
          ? JSONObject([("event", .text(isDry ? "statement" : "separated")), ("sql", .text(statement))]).line
          : statement + ";")
    }
    if statements.isEmpty { Terminal.note("\(keys.url.place) generates no keys") }
    return 0
  }

  private static func share(_ arguments: Arguments) throws -> KeyShare {
    func number(_ option: String) throws -> Int64 {
      let text = try arguments.required(option)
      guard let number = Int64(text), number > 0 else {
        throw arguments.usage("\(option) is '\(text)'", "a number from 1 is allowed;")
      }
      return number
    }
    let (nodes, node) = (try number("--nodes"), try number("--node"))
    guard let share = KeyShare(node: node, of: nodes, isBelowZero: arguments.has("--below-zero")) else {
      throw arguments.usage("there is no node \(node) of \(nodes)", "--node is from 1 to --nodes;")
    }
    return share
  }

  private static func database(_ word: String, _ arguments: Arguments) throws -> DatabaseURL {
    if word.contains(":") { return try DatabaseURL(word).canonical }
    return try DaemonConf.database(word, in: DaemonConf.load(arguments.value("--config")))
  }

  private static func text(_ key: GeneratedKey) -> String {
    "\(key.fullName).\(key.column): " + what(key)
      + (key.isSeparated ? "; separated" : "; another node would generate the same")
  }

  private static func what(_ key: GeneratedKey) -> String {
    switch key.source {
    case .rowid(let isMonotonic):
      isMonotonic ? "AUTOINCREMENT, the greatest key ever used plus one" : "one more than the greatest key"
    case .sequence(let sequence):
      "sequence \(sequence.name) in steps of \(sequence.increment), "
        + (sequence.last.map { "last \($0)" } ?? "from \(sequence.start)")
    }
  }

  private static func json(_ key: GeneratedKey, _ url: DatabaseURL) -> String {
    var object = JSONObject([
      ("database", .text(url.place)), ("table", .text(key.fullName)), ("column", .text(key.column)),
      ("separated", .bool(key.isSeparated)),
    ])
    switch key.source {
    case .rowid(let isMonotonic): object["source"] = .text(isMonotonic ? "autoincrement" : "rowid")
    case .sequence(let sequence):
      object["source"] = .text("sequence")
      object["sequence"] = .text(sequence.name)
      object["increment"] = .integer(sequence.increment)
      object["start"] = .integer(sequence.start)
      object["last"] = sequence.last.map { .integer($0) } ?? .null
    }
    return object.line
  }
}
