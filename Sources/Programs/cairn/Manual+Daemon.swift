import Changes

extension Manual {
  static let daemonOptions = [
    Option("--config", "DIR", "folder with cairn.toml and conf.d/*.toml (default /etc/cairn)"),
    Option("--version", nil, "print what this is"),
    Option("--help", nil, "print this"),
  ]

  static var cairnd: ManualPage {
    var page = ManualPage("cairnd", 8, date: date, summary: "the daemon of Cairn")
    page.heading("SYNOPSIS")
    page.request("Nm")
    for option in daemonOptions { page.request("Op \(Self.option(option))") }
    page.heading("DESCRIPTION")
    page.paragraph(
      """
      cairnd runs the captures and applies of one node, as its conf files say. Each is a worker: an error \
      stops only its own worker, which starts again if that can help. The program cairn shows and \
      controls the workers. Usually the service manager starts cairnd: the unit is cairnd.service.
      """)
    page.list(daemonOptions.map { (option($0), $0.help) })
    page.paragraph(
      """
      It stays in the foreground. Under systemd it reports when it is ready, reloading and stopping, what its workers \
      do and the greatest lag ('systemctl status cairnd'), and feeds the watchdog only while every worker shows signs \
      of life. Its log goes to the journal, with the fields CAIRN_WORKER, CAIRN_TABLE, CAIRN_POSITION, CAIRN_CODE and \
      CAIRN_HINT; elsewhere to standard error, with a priority such as <3> before each line.
      """)
    signals(in: &page)
    page.heading("ENVIRONMENT")
    page.list([
      (
        "Ev CREDENTIALS_DIRECTORY",
        """
        Passwords of databases: the file database.NAME or database_NAME for [database.NAME]. The token of [metrics]: \
        the file metrics.token or database_metrics.token.
        """
      ),
      ("Ev RUNTIME_DIRECTORY", "The folder of the control socket, unless the conf names another path."),
      ("Ev NOTIFY_SOCKET , WATCHDOG_USEC , JOURNAL_STREAM", "Set by systemd."),
      ("Ev PGPASSFILE , PGSERVICEFILE", "These and others are libpq's."),
    ])
    files(in: &page)
    exitStatus(in: &page, first: [(0, "Ended by a signal, at a transaction border.")])
    page.heading("SEE ALSO")
    page.request("Xr cairn 1 ,")
    page.request("Xr journalctl 1 ,")
    page.request("Xr systemctl 1 ,")
    page.request("Xr cairn.toml 5")
    return page
  }

  private static func signals(in page: inout ManualPage) {
    page.heading("SIGNALS")
    page.list([
      (
        "Dv SIGTERM , SIGINT",
        "Ends at the next transaction border, within seconds. After SIGKILL nothing is lost either."
      ),
      (
        "Dv SIGHUP",
        """
        Reads the conf again. Workers that it does not affect continue; a conf with errors is refused, each error is \
        logged, and the old conf stays in force.
        """
      ),
    ])
  }

  private static func files(in page: inout ManualPage) {
    page.heading("FILES")
    page.list([
      ("Pa /etc/cairn/cairn.toml , /etc/cairn/conf.d/*.toml", "The conf."),
      (
        "Pa /etc/cairn/credentials/NAME",
        """
        The password of [database.NAME], readable by root only: the unit passes it as a credential when the \
        service starts, so a new password needs a restart. The folder must be there, and may be empty.
        """
      ),
      ("Pa /etc/cairn/credentials/metrics.token", "The token of [metrics], in the same way."),
      (
        "Pa /var/lib/cairn",
        "The state: a folder for each trail, the list of paused workers, and a lock that prevents a second daemon."
      ),
      ("Pa /run/cairn/control", "The control socket. Members of the group cairn may use it."),
    ])
  }
}
