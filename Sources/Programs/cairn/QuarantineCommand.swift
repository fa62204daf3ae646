import Applying
import Changes
import Endpoints
import SystemKit

/// `cairn quarantine`: lists the transactions in quarantine, and retries or discards them.
struct QuarantineCommand: Command {
  private typealias Found = (url: DatabaseURL, log: QuarantineLog, one: QuarantinedTransaction)

  static let name = "quarantine"
  static let summary = "list and show transactions in quarantine, apply them again or discard them"
  static let operands = "list|show|retry|discard [N]"
  static let options = [
    Option("--database", "URL|DATABASE", "only this one; DATABASE is one of the daemon's conf"),
    Option("--config", "DIR", "the databases that the applies of the daemon's conf write to"),
    Option.state,
    Option.json,
  ]
  static let details = """
    Cairn's daemon and the library have a quarantine; 'cairn replicate' has none.
    With on_error = "quarantine" an apply puts a transaction that the target refuses into quarantine, and continues.
    Later transactions that write to its rows, or depend on them, go into quarantine too. Each target keeps its
    quarantine. Without --database and --config, the targets are those of the programs with the library whose states are
    in the state folder.

      list      transactions in quarantine, in the order of their trail
      show      one of them: its position, the reason, the transactions that wait for it
      retry     apply it, and then those that wait for it, in their order
      discard   delete it, and try those that wait for it

    The apply carries out a retry or discard: within a second if it runs, otherwise at its next start. See
    docs/explanation/conflicts.md.

    example: cairn quarantine list --config /etc/cairn
    example: cairn quarantine show 3 --database sqlite:shop.db
    example: cairn quarantine retry 3 --config /etc/cairn --database erp
    """

  static func run(_ arguments: Arguments) throws -> Int32 {
    let words = try arguments.operands(1...2)
    let verbs = ["list", "show", "retry", "discard"]
    guard verbs.contains(words[0]) else {
      let near = words[0].nearest(in: verbs)
      throw arguments.usage("there is no 'cairn quarantine \(words[0])'", near.map { "did you mean '\($0)'?" })
    }
    let isJSON = arguments.has("--json")
    if words[0] == "list" {
      if words.count > 1 { throw arguments.usage("'\(words[1])' is one argument too many", nil) }
      return try list(arguments, isJSON)
    }
    guard words.count > 1, let id = Int64(words[1]), id > 0 else {
      throw arguments.usage("which transaction?", "run 'cairn quarantine list\(choice(arguments))' for their numbers;")
    }
    let found = try find(id, arguments)
    guard let wish = QuarantinedTransaction.Wish(rawValue: words[0]) else {
      let waiting = try found.log.list().filter { $0.heldBy == id }.map(\.id)
      Terminal.page(
        try isJSON
          ? QuarantineText.json(found.one, found.url)
          : QuarantineText.whole(found.one, found.url, waiting, state: state(arguments)))
      return 0
    }
    try ask(found, for: wish, arguments)
    return 0
  }

  /// Returns the state folder that the options select; nil for the default.
  private static func state(_ arguments: Arguments) throws -> String? {
    let (named, config) = (arguments.value("--database"), arguments.value("--config"))
    guard config != nil || named?.contains(":") == false else { return arguments.value("--state") }
    return try DaemonConf.load(config).node.state
  }

  /// Returns the options that select databases, for a hint with another command.
  ///
  ///     " --config /etc/cairn --database erp"
  private static func choice(_ arguments: Arguments) -> String {
    ["--config", "--database", "--state"].compactMap { option in
      arguments.value(option).map { " \(option) \($0.shellWord)" }
    }.joined()
  }

  private static func ask(_ found: Found, for wish: QuarantinedTransaction.Wish, _ arguments: Arguments) throws {
    let (url, log, one) = found
    let isJSON = arguments.has("--json")
    if wish == .retry, let holder = one.heldBy, try log.find(holder) != nil {
      throw CairnError(
        .quarantineHeld, "quarantine \(one.id) of \(url.place) depends on \(holder), and cannot be applied before it",
        hint:
          "run 'cairn quarantine retry \(holder)\(choice(arguments))', or the same with discard: this transaction is then tried again",
        remedy: .badInput)
    }
    guard try log.ask(one.id, for: wish) else { throw missing(one.id, url.place, arguments) }
    var asked = one
    asked.wish = wish
    let what = wish == .retry ? "is tried again" : "is discarded"
    Terminal.print(
      isJSON
        ? QuarantineText.json(asked, url)
        : "quarantine \(one.id) of \(url.place), transaction \(one.number) of \(one.trail), \(what) by the apply: within a second if it runs, else at its next start"
    )
  }

  private static func list(_ arguments: Arguments, _ isJSON: Bool) throws -> Int32 {
    let urls = try ConflictsCommand.databases(arguments)
    var count = 0
    for url in urls {
      let kept = try QuarantineLogs.open(url).list()
      count += kept.count
      if !kept.isEmpty, !isJSON { Terminal.print(url.place) }
      for one in kept { Terminal.print(isJSON ? QuarantineText.json(one, url) : QuarantineText.line(one)) }
    }
    if count == 0, !isJSON {
      Terminal.note(urls.isEmpty ? "the conf has no database: name one with --database" : "nothing is in quarantine")
    }
    return 0
  }

  /// Returns the transaction with this number, and the database in whose quarantine it is.
  /// - Throws: `quarantine-missing` if no database has such a transaction; `usage` if several have.
  private static func find(_ id: Int64, _ arguments: Arguments) throws -> Found {
    var found: [Found] = []
    let urls = try ConflictsCommand.databases(arguments)
    for url in urls {
      let log = try QuarantineLogs.open(url)
      if let one = try log.find(id) { found.append((url, log, one)) }
    }
    if found.count > 1 {
      let places = found.map { $0.url.place }.joined(separator: " and ")
      throw arguments.usage("\(places) both have a quarantine \(id)", "name one of them with --database;")
    }
    guard let one = found.first else {
      if urls.isEmpty { throw arguments.usage("the conf has no database", "name one with --database;") }
      throw missing(id, urls.map(\.place).joined(separator: ", "), arguments)
    }
    return one
  }

  private static func missing(_ id: Int64, _ place: String, _ arguments: Arguments) -> CairnError {
    CairnError(
      .quarantineMissing, "\(place): there is no quarantine \(id)",
      hint: "run 'cairn quarantine list\(choice(arguments))' to see what is in quarantine", remedy: .badInput)
  }
}
