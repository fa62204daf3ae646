import Changes
import Configuring
import Operating
import Steering
import SystemKit
import Trails

/// What the command line takes from the conf of a daemon.
enum DaemonConf {
  /// `more` counts as if it stood in the folder; `awaitsPeers`: peers that bring trails of other nodes may be missing.
  static func load(_ folder: String?, more: [ConfFile] = [], awaitsPeers: Bool = false) throws -> Configuration {
    try loaded(folder, more: more, awaitsPeers: awaitsPeers).get()
  }

  private static func loaded(
    _ folder: String?, more: [ConfFile] = [], awaitsPeers: Bool = false
  ) -> LoadedConfiguration {
    ConfFolder.load(folder ?? ConfFolder.usual, more: more, awaitsPeers: awaitsPeers)
  }

  /// The daemon of a conf: where there is a socket of it, of all places where it may listen. Of a conf that is broken,
  /// what can be read of it counts; of one that this user may not read, the usual places are left, and where no daemon
  /// answers there, that is what is wrong.
  static func address(_ folder: String?) -> DaemonAddress {
    let loaded = loaded(folder)
    let places = ControlClient.places(given: loaded.place.socket, state: loaded.place.state ?? "/var/lib/cairn")
    let client = ControlClient(places.first(where: Folder.exists) ?? places.last ?? "")
    do {
      _ = try loaded.get()
      return DaemonAddress(client: client, confError: nil)
    } catch { return DaemonAddress(client: client, confError: isTold(loaded) ? error : nil) }
  }

  /// A conf that is not there says nothing of a daemon.
  private static func isTold(_ loaded: LoadedConfiguration) -> Bool {
    !loaded.files.isEmpty || loaded.problems.contains { $0.isBarred }
  }

  /// The node of a conf, also where something else in it is wrong: that is told, and nothing but the node counts then.
  /// Errors: what is wrong, where it is the node itself or the files cannot be read.
  static func node(_ folder: String?) throws -> (node: Configuration.Node, configuration: Configuration?) {
    let loaded = loaded(folder)
    do throws(CairnError) {
      let configuration = try loaded.get()
      return (configuration.node, configuration)
    } catch {
      guard let name = loaded.place.node else { throw error }
      var node = Configuration.Node(name: name)
      loaded.place.state.map { node.state = $0 }
      Terminal.notes(
        """
        the conf does not load: [\(error.code.rawValue)] \(error.message.oneLine)
        only [node] of it counts here: node \(name), state folder \(node.state)
        """)
      return (node, nil)
    }
  }

  /// A database by its name in the conf. Errors: `usage` for one that there is not.
  static func database(_ name: String, in configuration: Configuration) throws -> DatabaseURL {
    guard let database = configuration.database(name) else {
      let names = configuration.databases.map(\.name).joined(separator: ", ")
      throw CairnError(
        .usage, "there is no database '\(name)' in the conf", hint: "there are \(names)", remedy: .badInput)
    }
    return try database.location()
  }

  /// Both ends of an apply; without a source if that is at another node. Errors: `usage` for one that there is not.
  static func ends(
    of name: String, in configuration: Configuration
  ) throws -> (
    apply: Configuration.Apply, source: (capture: Configuration.Capture, url: DatabaseURL)?, to: DatabaseURL
  ) {
    let short = name.hasPrefix("apply.") ? String(name.dropFirst("apply.".count)) : name
    guard let apply = configuration.applies.first(where: { $0.name == short }) else {
      let names = configuration.applies.map(\.name).joined(separator: ", ")
      throw CairnError(
        .usage, "there is no apply '\(name)' in the conf", hint: "there are \(names)", remedy: .badInput)
    }
    let target = try database(apply.database, in: configuration)
    guard let trail = TrailName(apply.trail), trail.origin == configuration.node.name else {
      return (apply, nil, target)
    }
    guard let capture = configuration.captures.first(where: { $0.name == trail.name }) else {
      throw CairnError(
        .unsupported, "no capture of this node writes trail \(apply.trail)",
        hint: "name both ends: cairn compare --from URL --to URL", remedy: .badInput)
    }
    return (apply, (capture, try database(capture.database, in: configuration)), target)
  }
}

/// Where a daemon is asked, and what is wrong with the conf that says so.
struct DaemonAddress {
  let client: ControlClient
  let confError: CairnError?

  /// Errors: as of ``ControlClient/ask(_:seconds:)``; where none answers and the conf is broken, what is wrong with it.
  func ask(_ request: ControlRequest, seconds: Int = 60) throws -> JSONObject {
    do { return try client.ask(request, seconds: seconds) } catch let error as CairnError
      where error.code == .daemonUnreachable
    {
      // One that is there and lets this user not in needs no conf to be found.
      guard let confError, error.remedy == .retry else { throw error }
      throw CairnError(
        confError.code, "\(confError.message); and no cairnd answers at \(client.path)", hint: confError.hint,
        remedy: confError.remedy, context: confError.context)
    }
  }
}
