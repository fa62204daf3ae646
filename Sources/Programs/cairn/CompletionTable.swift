import Changes

/// The commands with their options and operands, as the completion scripts of all shells need them.
struct CompletionTable {
  struct Entry {
    var name: String
    var summary: String
    /// The options, with `--help`.
    var options: [Option]
    /// The kinds of the operands, in order, such as `list|show|verify` and `TRAIL`.
    var operands: [String]

    /// The names of the options that have a value.
    var valued: [String] { options.filter { $0.value != nil }.map(\.name) }
  }

  static var commands: [Entry] {
    (Cairn.commands + [HelpCommand.self]).map { command in
      Entry(
        name: command.name, summary: command.summary, options: command.options + [Option("--help", nil, "print this")],
        operands: command.name == HelpCommand.name ? ["COMMAND"] : kinds(command.operands))
    }
  }

  static var daemon: Entry {
    Entry(name: "cairnd", summary: "the daemon", options: Manual.daemonOptions, operands: [])
  }

  static var codes: [String] { ErrorCode.allCases.map(\.rawValue) }

  /// Returns the kinds of a command's operands. For example, `list|show|verify [TRAIL]` becomes `list|show|verify` and
  /// `TRAIL`.
  private static func kinds(_ operands: String) -> [String] {
    var kinds: [String] = []
    var rest = operands.split(whereSeparator: { " []".contains($0) })[...]
    while let word = rest.popFirst() {
      if word.hasPrefix("--") { _ = rest.popFirst() } else if word != "|" { kinds.append(String(word)) }
    }
    return kinds
  }
}
