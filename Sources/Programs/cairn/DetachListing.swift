import Changes
import Configuring
import Endpoints
import SystemKit
import Trails

/// The databases of a daemon's conf that may have something of Cairn, each with the command that removes it.
///
///     try DetachListing("/etc/cairn").print(isJSON: false)
struct DetachListing {
  /// The result of a look into a database.
  enum Finding {
    case attached
    case clean
    /// The database was not opened, or could not be opened.
    case unknown(String)

    var isClean: Bool { if case .clean = self { true } else { false } }
  }

  struct Entry {
    var url: DatabaseURL
    var workers: [String]
    var finding: Finding

    /// The command, with the reason as a comment of the shell.
    var line: String {
      let why =
        switch finding {
        case .attached: "has triggers or tables of Cairn"
        case .clean: "has nothing of Cairn"
        case .unknown(let reason): reason
        }
      return "\(command)  # \((workers + [why]).joined(separator: ", ").oneLine)"
    }

    var command: String { "cairn detach \(url.shown.shellWord)" }

    var json: JSONObject {
      var object = JSONObject([
        ("event", .text("attached")), ("database", .text(url.place)), ("command", .text(command)),
        ("workers", .list(workers.map { .text($0) })),
      ])
      switch finding {
      case .attached: object["found"] = .bool(true)
      case .clean: object["found"] = .bool(false)
      case .unknown(let reason):
        object["found"] = .null
        object["reason"] = .text(reason)
      }
      return object
    }
  }

  let entries: [Entry]
  /// The trails of this node in the state folder that no capture of the conf writes.
  let orphans: [TrailName]

  /// Reads the conf, and looks into its SQLite files.
  /// - Throws: `conf-missing` or another problem, if this user may not read the conf.
  init(_ folder: String?) throws {
    let loaded = ConfFolder.load(folder ?? ConfFolder.usual)
    if loaded.files.isEmpty, loaded.problems.contains(where: \.isBarred) { _ = try loaded.get() }
    entries = loaded.databases.compactMap { used in
      guard let url = try? DatabaseURL(used.url) else { return nil }
      return Entry(url: url, workers: used.workers, finding: Self.look(at: url))
    }
    let captured = loaded.databases.flatMap(\.workers)
    orphans = ((try? Trail.names(state: loaded.place.state ?? "/var/lib/cairn")) ?? []).filter { trail in
      trail.origin == loaded.place.node ?? trail.origin && !captured.contains("capture.\(trail.name)")
    }
  }

  private static func look(at url: DatabaseURL) -> Finding {
    guard case .sqlite(let path) = url else { return .unknown("was not looked at") }
    guard FileIdentity(path: path) != nil else { return .unknown("the file is missing") }
    do { return try Detaching.isAttached(sqlite: path) ? .attached : .clean } catch {
      return .unknown("cannot be read: \(Cairn.envelope(error).message)")
    }
  }

  func print(isJSON: Bool) {
    for entry in entries where isJSON || !entry.finding.isClean {
      Terminal.print(isJSON ? entry.json.line : entry.line)
    }
    for trail in orphans where !isJSON {
      Terminal.note("cairn: trail \(trail) has no capture in the conf; its source may still have triggers or a slot")
    }
    if !isJSON && orphans.isEmpty && entries.allSatisfy({ $0.finding.isClean }) {
      Terminal.print("no database of the conf has anything of Cairn")
    }
  }
}
