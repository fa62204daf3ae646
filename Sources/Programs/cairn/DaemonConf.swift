import Changes
import Configuring
import ControlAPI
import Deploying
import Endpoints
import SystemKit
import Trails

/// The functions by which commands read a daemon's configuration.
enum DaemonConf {
  /// Loads the configuration.
  ///
  /// - Parameter more: Files to treat as if they were in the folder.
  /// - Parameter awaitsPeers: Whether the sections of peers that push trails may be missing, because they are added
  ///   later.
  static func load(_ folder: String?, more: [ConfFile] = [], awaitsPeers: Bool = false) throws -> Configuration {
    try loaded(folder, more: more, awaitsPeers: awaitsPeers).get()
  }

  private static func loaded(
    _ folder: String?, more: [ConfFile] = [], awaitsPeers: Bool = false
  ) -> LoadedConfiguration {
    ConfFolder.load(folder ?? ConfFolder.usual, more: more, awaitsPeers: awaitsPeers)
  }

  /// Returns the control socket of a daemon. If the configuration is invalid, reads the socket from its valid part.
  static func address(_ folder: String?) -> DaemonAddress {
    let loaded = loaded(folder)
    let places = ControlClient.places(given: loaded.place.socket, state: loaded.place.state ?? "/var/lib/cairn")
    let client = ControlClient(places.first(where: Folder.exists) ?? places.last ?? "")
    do {
      _ = try loaded.get()
      return DaemonAddress(client: client, confError: nil)
    } catch { return DaemonAddress(client: client, confError: isTold(loaded) ? error : nil) }
  }

  private static func isTold(_ loaded: LoadedConfiguration) -> Bool {
    !loaded.files.isEmpty || loaded.problems.contains { $0.isBarred }
  }

  /// Returns the node of a configuration, and the configuration. Prints the problem of an invalid configuration, and
  /// returns nil in its place.
  /// - Throws: the problem, if it concerns the node itself or the files cannot be read.
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

  /// Returns a database by its name in the configuration.
  /// - Throws: `usage` if there is none.
  static func database(_ name: String, in configuration: Configuration) throws -> DatabaseURL {
    guard let database = configuration.database(name) else {
      let names = configuration.databases.map(\.name).joined(separator: ", ")
      throw CairnError(
        .usage, "there is no database '\(name)' in the conf", hint: "there are \(names)", remedy: .badInput)
    }
    return try database.location()
  }

  /// Returns the source and the target of an apply. The source is nil if it is at another node.
  /// - Throws: `usage` if there is no such apply.
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

/// The control socket of a daemon. `confError` is the error of an invalid conf; nil otherwise.
struct DaemonAddress {
  let client: ControlClient
  let confError: CairnError?

  /// Sends a request to the daemon, and returns its answer.
  /// - Throws: the errors of ``ControlClient/ask(_:seconds:)``, or `confError` if no daemon answers.
  func ask(_ request: ControlRequest, seconds: Int = 60) throws -> JSONObject {
    do { return try client.ask(request, seconds: seconds) } catch let error as CairnError
      where error.code == .daemonUnreachable
    {
      // A daemon that is running but refuses this user was found without the configuration.
      guard let confError, error.remedy == .retry else { throw error }
      throw CairnError(
        confError.code, "\(confError.message); and no cairnd answers at \(client.path)", hint: confError.hint,
        remedy: confError.remedy, context: confError.context)
    }
  }
}
