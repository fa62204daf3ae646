/// Documents made from the table of options: the page `docs/reference/configuration.md` and the file `conf/cairn.toml`.
package enum ConfDocument {
  // MARK: Markdown

  package static var markdown: String {
    var page = """
      # Configuration

      `cairnd` reads `cairn.toml` and `conf.d/*.toml` beside it, in the folder that `--config` names (`/etc/cairn`).
      The files are [TOML](https://toml.io). They are read in the order of their names, `cairn.toml` first. Sections may
      be spread over them, but no option may appear twice. `cairn check --config DIR` lists everything
      that is wrong, with file, line and column, and proves the databases; `cairn config show` prints what is in force
      and where each value came from. `--config` may also name one file, which is then read alone.

      In every text `${NAME}` is the value of an environment variable (one that is not set is an error), and `$$` a
      dollar. Durations and sizes are texts with a unit: `"500 ms"`, `"10 s"`, `"5 min"`, `"2 h"`, `"14 days"`;
      `"64 MiB"`, `"20 GiB"`. Names of sections are made of `a-z`, `0-9`, `_` and `-`.

      This page is made with `cairn config --markdown`, from the table that the program itself reads conf files by. The
      man page `cairn.toml(5)` and the reference `conf/cairn.toml` come from the same table.

      | section | |
      |---|---|

      """
    for section in OptionTable.sections {
      page += "| [`\(section.title)`](#\(section.anchor)) | \(section.help) |\n"
    }
    for section in OptionTable.sections {
      page += "\n## \(section.anchor)\n\n`\(section.title)`: \(section.help)."
      page += (section.isRequired ? " Required." : "") + " Since \(section.since).\n"
      if !section.details.isEmpty { page += "\n\(section.details)\n" }
      for option in section.options { page += markdown(option) }
    }
    return page
  }

  private static func markdown(_ option: OptionTable.Option) -> String {
    guard option.isSupported else {
      return "\n### \(option.key)\n\n\(capitalized(option.help)). Not part of this version.\n"
    }
    return """

      ### \(option.key)

      \(capitalized(option.help)).\(option.details.isEmpty ? "" : " " + option.details)

      - takes: \(option.kind.description)
      - \(option.without(code: "`"))
      - example: `\(option.key) = \(option.example)`
      - since: \(option.since)

      """
  }

  // MARK: The reference

  /// The reference configuration `conf/cairn.toml`. Optional sections and options are comments in it.
  package static var reference: String {
    var text = """
      # The conf of cairnd: every section and option, with its default or an example.
      # Run 'cairn check --config DIR' to list what is wrong, 'cairn config show' to print what is in force.
      # In texts ${NAME} is an environment variable, and $$ a dollar.

      """
    for section in OptionTable.sections {
      let isActive = section.isRequired
      let mark = isActive ? "" : "#"
      text += "\n# \(capitalized(section.help)).\n"
      for line in wrapped(section.details) { text += "# \(line)\n" }
      text += "\(mark)\(section.header)\n"
      for option in section.options where option.isSupported {
        text += "\n"
        for line in wrapped("\(capitalized(option.help)). \(option.details)") { text += "# \(line)\n" }
        let takes = "Takes \(option.kind.description)"
        text += wrapped(
          option.isRequired ? "\(takes). Required." : "\(takes). \(capitalized(option.without(code: "")))."
        )
        .map { "# \($0)\n" }.joined()
        let value = option.isRequired ? option.example : option.defaultText ?? option.example
        let comment = option.alternative != nil ? "# " : isActive && option.isRequired ? "" : "#"
        text += "\(comment)\(option.key) = \(value)\n"
      }
      if !section.more.isEmpty { text += "\n" + section.more.map { "#\($0)\n" }.joined() }
    }
    return text
  }

  /// The reference configuration with every option set, so that no option is a comment.
  package static var wholeReference: String {
    reference.split(separator: "\n", omittingEmptySubsequences: false).map { line in
      line.hasPrefix("#") && !line.hasPrefix("# ") ? String(line.dropFirst()) : String(line)
    }.joined(separator: "\n")
  }

  // MARK: Text

  package static func capitalized(_ text: String) -> String { text.prefix(1).uppercased() + text.dropFirst() }

  private static func wrapped(_ text: String) -> [String] {
    var lines: [String] = []
    var line = ""
    for word in text.split(separator: " ") {
      if !line.isEmpty, line.count + 1 + word.count > 100 {
        lines.append(line)
        line = ""
      }
      line += (line.isEmpty ? "" : " ") + word
    }
    return line.isEmpty ? lines : lines + [line]
  }
}

extension OptionTable.Section {
  fileprivate var anchor: String {
    if case .list(let parent) = form { return "\(parent)-\(key)" }
    return key
  }

  fileprivate var header: String {
    switch form {
    case .single: "[\(key)]"
    case .named: "[\(key).\(example)]"
    case .list(let parent): "[[\(parent).\(OptionTable.section(parent)?.example ?? "NAME").\(key)]]"
    }
  }
}

extension OptionTable.Option {
  /// Returns a text on what happens without the option in the conf: its default, or that it is required.
  ///
  /// - Parameter code: The quote character around code.
  package func without(code: String) -> String {
    if isRequired { return "required" }
    if let defaultText { return "default: \(code)\(defaultText)\(code)" }
    return "when left out: \(absence)"
  }
}
