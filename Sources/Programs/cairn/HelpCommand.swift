import Changes

/// `cairn help`: prints the options of a command, the manual pages, or the shell completion.
struct HelpCommand: Command {
  static let name = "help"
  static let summary = "explain a command and its options"
  static let operands = "[COMMAND]"
  static let options = [
    Option("--man", "cairn|cairnd|cairn.toml", "print a man page, in mdoc"),
    Option("--completion", "bash|zsh|fish", "print a completion script for a shell"),
    Option("--markdown", nil, "print the page of all commands, docs/reference/commands.md"),
  ]
  static let details = """
    Man pages, completion and page come from the same tables as the commands themselves.

    example: cairn help replicate
    example: cairn help --man cairn | man -l -
    example: source <(cairn help --completion bash)
    """

  static func run(_ arguments: Arguments) throws -> Int32 {
    let words = try arguments.operands(0...1)
    if let page = arguments.value("--man") {
      guard words.isEmpty else { throw arguments.usage("--man takes no other argument", nil) }
      Terminal.write(try manual(page, arguments), to: 1)
    } else if let shell = arguments.value("--completion") {
      guard words.isEmpty else { throw arguments.usage("--completion takes no other argument", nil) }
      Terminal.write(try completion(shell, arguments), to: 1)
    } else if arguments.has("--markdown") {
      guard words.isEmpty else { throw arguments.usage("--markdown takes no other argument", nil) }
      Terminal.write(CommandsPage.markdown, to: 1)
    } else if let word = words.first {
      Terminal.page(try Cairn.command(word).help)
    } else {
      Terminal.page(Cairn.help)
    }
    return 0
  }

  private static func completion(_ shell: String, _ arguments: Arguments) throws -> String {
    switch shell {
    case "bash": return BashCompletion.script
    case "zsh": return ZshCompletion.script
    case "fish": return FishCompletion.script
    default: throw arguments.usage("--completion: '\(shell)' is unknown", "there are bash, zsh and fish;")
    }
  }

  private static func manual(_ page: String, _ arguments: Arguments) throws -> String {
    switch page {
    case "cairn": return Manual.cairn.text
    case "cairn.toml": return Manual.conf.text
    case "cairnd": return Manual.cairnd.text
    default: throw arguments.usage("--man: there is no page '\(page)'", "there are cairn, cairnd and cairn.toml;")
    }
  }
}
