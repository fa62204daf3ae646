import Changes
import Endpoints

/// The state folder whose trails a command reads: that of `--state`, or that of the conf of `--config`.
///
///     let home = try TrailHome(arguments)   // of: cairn trail list --config /etc/cairn
///     try StateFolders.entries(in: home.state)
struct TrailHome {
  static let config = Option(
    "--config", "DIR", "a folder with cairn.toml, or one file: the daemon's trails, by their names")

  /// The state folder; nil for all state folders of replications.
  let state: String?
  /// The name of the conf's node; nil without `--config`.
  let node: String?

  /// - Throws: `usage` if both options are given; the errors of a conf without a valid section `[node]`.
  init(_ arguments: Arguments) throws {
    guard let config = arguments.value("--config") else {
      (state, node) = (arguments.value("--state"), nil)
      return
    }
    if arguments.value("--state") != nil {
      throw arguments.usage("--config and --state exclude each other", "the conf names the state folder;")
    }
    let node = try DaemonConf.node(config).node
    (state, self.node) = (node.state, node.name)
  }

  /// Returns whether the operator means a trail by `text`. Trails of the conf's own node also have short names.
  func isMeant(_ trail: String, by text: String) -> Bool {
    trail == text || node.map { trail == "\($0).\(text)" } ?? false
  }
}
