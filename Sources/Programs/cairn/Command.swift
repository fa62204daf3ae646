import Changes

/// A command of the command line with its operands and options. The parser and the help both use the table of options.
protocol Command {
  static var name: String { get }
  /// The description in one line, for the list of commands.
  static var summary: String { get }
  /// The operands after the name, such as `list|show|verify [TRAIL]`.
  static var operands: String { get }
  static var options: [Option] { get }
  /// The paragraphs of the help below the options: what the command does, with an example.
  static var details: String { get }
  /// Runs the command with its parsed arguments, and returns the exit status.
  static func run(_ arguments: Arguments) throws -> Int32
}

struct Option {
  let name: String
  /// The name of the option's value; nil for a switch.
  let value: String?
  let help: String

  init(_ name: String, _ value: String? = nil, _ help: String) {
    self.name = name
    self.value = value
    self.help = help
  }

  static let json = Option("--json", nil, "print facts as JSON, one object a line")
  static let state = Option("--state", "DIR", "folder with trails and locks; otherwise below $XDG_STATE_HOME/cairn")
}

extension Command {
  static var help: String {
    let rows = (options + [Option("--help", nil, "print this")]).map { option in
      (option.name + (option.value.map { " " + $0 } ?? ""), option.help)
    }
    let width = rows.map { $0.0.count }.max() ?? 0
    let list = rows.map { "  " + $0.0 + String(repeating: " ", count: width - $0.0.count) + "  " + $0.1 }
    return """
      cairn \(name): \(summary)

      usage: cairn \(name)\(operands.isEmpty ? "" : " " + operands) [OPTION ...]

      \(list.joined(separator: "\n"))

      \(details)
      """
  }
}
