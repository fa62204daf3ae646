import Changes

/// The man pages `cairn(1)` and `cairnd(8)`, generated from the commands, options and error codes.
enum Manual {
  static let date = "November 22, 2026"

  static var cairn: ManualPage {
    var page = ManualPage("cairn", 1, date: date, summary: "log-replay replication between SQLite and PostgreSQL")
    page.heading("SYNOPSIS")
    page.request("Nm")
    page.request("Ar command")
    page.request("Op Ar option ...")
    page.heading("DESCRIPTION")
    page.paragraph(
      """
      Cairn captures what a database commits into an ordered trail of files, and applies it from there to another \
      database, exactly once. This program replicates two databases by itself, shows trails, compares, explains, \
      and controls the daemon cairnd, which runs any number of captures and applies from conf files.
      """)
    page.paragraph(
      """
      A database is sqlite:relative.db, sqlite:///absolute.db, or postgresql://user@host:port/db as libpq has it. \
      Passwords come from libpq's passfile, PGPASSWORD or a service file, and are never shown.
      """)
    page.heading("COMMANDS")
    for command in Cairn.commands + [HelpCommand.self] { describe(command, in: &page) }
    page.heading("ENVIRONMENT")
    page.list([
      (
        "Ev XDG_STATE_HOME",
        "The folder for state without --state: cairn below it, otherwise ~/.local/state/cairn."
      ),
      ("Ev NO_COLOR", "Set to anything, no colours are used."),
      ("Ev PGPASSFILE , PGSERVICE , PGPASSWORD", "These and others are libpq's."),
    ])
    exitStatus(
      in: &page,
      first: [
        (0, "Done, or ended by a signal at a transaction border; compare: both ends are equal; status: all is well."),
        (1, "compare: the ends differ; status: a worker lags or is stopped."),
      ])
    page.heading("SEE ALSO")
    page.request("Xr psql 1 ,")
    page.request("Xr sqlite3 1 ,")
    page.request("Xr cairn.toml 5 ,")
    page.request("Xr cairnd 8")
    return page
  }

  private static func describe(_ command: any Command.Type, in page: inout ManualPage) {
    page.subheading("cairn \(command.name) \(command.operands)")
    page.paragraph(capitalized(command.summary) + ".")
    page.list(command.options.map { (option($0), $0.help) })
    page.details(command.details)
  }

  /// Returns an option in mdoc.
  static func option(_ option: Option) -> String {
    let name = "Fl " + ManualPage.guarded(String(option.name.dropFirst()))
    return option.value.map { name + " Ar " + ManualPage.guarded($0) } ?? name
  }

  private static func capitalized(_ text: String) -> String { text.prefix(1).uppercased() + text.dropFirst() }

  // MARK: Exit status

  /// Appends a list of the exit statuses with their error codes.
  /// - Parameter first: The statuses that come first, with a meaning instead of error codes.
  static func exitStatus(in page: inout ManualPage, first: [(status: Int32, meaning: String)]) {
    page.heading("EXIT STATUS")
    page.paragraph(
      "As in sysexits.h. An error is printed with its code in brackets, and 'cairn explain CODE' prints what to do.")
    let statuses = Set(ErrorCode.allCases.map(\.exitStatus)).sorted()
    page.list(
      first.map { ("Li \($0.status)", $0.meaning) }
        + statuses.map { status in
          let codes = ErrorCode.allCases.filter { $0.exitStatus == status }.map(\.rawValue)
          return ("Li \(status)", codes.joined(separator: ", ") + ".")
        })
  }
}
