import Changes

/// A command of `cairn`, with its operands and options.
protocol Command {
  static var name: String { get }
  static var summary: String { get }
  /// The operands, such as `list|show|verify [TRAIL]`.
  static var operands: String { get }
  static var options: [Option] { get }
  /// The help text below the options, with an example.
  static var details: String { get }
  /// Runs the command, and returns the exit status.
  static func run(_ arguments: Arguments) throws -> Int32
}

struct Option {
  let name: String
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
