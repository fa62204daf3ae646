import Configuring

extension Manual {
  /// The man page `cairn.toml(5)`, generated from the option table.
  static var conf: ManualPage {
    var page = ManualPage("cairn.toml", 5, date: date, summary: "conf of the daemon cairnd")
    page.heading("DESCRIPTION")
    page.paragraph(
      """
      The files cairn.toml and conf.d/*.toml configure cairnd. They are in the folder that --config names \
      (/etc/cairn). The files are TOML. They are read in the order of their names, cairn.toml first; sections may be \
      spread over them, but no option may appear twice. 'cairn check --config DIR' lists everything that is wrong, with \
      file, line and column, and proves the databases; 'cairn config show' prints what is in force and where each value \
      came from.
      """)
    page.paragraph(
      """
      In every text ${NAME} is the value of an environment variable (an unset variable is an error), and $$ a dollar. \
      Durations and sizes are texts with a unit, such as "500 ms", "10 s", "14 days", "20 GiB". Names of sections are \
      made of a-z, 0-9, _ and -.
      """)
    for section in OptionTable.sections {
      page.heading(section.title + " OPTIONS")
      page.paragraph(ConfDocument.capitalized(section.help) + "." + (section.isRequired ? " Required." : ""))
      for part in section.details.split(separator: "\n") { page.paragraph(plain(String(part))) }
      page.list(section.options.map { ("Cm " + ManualPage.guarded($0.key), text(of: $0)) })
    }
    page.heading("FILES")
    page.list([
      ("Pa /etc/cairn/cairn.toml , /etc/cairn/conf.d/*.toml", "The conf."),
      (
        "Pa /etc/cairn/credentials/NAME",
        "The password of [database.NAME], for root only; the unit hands it to the daemon as a credential."
      ),
      ("Pa /etc/cairn/credentials/metrics.token", "The token of [metrics], for root only, in the same way."),
    ])
    page.heading("EXAMPLES")
    page.literal([
      "[node]", "name = \"store-042\"", "[database.pos]", "url = \"sqlite:///srv/pos/pos.db\"", "[database.erp]",
      "url = \"postgresql://cairn@db.example/erp\"", "[capture.pos]", "database = \"pos\"", "[apply.pos]",
      "trail = \"store-042.pos\"", "database = \"erp\"",
    ])
    page.heading("SEE ALSO")
    page.request("Xr cairn 1 ,")
    page.request("Xr cairnd 8")
    return page
  }

  private static func text(of option: OptionTable.Option) -> String {
    guard option.isSupported else { return "\(ConfDocument.capitalized(option.help)). Not part of this version." }
    let parts = [
      "\(ConfDocument.capitalized(option.help)).", option.details, "Takes \(option.kind.description);",
      "\(option.without(code: "")).", "Example: \(option.key) = \(option.example)",
    ]
    return plain(parts.filter { !$0.isEmpty }.joined(separator: " "))
  }

  private static func plain(_ text: String) -> String { text.filter { $0 != "`" } }
}
