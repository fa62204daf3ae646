import Changes
import Configuring
import Endpoints
import Replicating
import SystemKit
import Trails

/// `cairn snapshot`: makes files with the rows of a database at one moment, fetches them and puts them in place.
struct SnapshotCommand: Command {
  static let name = "snapshot"
  static let summary = "make a file with the rows of a database at one moment, or fetch one from another node"
  static let operands = "create|fetch|pending|apply WHAT [NAME]"
  static let options = [
    Option("--to", "FILE", "create: the new SQLite file; fetch: the file that programs read"),
    Option("--tables", "LIST", "create: only these tables, by names and patterns separated by commas"),
    Option("--where", "EXPR", "create: only the rows for which this SQL expression is true, in each taken table"),
    Option("--replace", nil, "create: replace an earlier snapshot of this name"),
    Option("--peer", "NAME", "fetch: the name in the certificate of the other node, if it is not the host of URL"),
    Option("--force", nil, "apply: also if the old file is no snapshot, or while a program has it open"),
    Option("--config", "DIR", "the conf that has DATABASE, APPLY or the pump to PEER (default /etc/cairn)"),
    Option.json,
  ]
  static let details = """
      create DATABASE|APPLY   makes a snapshot of an SQLite database, or of the tables that an apply writes
      fetch URL|PEER NAME     fetches [snapshot.NAME] of another node to FILE.pending, and goes on after an interruption
      pending FILE            prints 'none', 'current' or 'pending': whether FILE.pending waits to be applied
      apply FILE              puts FILE.pending in the place of FILE, in one step

    DATABASE is one of the daemon's conf, or a URL such as sqlite:shop.db. APPLY is an apply of the conf. Write
    database.NAME or apply.NAME if both exist. Writers of the database do not wait if it is in WAL mode; otherwise they
    wait while it is copied. The snapshot has everything that the database has, except what Cairn added to it. With
    --tables or --where it has only tables with their indexes, without views, triggers and virtual tables. A condition
    applies to each table by itself: rows that refer to a row that was left out stay.

    Table cairn_snapshot of the file has the position for which it is true. That is the last row of the journal of a
    captured database, and the checkpoint of an apply. All rows up to the position are in the file, and none after it.
    FILE.sha256 has the checksum, for 'sha256sum -c'. The file gets its name when it is complete, and is FILE.cairn-snapshot and
    FILE.cairn-packed until then. For that time it needs twice the space of the database. While a program has the earlier
    snapshot open, --replace refuses. A log or journal beside the new file, such as FILE-wal, is refused too.

    URL is the listener of the other node, https://HOST:PORT. PEER is a node to which a pump of the conf leads. A download
    is FILE.part until its SHA-256 has been checked. 'apply' refuses while a process has FILE open, or holds a lock of
    SQLite on it. Only root sees all processes. With --force, programs go on with the old file until they open it again.
    A FILE that is no snapshot is replaced only with --force. 'fetch' refuses a file that does not fit on the disk.

    example: cairn snapshot create erp --to /srv/erp-today.db
             cairn snapshot create sqlite:shop.db --to item.db --tables item,price --where "store = 7"
             cairn snapshot fetch https://hq.example:7420 prices --peer hq --to /srv/prices.db
             cairn snapshot pending /srv/prices.db --json
             cairn snapshot apply /srv/prices.db
    """

  static func run(_ arguments: Arguments) throws -> Int32 {
    let words = try arguments.operands(1...3)
    let count = ["create": 2, "fetch": 3, "pending": 2, "apply": 2][words[0]]
    guard let count else {
      let near = words[0].nearest(in: ["create", "fetch", "pending", "apply"])
      throw arguments.usage("there is no 'cairn snapshot \(words[0])'", near.map { "did you mean '\($0)'?" })
    }
    guard words.count >= count else {
      throw arguments.usage("an argument is missing after '\(words.joined(separator: " "))'", nil)
    }
    _ = try arguments.operands(count...count)
    switch words[0] {
    case "create": try create(words[1], arguments)
    case "fetch":
      guard let file = arguments.value("--to") else {
        throw arguments.usage("--to is missing", "name the file that programs read with --to FILE;")
      }
      try SnapshotDevice(file, arguments).fetch(words[2], from: words[1])
    case "pending": try SnapshotDevice(words[1], arguments).pending()
    default: try SnapshotDevice(words[1], arguments).apply()
    }
    return 0
  }

  // MARK: Create

  private static func create(_ name: String, _ arguments: Arguments) throws {
    guard let file = arguments.value("--to") else {
      throw arguments.usage("--to is missing", "name the new file with --to FILE;")
    }
    let (source, trail) = try source(name, arguments)
    var snapshot = Snapshot(of: source, to: FileIdentity.canonicalFolder(of: file))
    snapshot.trail = trail
    snapshot.tables = arguments.value("--tables").map { TablePatterns(text: $0) }
    snapshot.condition = arguments.value("--where")
    snapshot.replaces = arguments.has("--replace")
    let bar = Shared(TrailProgressBar("snapshot"))
    snapshot.progress = { done, total in bar.value.update(done, total) }
    defer { bar.value.clear() }
    let made = try snapshot.make()
    bar.value.clear()
    report(made, snapshot, asJSON: arguments.has("--json"))
  }

  /// The bar, which only the calling thread of ``Snapshot/make()`` uses.
  private struct Shared: @unchecked Sendable {
    let value: TrailProgressBar
    init(_ value: TrailProgressBar) { self.value = value }
  }

  /// Returns the database that the operator names, and the trail of the apply, if it is an apply.
  private static func source(_ name: String, _ arguments: Arguments) throws -> (DatabaseURL, TrailName?) {
    if name.has(":") { return (try DatabaseURL(name).canonical, nil) }
    let configuration = try DaemonConf.load(arguments.value("--config"))
    func short(_ prefix: String) -> String { name.hasPrefix(prefix) ? String(name.dropFirst(prefix.count)) : name }
    let database = name.hasPrefix("apply.") ? nil : configuration.database(short("database."))
    let applies = name.hasPrefix("database.") ? [] : configuration.applies
    let apply = applies.first { $0.name.hasSameBytes(as: short("apply.")) }
    switch (database, apply) {
    case (nil, nil):
      let names =
        configuration.databases.map { "database.\($0.name)" } + configuration.applies.map { "apply.\($0.name)" }
      throw arguments.usage(
        "the conf has no database or apply '\(URLPassword.hidden(in: name))'",
        "there are \(names.joined(separator: ", "));")
    case (_?, _?):
      throw arguments.usage(
        "'\(name)' is a database and an apply", "write database.\(name) or apply.\(name);")
    case (let database?, nil): return (try database.location().canonical, nil)
    case (nil, let apply?):
      return (try DaemonConf.database(apply.database, in: configuration).canonical, TrailName(apply.trail))
    }
  }

  private static func report(_ made: Snapshot.Made, _ snapshot: Snapshot, asJSON: Bool) {
    for notice in made.notices { Terminal.note("cairn: \(notice)") }
    let note = made.note
    if asJSON {
      Terminal.print(
        JSONObject([
          ("event", .text("snapshot")), ("file", .text(snapshot.path)), ("database", .text(snapshot.source.place)),
          ("made_at", .text("\(UTCTime(note.madeAt))")), ("bytes", .integer(Int64(clamping: made.bytes))),
          ("sha256", .text(made.sha256)), ("tables", .list(note.tables.map { .text($0) })),
          ("condition", note.condition.map { .text($0) } ?? .null),
          ("positions", .list(note.positions.map { .object($0.json) })),
        ]).line)
      return
    }
    Terminal.print(
      "\(snapshot.path): \(note.tables.count.counted("table")), \(TrailCommand.byteCount(made.bytes)), "
        + "as of \(UTCTime(note.madeAt))")
    for position in note.positions {
      let after = position.transaction.map { ", after transaction \($0)" } ?? ""
      Terminal.print(
        "true at \(position.text) of trail \(position.trail?.description ?? position.id.description)\(after)")
    }
    Terminal.print("sha256 \(made.sha256)")
  }
}
