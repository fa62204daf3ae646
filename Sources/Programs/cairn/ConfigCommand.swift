import Changes
import Configuring
import Deploying
import Endpoints

/// `cairn config`: prints the settings in force, or documents generated from the option table.
struct ConfigCommand: Command {
  static let name = "config"
  static let summary = "show the settings in force of the daemon's conf, and the source of each value"
  static let operands = "show"
  static let options = [
    Option("--config", "DIR", "folder with cairn.toml and conf.d/*.toml, or one file (default \(ConfFolder.usual))"),
    Option.json,
    Option("--toml", nil, "print a conf with all options as comments, conf/cairn.toml"),
    Option("--markdown", nil, "print the page of all options, docs/reference/configuration.md"),
    Option("--man", nil, "print the man page cairn.toml(5), in mdoc"),
  ]
  static let details = """
    'show' prints every option of every section: its value, and the file and line that it came from, 'default', or the
    credential. Passwords are shown as ********. It only reads the files; 'cairn check --config' proves the databases
    too. A conf with errors is shown as far as it could be read, with all errors, and the status of the first.

    example: cairn config show --config /etc/cairn
    example: cairn config --toml > /etc/cairn/cairn.toml
    """

  static func run(_ arguments: Arguments) throws -> Int32 {
    let words = try arguments.operands(0...1)
    for (option, text) in documents where arguments.has(option) {
      guard words.isEmpty else { throw arguments.usage("\(option) takes no other argument", nil) }
      Terminal.write(text(), to: 1)
      return 0
    }
    guard words == ["show"] else {
      throw arguments.usage(words.isEmpty ? "'show' is missing" : "'\(words[0])' is unknown", "there is 'show';")
    }
    return show(arguments.value("--config") ?? ConfFolder.usual, isJSON: arguments.has("--json"))
  }

  private static var documents: [(option: String, text: () -> String)] {
    [
      ("--toml", { ConfDocument.reference }), ("--markdown", { ConfDocument.markdown }),
      ("--man", { Manual.conf.text }),
    ]
  }

  private static func show(_ path: String, isJSON: Bool) -> Int32 {
    let loaded = ConfFolder.load(path)
    var section = ""
    let widths = Dictionary(grouping: loaded.settings, by: \.section).mapValues { settings in
      settings.map { $0.line.count }.max() ?? 0
    }
    for setting in loaded.settings {
      if isJSON {
        Terminal.print(setting.json.line)
        continue
      }
      // All rules of an apply have the same heading. The first option shows where the next rule begins.
      if setting.section != section || setting.key == "from" {
        Terminal.page((section.isEmpty ? "" : "\n") + setting.section)
        section = setting.section
      }
      let padding = String(repeating: " ", count: max(0, min(widths[section] ?? 0, 60) - setting.line.count))
      Terminal.print("\(setting.line)\(padding)  # \(setting.source)")
    }
    return report(loaded, isJSON: isJSON)
  }

  static func report(_ loaded: LoadedConfiguration, isJSON: Bool) -> Int32 {
    for notice in loaded.notices {
      if isJSON {
        Terminal.print(JSONObject([("event", .text("notice")), ("text", .text(notice))]).line)
      } else {
        Terminal.note("cairn: notice: \(notice)")
      }
    }
    for problem in loaded.problems { Terminal.report(problem.error, asJSON: isJSON) }
    return loaded.problems.first?.code.exitStatus ?? 0
  }
}

extension Setting {
  fileprivate var line: String { value.map { "\(key) = \($0)" } ?? "#\(key)" }

  fileprivate var source: String {
    switch origin {
    case .file(let place): place.lineDescription
    case .wrong(let place): "wrong: \(place.lineDescription)"
    case .credential(let path): "credential \(path)"
    case .byDefault: value == nil ? (absence.isEmpty ? "missing" : "not set: \(absence)") : "default"
    }
  }

  fileprivate var json: JSONObject {
    var object = JSONObject([
      ("event", .text("setting")), ("section", .text(section)), ("key", .text(key)),
      ("value", value.map { .text($0) } ?? .null),
    ])
    switch origin {
    case .file(let place):
      object["origin"] = .text("file")
      object["file"] = .text(place.file)
      object["line"] = .integer(Int64(place.line))
    case .wrong(let place):
      object["origin"] = .text("wrong")
      object["file"] = .text(place.file)
      object["line"] = .integer(Int64(place.line))
    case .credential(let path):
      object["origin"] = .text("credential")
      object["file"] = .text(path)
    case .byDefault: object["origin"] = .text("default")
    }
    return object
  }
}
