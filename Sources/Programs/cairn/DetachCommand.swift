import Changes
import ControlAPI
import Endpoints
import SystemKit

/// `cairn detach`: removes everything that Cairn added to a database.
struct DetachCommand: Command {
  static let name = "detach"
  static let summary = "remove everything of Cairn from a database; user tables and rows stay"
  static let operands = "[URL]"
  static let options =
    [
      Option("--slot", "NAME", "only this slot that a capture left at the server, and its publication"),
      Option("--trail", "NODE.NAME", "only what a target stores about this trail, which no apply uses any longer"),
      Option("--reader", nil, "only the record that trails are kept for this target; the database is not opened"),
      Option("--list", nil, "print the command for each database of the daemon's conf that has something of Cairn"),
      Option("--state", "DIR", "the state folder of 'cairn replicate', if it is not the default"),
    ] + DaemonPeer.options
  static let details = """
    From SQLite: triggers, journal and side tables. From PostgreSQL: slots, publications, replication origins and the
    schema cairn. Afterwards the schema is as it was before. Changes that were not replicated yet stay in the user's
    tables, but are no longer recorded as changes.

    With --slot or --trail, everything of other captures and applies stays. A slot that is in use is refused. So
    is a trail that an apply of the running daemon, or a session at the server, applies there.

    A trail that several 'cairn replicate' share is kept for each of their targets, until it is detached. If the target
    is gone, use --reader, which does not open it.

    With --list, nothing is changed. SQLite files are opened to see whether they have triggers or tables of Cairn.
    PostgreSQL databases of the conf are listed without a look at them. The daemon may be stopped.

    example: cairn detach sqlite:shop.db
    example: cairn detach postgresql://cairn@db.example/erp
    example: cairn detach postgresql://cairn@db.example/erp --slot cairn_0123456789abcdef
    example: cairn detach postgresql://cairn@db.example/erp --trail store-042.pos
    example: cairn detach --reader sqlite:lost.db --state /var/lib/cairn-shop
    example: cairn detach --list --config /etc/cairn
    """

  static func run(_ arguments: Arguments) throws -> Int32 {
    if arguments.has("--list") {
      _ = try arguments.operands(0...0)
      if let other = ["--slot", "--trail", "--state"].first(where: { arguments.value($0) != nil })
        ?? (arguments.has("--reader") ? "--reader" : nil)
      {
        throw arguments.usage("--list does not go with \(other)", "it lists the databases of the daemon's conf;")
      }
      try DetachListing(arguments.value("--config")).print(isJSON: arguments.has("--json"))
      return 0
    }
    let url = try DatabaseURL(arguments.operands(1...1)[0])
    if arguments.has("--reader") {
      if arguments.value("--slot") != nil || arguments.value("--trail") != nil {
        throw arguments.usage(
          "--reader does not go with --slot or --trail", "it is about the trails that a target reads;")
      }
      let trails = try forgetReader(url, arguments)
      let names = trails.map(\.description).joined(separator: ", ")
      tell(
        arguments, url,
        trails.isEmpty ? "no trail is kept for \(url.place)" : "trail \(names) is no longer kept for \(url.place)",
        [("trails", .list(trails.map { .text($0.description) }))], found: !trails.isEmpty)
      return 0
    }
    switch (arguments.value("--slot"), arguments.value("--trail")) {
    case (_?, _?):
      throw arguments.usage("--slot does not go with --trail", "a slot is at a source, a trail at a target;")
    case (let slot?, nil):
      try Detaching.drop(slot: slot, at: url)
      tell(arguments, url, "dropped slot \(slot) at \(url.place)", [("slot", .text(slot))], found: true)
    case (nil, let text?):
      guard let trail = TrailName(text) else {
        throw arguments.usage("--trail is '\(text)'", "a name is NODE.NAME, as in store-042.pos;")
      }
      try checkIsUnused(trail, at: url, arguments)
      let found = try Detaching.forget(trail, at: url)
      let text = found ? "removed trail \(trail) from \(url.place)" : "\(url.place) has nothing of trail \(trail)"
      tell(arguments, url, text, [("trail", .text(trail.description))], found: found)
    case (nil, nil):
      let found = try Detaching.run(url)
      _ = try forgetReader(url, arguments)
      tell(arguments, url, found ? "detached \(url.place)" : "\(url.place) has nothing of Cairn", [], found: found)
    }
    return 0
  }

  /// Removes a target from the lists of readers of all trails, so that a purge keeps no segments for it. Returns the
  /// trails that the target read.
  private static func forgetReader(_ url: DatabaseURL, _ arguments: Arguments) throws -> [TrailName] {
    let state = arguments.value("--state").map { $0.hasPrefix("/") ? $0 : FileIdentity.canonical("./" + $0) }
    return try TrailReaders.forget(target: url.canonical.place, state: state)
  }

  private static func tell(
    _ arguments: Arguments, _ url: DatabaseURL, _ text: String, _ more: [(String, JSONObject.Value)], found: Bool
  ) {
    let facts = [("event", .text("detached")), ("database", .text(url.place)), ("found", .bool(found))] + more
    Terminal.print(arguments.has("--json") ? JSONObject(facts).line : text)
  }

  /// Throws `database-busy` if the running daemon applies the trail to this database.
  private static func checkIsUnused(_ trail: TrailName, at url: DatabaseURL, _ arguments: Arguments) throws {
    guard let answer = try? DaemonPeer.address(arguments).ask(ControlRequest(.status), seconds: 5) else { return }
    let user = answer.objects("workers").compactMap(NodeStatus.Worker.init).first { worker in
      worker.name.kind == .apply && worker.trail == trail.description && isSame(worker.place, url)
        && ![.stopped, .failed].contains(worker.state)
    }
    guard let user else { return }
    throw CairnError(
      .databaseBusy, "\(user.name) of the running daemon applies trail \(trail) to \(url.place)",
      hint: "remove [\(user.name)] from the conf and reload, or run 'cairn stop \(user.name)', then run again",
      remedy: .badInput)
  }

  private static func isSame(_ place: String, _ url: DatabaseURL) -> Bool {
    guard case .sqlite = url else { return place == url.place }
    return (try? DatabaseURL("sqlite:" + place).canonical) == url.canonical
  }
}
