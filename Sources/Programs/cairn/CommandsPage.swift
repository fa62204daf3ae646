import Changes

/// The page `docs/reference/commands.md`, from the tables of commands, options and codes.
enum CommandsPage {
  static var markdown: String {
    let commands = Cairn.commands + [HelpCommand.self]
    var page = """
      # Commands and exit status

      This page is made with `cairn help --markdown`, from the table that the program itself reads options by.
      `cairn COMMAND --help` prints the same for one command, and `man cairn` for all. The names of a conf, such as
      `[apply.NAME]`, are in [configuration](configuration.md). Terms are in the [glossary](glossary.md).

      A database is `sqlite:relative.db`, `sqlite:///absolute.db`, or `postgresql://user@host:port/db` as libpq has it.
      Passwords come from the passfile, `PGPASSWORD` or a service file, and are never shown. Each command has `--help`.
      With `--json`, facts are printed as one object per line. `--version` prints the version.

      | command | |
      |---|---|

      """
    for command in commands {
      page += "| [`cairn \(command.name)`](#cairn-\(command.name)) | \(text(command.summary)) |\n"
    }
    page += "| [`cairnd`](#cairnd) | the daemon |\n\n[Exit status](#exit-status) has the numbers with which they end.\n"
    for command in commands { page += section(command) }
    page += "\n## cairnd\n\nThe daemon. Usually the service manager starts it.\n\n"
    page += "```text\ncairnd [OPTION ...]\n```\n\n" + table(Manual.daemonOptions)
    return page + exitStatus
  }

  private static func section(_ command: any Command.Type) -> String {
    let operands = command.operands.isEmpty ? "" : " " + command.operands
    var part = "\n## cairn \(command.name)\n\n\(capitalized(text(command.summary))).\n\n"
    part += "```text\ncairn \(command.name)\(operands) [OPTION ...]\n```\n\n"
    part += table(command.options)
    for lines in ManualPage.paragraphs(command.details) { part += "\n" + paragraph(lines) }
    return part
  }

  private static func table(_ options: [Option]) -> String {
    guard !options.isEmpty else { return "" }
    return "| option | |\n|---|---|\n"
      + options.map { option in
        let word = option.name + (option.value.map { " " + $0 } ?? "")
        return "| `\(cell(word))` | \(cell(text(option.help))) |\n"
      }.joined()
  }

  /// Returns a paragraph of a command's details: examples and tables as they are, other lines as text.
  private static func paragraph(_ lines: [String]) -> String {
    if lines[0].hasPrefix("example: ") {
      let words = lines.map { String($0.dropFirst("example: ".count)) }
      return "```sh\n" + words.joined(separator: "\n") + "\n```\n"
    }
    if lines.allSatisfy({ $0.hasPrefix("  ") }) {
      return "```text\n" + lines.map { String($0.dropFirst(2)) }.joined(separator: "\n") + "\n```\n"
    }
    return lines.map(text).joined(separator: "\n") + "\n"
  }

  // MARK: Exit status

  /// The name that sysexits.h gives each exit status, and its meaning.
  private static let meanings: [Int32: (name: String, text: String)] = [
    0: ("", "done, or ended by a signal at a transaction border; `compare`: equal; `status`: all is well"),
    1: ("", "`compare`: the ends differ; `status`: a worker lags or is stopped; `check --security`: below the advice"),
    64: ("usage", "the command line is not understood"),
    65: ("data", "a database, trail or row is damaged or does not fit"),
    66: ("no input", "a database or trail is missing"),
    69: ("unavailable", "not possible here, or the database failed"),
    70: ("software", "a bug in Cairn: please report it"),
    73: ("cannot create", "the state folder cannot be written"),
    74: ("I/O", "disk full, or a read, write or sync failed"),
    75: ("try again", "locked by another process"),
    77: ("permission", "a database cannot be written by this user"),
    78: ("configuration", "the ends or the state folder do not fit together"),
  ]

  private static var exitStatus: String {
    var part = "\n## Exit status\n\n| status | name | meaning | codes |\n|---|---|---|---|\n"
    for status in Set(ErrorCode.allCases.map(\.exitStatus)).union([0, 1]).sorted() {
      let codes = ErrorCode.allCases.filter { $0.exitStatus == status }.map(\.rawValue)
      let links = codes.map { "[`\($0)`](errors.md#\($0))" }.joined(separator: ", ")
      let (name, text) = meanings[status] ?? ("", "")
      part += "| \(status) | \(name) | \(text) | \(links) |\n"
    }
    part += "\nErrors go to standard error as `cairn: error [CODE]: …` and a hint. [Errors](errors.md) has all codes.\n"
    return part
  }

  // MARK: Text

  /// Returns a line of help as Markdown: options and words in single quotes become code.
  private static func text(_ line: String) -> String {
    var shown = ""
    var rest = line[...]
    while let quote = rest.firstIndex(of: "'") {
      let inner = rest[rest.index(after: quote)...]
      // After a letter it is an apostrophe.
      let isOpening = quote == rest.startIndex || !rest[rest.index(before: quote)].isLetter
      if isOpening, let closing = inner.firstIndex(of: "'") {
        shown += marked(rest[..<quote]) + "`\(inner[..<closing])`"
        rest = inner[inner.index(after: closing)...]
      } else {
        shown += marked(rest[...quote])
        rest = inner
      }
    }
    return shown + marked(rest)
  }

  /// Returns text that contains no quotes as Markdown: options become code, and special characters are escaped.
  private static func marked(_ text: Substring) -> String {
    text.split(separator: " ", omittingEmptySubsequences: false).map { word in
      if let option = word.firstIndex(of: "-"), word[option...].hasPrefix("--") {
        let name = word[option...].prefix { $0.isLetter || $0 == "-" }
        return "\(word[..<option])`\(name)`\(word[name.endIndex...])"
      }
      return word.reduce(into: "") { $0 += "*<".contains($1) ? "\\\($1)" : String($1) }
    }.joined(separator: " ")
  }

  /// Escapes the `|` characters in a cell of a Markdown table, in code too.
  private static func cell(_ text: String) -> String { text.split(separator: "|").joined(separator: "\\|") }

  private static func capitalized(_ text: String) -> String { text.prefix(1).uppercased() + text.dropFirst() }
}
