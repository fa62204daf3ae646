// MARK: - The daemon

extension ErrorCode {
  var daemonExplanation: Explanation {
    switch self {
    case .restartNeeded:
      Explanation(
        "the conf was changed in a way that a running daemon cannot follow",
        why: """
          The name of the node and its state folder belong to everything that the daemon has open: trails, locks. What \
          `[control]` and `[metrics]` name is opened once, at the start. A reload that would change one of them is \
          refused as a whole, and the conf that was in force stays in force.
          """,
        what: [
          "Put the value back, and reload once more.",
          "Or restart the daemon: `systemctl restart cairnd`. A node that gets another name begins with new trails.",
        ])
    case .diskBudget:
      Explanation(
        "the trails have used up their budget on the disk",
        why: """
          All trails together are larger than `[limits] disk` allows, and nothing in them can be deleted: some apply is \
          behind and still needs it, or one transaction alone is that large. Captures rest until there is room again, and \
          a listener takes nothing of what peers push. Nothing is lost: what programs commit meanwhile waits in the \
          journal of an SQLite source, and behind the slot of a PostgreSQL source, where it needs room too; what peers \
          have waits in their trails.
          """,
        what: [
          "Run `cairn status`: it names the apply that is furthest behind, and why.",
          "Mend that, or take the apply out of the conf and reload.",
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
          "Look whether it runs: `systemctl status cairnd`; its log is in `journalctl -u cairnd`.",
          "Name the folder of its conf with `--config DIR`; it is `/etc/cairn` otherwise.",
          "To be let in, be a member of the group in `[control] group`, or root.",
        ])
    }
  }
}
