import Changes

// MARK: - The daemon

extension ErrorCode {
  var daemonExplanation: Explanation {
    switch self {
    case .restartNeeded:
      Explanation(
        "the conf was changed in a way that a running daemon cannot apply",
        why: """
          The name of the node and its state folder belong to everything that the daemon has open: trails, locks. The \
          socket of `[control]` is opened once, at the start. A reload that would change one of them is refused as a \
          whole, and the conf that was in force stays in force.
          """,
        what: [
          "Put the value back, and reload again.",
          "Or restart the daemon: `systemctl restart cairnd`. A node that gets another name begins with new trails.",
        ])
    case .diskBudget:
      Explanation(
        "the trails have used up their budget on the disk",
        why: """
          All trails together are larger than `[limits] disk` allows, and nothing in them can be deleted. An apply \
          lags and still needs it. Or one transaction alone is larger: its capture tries again, and needs a higher \
          limit. Captures pause until there is room again, and a listener takes nothing that peers push. Nothing is \
          lost: commits wait in the journal of an SQLite source, or in the log that the slot of a PostgreSQL source keeps. They need room there too. Peers keep \
          their changes in their trails. An apply reports this code if its temporary files need more than a quarter of \
          `[limits] disk`, or more than half of the free space. They hold the rows of a large transaction that is in conflict with another one. That \
          apply waits and tries again.
          """,
        what: [
          "Run `cairn status`: it names the apply that lags most, and why.",
          "Fix the cause, or remove the apply from the conf and reload.",
          "Or raise `[limits] disk`, if the file system has room, and reload.",
        ])
    default:
      Explanation(
        "no daemon answers on the control socket",
        why: """
          `cairn status`, `start`, `stop`, `copy` and the like ask a running `cairnd` over a Unix socket. None listens \
          there: it is not running, runs with another conf, or this user may not use its socket.
          """,
        what: [
          "Check that it runs: `systemctl status cairnd`; its log is in `journalctl -u cairnd`.",
          "Name the folder of its conf with `--config DIR`; it is `/etc/cairn` otherwise.",
          "To get access, become a member of the group in `[control] group`, or root.",
        ])
    }
  }
}
