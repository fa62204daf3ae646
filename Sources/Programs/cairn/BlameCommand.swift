import Changes
import Configuring
import Endpoints
import SystemKit
import Trails

/// `cairn blame`: prints who wrote each column of a row last, from the trails of a database.
struct BlameCommand: Command {
  static let name = "blame"
  static let summary = "show who wrote each column of a row last, when, and in which transaction"
  static let operands = "URL|DATABASE TABLE KEY"
  static let options = [
    Option("--config", "DIR", "the conf that has DATABASE, and the state folder (default /etc/cairn)"),
    Option.state, Option.json,
  ]
  static let details = """
    The trails of a database are that of its capture, and those that applies write into it. DATABASE is one of the
    daemon's conf; a URL is one of 'cairn replicate'. TABLE has its name in the trail, with its schema if that is not
    public. A key is compared as text; write 'a,b' for a key of two columns. Earlier names of the table and its columns,
    and earlier keys of the row, are followed.

      insert, update   the transaction that wrote the value, and the node that committed it first
      copy             a copy brought the value; the trail does not say who wrote it
      column           the column came by a schema change
      delete, truncate, drop, move   the row is gone, or has another key since

    'or earlier' means that an earlier transaction may have written the same value: the source gave no row before the
    update. If a column comes from several trails, the latest write counts; 'cairn conflicts' lists writes that lost.
    A trail knows only what it still has: set 'keep' in [trail.NAME] for more history.

    example: cairn blame erp item 7
             cairn blame sqlite:shop.db line "1,'a,b'" --json
    """

  static func run(_ arguments: Arguments) throws -> Int32 {
    let words = try arguments.operands(3...3)
    let folders = try folders(of: words[0], arguments).filter { Trail.exists(folder: $0) }
    guard !folders.isEmpty else {
      throw CairnError(
        .trailMissing, "there is no trail of database '\(URLPassword.hidden(in: words[0]))'",
        hint: "start its replication, or name the folder of its trails with --state; see 'cairn trail list'",
        remedy: .badInput)
    }
    let filter = RowFilter(table: words[1], key: words[2])
    var names: Set<NameKey> = []
    var hasAllNames = true
    var schema: TableSchema?
    var blames: [Blame] = []
    var infos: [TrailInfo] = []
    for folder in folders {
      infos.append(try Trail.info(folder: folder))
      let (newest, others) = try TrailSearch(folder: folder, filter: filter).newestSchema()
      names.formUnion((others ?? []).map(\.nameKey))
      hasAllNames = hasAllNames && (newest != nil || others != nil)
      guard let newest else { continue }
      guard let key = filter.key(in: newest) else { throw misfit(newest, words[2], arguments) }
      schema = schema ?? newest
      blames.append(try Blame.read(folder: folder, schema: newest, key: key))
    }
    let trails = infos.map(\.name.description).joined(separator: ", ")
    guard let schema else {
      let near = filter.table?.nearest(in: names.sorted().map(\.text)).map { "did you mean '\($0)'? " } ?? ""
      let some = names.sorted().prefix(20).map(\.text).joined(separator: ", ")
      let there = hasAllNames && !some.isEmpty ? "there are: \(some);" : "name the table as 'cairn trail show' does;"
      throw arguments.usage("no table '\(words[1])' in \(trails)", near + there)
    }
    if let name = blames.lazy.compactMap(\.newName).first {
      throw arguments.usage(
        "table '\(words[1])' was renamed to \(name)", "name the table \(name.shellWord);")
    }
    let text = BlameText(schema: schema, key: words[2], blames: blames, infos: infos)
    guard blames.contains(where: { !$0.isEmpty }) else {
      throw arguments.usage(
        "no write of row \(words[2]) of table \(schema.fullName) in \(trails)\(text.reach)",
        "check the key, or set 'keep' in [trail.NAME] for more history;")
    }
    for line in arguments.has("--json") ? text.json : text.lines { Terminal.print(line) }
    return 0
  }

  private static func misfit(_ schema: TableSchema, _ key: String, _ arguments: Arguments) -> CairnError {
    let columns = schema.key.isEmpty ? Array(schema.columns.indices) : schema.key
    let names = columns.map { schema.columns[$0].name }.joined(separator: ",")
    return arguments.usage(
      "'\(key)' has not \(columns.count.counted("value"))",
      "write the values of \(names), separated by commas, those with commas in single quotes;")
  }

  /// Returns the folders of the trails of a database, that of its own capture first.
  private static func folders(of database: String, _ arguments: Arguments) throws -> [String] {
    guard database.has(":") else {
      let configuration = try DaemonConf.load(arguments.value("--config"))
      _ = try DaemonConf.database(database, in: configuration)
      let own = configuration.captures.filter { $0.database == database }.map { configuration.trail(of: $0) }
      let applied = configuration.applies.filter { $0.database == database && !own.contains($0.trail) }.map(\.trail)
      let state = arguments.value("--state") ?? configuration.node.state
      return (own + applied).map { "\(state)/\($0)" }
    }
    let place = try DatabaseURL(database).canonical.place
    return try StateFolders.folders(arguments.value("--state")).flatMap { folder -> [String] in
      guard let ends = try StateFolder.ends(of: folder),
        ends.from.hasSameBytes(as: place) || ends.to.hasSameBytes(as: place)
      else { return [] }
      return try StateFolders.entries(in: folder).map(\.folder)
    }
  }
}
