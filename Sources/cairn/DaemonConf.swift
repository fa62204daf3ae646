import Changes
import Configuring
import Glibc
import Operating
import Steering
import Trails

/// What the command line takes from the conf of a daemon.
enum DaemonConf {
  static func load(_ folder: String?) throws -> Configuration { try loaded(folder).get() }

  private static func loaded(_ folder: String?) -> LoadedConfiguration {
    ConfFolder.load(folder ?? ConfFolder.usual) { name in getenv(name).map { String(cString: $0) } }
  }

  /// Where the daemon of a conf may listen. Of a conf that is broken, what can be read of it counts; of one that this
  /// user may not read, the usual places are left.
  static func controlPlaces(_ folder: String?) -> [String] {
    let loaded = loaded(folder)
    func text(_ section: String, _ key: String) -> String? {
      let setting = loaded.settings.first { $0.section == section && $0.key == key }
      guard let value = setting?.value, value.hasPrefix("\""), value.hasSuffix("\""), value.count > 2 else {
        return nil
      }
      return String(value.dropFirst().dropLast())
    }
    let configuration = loaded.configuration
    return ControlClient.places(
      given: configuration?.control.socket ?? text("[control]", "socket"),
      state: configuration?.node.state ?? text("[node]", "state") ?? "/var/lib/cairn")
  }

  /// Both ends of an apply whose trail is captured here. Errors: `usage` for one that there is not.
  static func ends(
    of name: String, in configuration: Configuration
  ) throws -> (apply: Configuration.Apply, capture: Configuration.Capture, from: DatabaseURL, to: DatabaseURL) {
    let short = name.hasPrefix("apply.") ? String(name.dropFirst("apply.".count)) : name
    guard let apply = configuration.applies.first(where: { $0.name == short }) else {
      let names = configuration.applies.map(\.name).joined(separator: ", ")
      throw CairnError(
        .usage, "there is no apply '\(name)' in the conf", hint: "there are \(names)", remedy: .badInput)
    }
    guard let trail = TrailName(apply.trail), trail.origin == configuration.node.name,
      let capture = configuration.captures.first(where: { $0.name == trail.name }),
      let source = configuration.database(capture.database), let target = configuration.database(apply.database)
    else {
      throw CairnError(
        .unsupported, "trail \(apply.trail) is not captured at this node, so its source is not at hand",
        hint: "name both ends: cairn compare --from URL --to URL", remedy: .badInput)
    }
    return (apply, capture, try source.location(), try target.location())
  }
}
