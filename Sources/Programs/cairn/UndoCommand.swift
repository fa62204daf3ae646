import Applying
import Changes
import Configuring
import Endpoints
import Trails

/// `cairn undo`: writes the inverse of one transaction at its origin.
struct UndoCommand: Command {
  static let name = "undo"
  static let summary = "write the inverse of one transaction, as a new transaction at its origin"
  static let operands = "TRAIL N"
  static let options = [
    Option("--dry-run", nil, "print what would be written, or why it is refused; write nothing"),
    Option("--force", nil, "also overwrite columns that later transactions wrote"),
    Option("--database", "URL|DATABASE", "the database in which the transaction began, if it is not known"),
    Option("--config", "DIR", "the daemon's conf, which has the trail and its database"),
    Option.state, Option.json,
  ]
  static let details = """
    TRAIL is NODE.NAME as 'cairn trail list' prints it, or the path of a trail's folder. N is the number of a transaction
    as 'cairn trail show' and 'cairn blame' print it. The database is that of the trail's capture, or of the
    replication whose state folder has the trail. That folder must be private to the user who runs the command.

    An insert becomes a delete, a delete an insert of the whole row, and an update writes the values before. An update
    writes only columns that the transaction changed. All of it is one transaction, as of an application: capture
    records it, and other nodes get it as any change. Triggers fire, and foreign keys are checked.

    Nothing is written if one row is refused. --force overrides the first four reasons:

      written      a later transaction wrote a column that the transaction wrote
      deleted      a later transaction deleted the row; with --force, the row is left out
      inserted     a later transaction inserted a row with the key of a deleted one
      trigger      a trigger of the database writes a column again
      differs      the database has a value that the trail does not have yet
      unknown      the trail does not give the value before: PostgreSQL needs REPLICA IDENTITY FULL
      referenced   other rows refer to the row, and a foreign key would change them
      refused      a constraint or a trigger of the database refuses a row
      truncated, copied, reshaped, misfit   a truncation, a copy, a schema change, or other columns than in the trail

    example: cairn undo local.shop 7 --dry-run
             cairn undo --config /etc/cairn store-042.pos 118
    """

  static func run(_ arguments: Arguments) throws -> Int32 {
    let words = try arguments.operands(2...2)
    guard let number = UInt64(words[1]), number > 0 else {
      throw arguments.usage(
        "'\(words[1])' is not the number of a transaction", "see 'cairn trail show' for the numbers;")
    }
    let (folder, url) = try place(words[0], arguments)
    let found = try UndoTransaction(folder: folder, number: number)
    let (isDry, isForced) = (arguments.has("--dry-run"), arguments.has("--force"))
    if !arguments.has("--json") { Terminal.print(UndoText.head(of: found, at: url.place)) }
    let outcome = try Undoing.run(found.plan, at: url, isForced: isForced, isDry: isDry)
    let text = UndoText(found: found, outcome: outcome, place: url.place, isDry: isDry)
    for line in arguments.has("--json") ? text.json : text.lines { Terminal.print(line) }
    if let error = text.refusal { throw error }
    return 0
  }

  /// Returns the folder of a trail, and the database in which its transactions began.
  private static func place(_ trail: String, _ arguments: Arguments) throws -> (folder: String, url: DatabaseURL) {
    let named = arguments.value("--database")
    let configuration = try configuration(trail, arguments)
    let folder =
      try configuration.map { try self.folder(trail, $0, arguments) } ?? TrailCommand.folder(trail, arguments)
    if let named {
      guard !named.has(":") else { return (folder, try DatabaseURL(named).canonical) }
      return (folder, try DaemonConf.database(named, in: try configuration ?? DaemonConf.load(nil)))
    }
    if let configuration {
      let capture = configuration.captures.first { configuration.trail(of: $0) == trail }
      if let capture { return (folder, try DaemonConf.database(capture.database, in: configuration)) }
    } else if let origin = try Undoing.origin(ofTrail: folder) {
      return origin
    }
    throw arguments.usage(
      "no capture here writes trail \(trail), so its database is not known",
      "run the command at the node where the trail begins, or name the database with --database;")
  }

  /// Returns the conf that `--config` names, or the usual one if it has the trail; nil for the trail of a replication.
  private static func configuration(_ trail: String, _ arguments: Arguments) throws -> Configuration? {
    if let folder = arguments.value("--config") { return try DaemonConf.load(folder) }
    guard arguments.value("--state") == nil, !trail.has("/") else { return nil }
    guard let usual = try? ConfFolder.load(ConfFolder.usual).get() else { return nil }
    return usual.captures.contains { usual.trail(of: $0) == trail } ? usual : nil
  }

  private static func folder(
    _ trail: String, _ configuration: Configuration, _ arguments: Arguments
  ) throws -> String {
    if trail.has("/") { return trail }
    let folder = "\(arguments.value("--state") ?? configuration.node.state)/\(trail)"
    if Trail.exists(folder: folder) { return folder }
    let names = configuration.captures.map { configuration.trail(of: $0) }
    let near = trail.nearest(in: names).map { "did you mean '\($0)'? " } ?? ""
    throw CairnError(
      .trailMissing, "there is no trail \(trail) in \(configuration.node.state)",
      hint: near + "captures of the conf write: \(names.joined(separator: ", "))", remedy: .badInput)
  }
}
