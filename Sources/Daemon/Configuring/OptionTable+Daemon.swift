extension OptionTable {
  static let trail = Section(
    key: "trail", form: .named, since: "0.2.0",
    help: "the history of a trail; NAME is that of its capture, or the quoted NODE.NAME of a received trail",
    details: """
      Without this section a trail is deleted, segment by segment, as soon as all its readers have passed it. With it, \
      `cairn trail show` can look further back. Readers of the trail always get what they need.
      """, example: "pos",
    options: [
      Option(
        "keep", .history, required: true, since: "0.2.0", "how much of the trail is kept besides what its readers need",
        details: """
          A duration: all transactions of that time. A size: the newest segments of that size. A list of both: history \
          ends at the bound that is reached first. A segment is kept or deleted as a whole, so slightly more than the \
          duration is there. `[limits] disk`, and `disk` of a peer, stay the upper bounds. When trails with their \
          history reach 95 % of such a bound, the oldest history is deleted, before any reader is given up. The log \
          reports that.
          """, example: "\"7 days\"")
    ])

  static let limits = Section(
    key: "limits", form: .single, help: "the limits of the space for trails",
    options: [
      Option(
        "disk", .size, absence: "no limit", "space for all trails together",
        details: """
          When it is used up, the apply that lags most is given up first: its tables are copied again when it \
          is back. Then captures pause, and the changes wait in the databases that they come from. Temporary files of \
          applies may take a quarter of it in addition, and at most half of the free space. Their \
          folder is SQLITE_TMPDIR, else /var/tmp. Above that, the apply waits. So does a capture whose next transaction \
          alone is larger than the limit.
          """, example: "\"20 GiB\""),
      Option(
        "retain", .duration(.seconds(60) ... .seconds(3_153_600_000)), absence: "forever",
        "how long a trail is kept for an apply that lags",
        details: "An apply that lags further is given up: its tables are copied again when it is back.",
        example: "\"14 days\""),
      Option(
        "give_up_slot", .flag, default: "false", "drop a slot before the log that it keeps fills the server's disk",
        details: """
          The last resort when `disk` is used up and a capture from PostgreSQL has to pause; afterwards all its tables \
          are copied again.
          """, example: "true"),
      Option(
        "block", .size, default: "\"64 MiB\"", since: "0.2.0",
        "the largest block that another node may send, unpacked",
        details: """
          A block holds one large record, such as a row with a large value. Raise it where rows between nodes are \
          larger; rows that do not leave this node may have up to 1 GiB.
          """, example: "\"256 MiB\""),
      Option(
        "memory", .size, default: "\"256 MiB\"", since: "0.2.0",
        "memory for all blocks of more than 1 MiB together",
        details: """
          Each node that sends blocks may use a quarter of it, or more if fewer than four nodes send. Bytes that would \
          need more wait, and are sent again.
          """, example: "\"1 GiB\""),
    ])

  static let metrics = Section(
    key: "metrics", form: .single, help: "figures and a status page over HTTP; without this section nothing listens",
    details: """
      On loopback every user of this machine can read all pages, unless there is a token. From other machines \
      `/status` and `/status.json` need a token or a client certificate. The token is the content of the credential \
      `metrics.token`: the file `credentials/metrics.token` beside the conf, with 16 bytes or more. A browser asks for \
      it as the password; programs send `Authorization: Bearer TOKEN`. With a token or `tls`, only `/healthz` is open.
      """,
    options: [
      Option(
        "listen", .address, required: true,
        "address and port of /status, /status.json, /metrics, /healthz and /readyz",
        details: "If the port is in use, the daemon runs without these pages, and tries again every 5 s.",
        example: "\"127.0.0.1:7421\""),
      Option(
        "tls", .files, absence: "plain HTTP", since: "0.2.0",
        "certificate and key of the listener, and the authorities trusted for clients",
        details: """
          A client whose certificate one of these authorities has signed needs no token. PEM files; relative paths \
          are below the folder of the conf file. They are read again when they change.
          """, example: "{ certificate = \"node.crt\", key = \"node.key\", peers = \"ca.crt\" }"),
    ])

  static let control = Section(
    key: "control", form: .single, help: "the socket by which `cairn` talks to the daemon",
    options: [
      Option(
        "socket", .path(bytesMax: 107),
        absence: "`control` in the runtime directory of the service, else in the state folder",
        "path of the socket", example: "\"/run/cairn/control\""),
      Option(
        "group", .account, absence: "the group of the daemon", "the group whose members may control the daemon",
        example: "\"cairn\""),
    ])

  static let log = Section(
    key: "log", form: .single, help: "the messages that the daemon logs",
    options: [
      Option(
        "level", .choice(["error", "warning", "notice", "info", "debug"], later: []), default: "\"info\"",
        "the least important message that is logged", example: "\"notice\"")
    ])
}
