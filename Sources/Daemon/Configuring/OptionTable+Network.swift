extension OptionTable {
  static let pump = Section(
    key: "pump", form: .named, help: "brings trails to another node, or fetches them from there",
    details: """
      The trail arrives byte for byte as it is here, and is applied there, or passed on. The side that dials may sit \
      behind NAT; the other side has a [receive], and a [peer.NAME] that allows it.
      """, example: "pos-to-hq",
    more: ["[pump.prices-from-hq]", "trail = \"hq.prices\"", "from = \"https://hq.example:7420\""],
    options: [
      Option(
        "trail", .trails, required: true, "the trails to transfer",
        details: """
          One trail, or patterns: `["store-*.pos", "!store-007.*"]`. With `to`: own ones and received ones, which are \
          handed on; never back to the node that they come from. With `from`: those that the other side has, and allows.
          """, example: "\"store-042.pos\""),
      Option(
        "to", .peerURL, absence: "`from` names their source", "the node that the trails are pushed to",
        example: "\"https://hq.example:7420\""),
      Option(
        "from", .peerURL, absence: "`to` names their target", insteadOf: "to",
        "the node that the trails are pulled from",
        details: "Instead of `to`: one of the two is there.", example: "\"https://hq.example:7420\""),
      Option(
        "peer", .host, absence: "the host of the URL", "the name that the other side's certificate must have",
        example: "\"hq\""),
      Option(
        "tls", .files, absence: "those of [receive], else what `cairn peer join` made in the state folder",
        "certificate and key of this node, and the authorities trusted for the other side",
        details: "PEM files; relative paths are below the folder of the conf file.",
        example: "{ certificate = \"node.crt\", key = \"node.key\", peers = \"ca.crt\" }"),
      Option(
        "rate", .rate(mayBeOff: false), absence: "no limit", "the most bytes a second over the line",
        example: "\"10MiB/s\""),
      Option(
        "insecure", .flag, default: "false", "allow plain http:// to other machines",
        details: "Neither side proves its identity then, and every machine on the way can read and alter the data.",
        example: "true"),
    ])

  static let receive = Section(
    key: "receive", form: .single, help: "the listener: other nodes push trails to it and pull trails from it",
    details: "Without this section no node is let in. [peer.NAME] says what each node may do.",
    options: [
      Option(
        "listen", .address, required: true, "address and port to listen on",
        details: "`0.0.0.0:7420` is every IPv4 address of this machine, `[::]:7420` every address.",
        example: "\"0.0.0.0:7420\""),
      Option(
        "tls", .files,
        absence:
          "the files of `cairn peer invite` in the state folder; without them the listener refuses every peer, unless `insecure` is set",
        "certificate and key of this node, and the authorities trusted for peers",
        details:
          "PEM files; relative paths are below the folder of the conf file. They are read again when they change.",
        example: "{ certificate = \"node.crt\", key = \"node.key\", peers = \"ca.crt\" }"),
      Option(
        "insecure", .flag, default: "false", "serve plain HTTP",
        details: """
          No peer proves its name then: every client that reaches the port can claim any name, on loopback every user of \
          this machine. Use it to try things out, and in networks that are encrypted and closed by other means.
          """, example: "true"),
      Option(
        "connections", .count(1...10_000), default: "1000", "the most connections at one time",
        details: """
          Each pump of another node has one for each trail, and one more. One address has at most half of them: allow \
          twice as many where all nodes come through one NAT or proxy.
          """, example: "200"),
    ])

  static let peer = Section(
    key: "peer", form: .named, help: "the rights of another node; NAME is the name in its certificate",
    details: """
      Trails without a grant are neither shown nor taken. Trails that a peer may pull, or that are pushed to it, are \
      kept until it has them, as long as [limits] allows. A peer that lags further is refreshed.
      """, example: "hq",
    options: [
      Option(
        "may", .grants, required: true, "the trails that it may push here, and those that it may pull",
        example: "{ push = [\"hq.*\"], pull = [\"store-042.pos\"] }"),
      Option(
        "disk", .size, absence: "half of [limits] disk, if that is set", since: "0.2.0",
        "space for the trails that it brings",
        details: """
          It counts trails that the peer may push, and those of a [pump.NAME] `from` this node. The node of a pump is \
          its `peer` or the host of its URL. One peer cannot take the space of the other peers.
          """, example: "\"1 GiB\""),
      Option(
        "trails", .count(1...100_000), default: "1000", since: "0.2.0", "the most trails that it may bring",
        details: "As for `disk`. A pump fetches or brings 512 trails at one time at most.",
        example: "10"),
      Option(
        "requests", .count(1...10_000), default: "64", since: "0.2.0",
        "the most pushes that it may have under way at one time",
        details: "One that is above is answered with `busy`, and tried again by the pump.", example: "16"),
    ])
}
