import Changes
import Configuring
import Glibc
import NetKit
import Operating
import Peering
import SystemKit

/// `cairn peer`: who may connect to this node, and how this node connects to others. Works on files, not with the daemon.
struct PeerCommand: Command {
  static let name = "peer"
  static let summary = "let nodes into this one, join others, list and revoke"
  static let operands = "invite|join|list|revoke [NAME|LINE]"
  static let options = [
    Option("--config", "DIR", "folder of the daemon's conf (default \(ConfFolder.usual))"),
    Option("--address", "HOST:PORT", "invite: where the other node reaches this one"),
    Option("--ttl", "TIME", "invite: how long the line is good (default 1h)"),
    Option("--push", "PATTERNS", "invite: trails that the other node may push here (default 'NAME.*')"),
    Option("--pull", "PATTERNS", "invite: trails that it may pull from here (default none)"),
    Option("--write", nil, "invite: write [peer.NAME] into conf.d/peer-NAME.toml instead of printing it"),
    Option.json,
  ]
  static let details = """
      invite NAME   print the one line with which node NAME joins this one, and the [peer.NAME] that lets it do what it
                    may. The first time, an authority is made in the folder peers of the state folder, with a
                    certificate for [receive]. The line has a token that is good once
      join LINE     get a certificate from the node that printed the line ('-' reads it from standard input), and print
                    a [pump] to begin with
      list          peers: certificate, how long it is good, what [peer] grants; and the nodes that were joined
      revoke NAME   certificates and invitations of NAME count no more, at once; those that another authority has signed
                    are kept out by taking [peer.NAME] away

    list, join and revoke need name and state of [node] only: they work while something else in the conf is wrong.
    Run it as root or as the user of the daemon, where the conf is. Certificates are renewed by themselves.

    example: cairn peer invite store-042 --address hq.example:7420 --push 'store-042.*' --pull hq.erp --write
    example: cairn peer join -
    """

  static func run(_ arguments: Arguments) throws -> Int32 {
    let words = try arguments.operands(1...2)
    let named = ["invite": ["--address", "--ttl", "--push", "--pull", "--write"]]
    guard ["invite", "join", "list", "revoke"].contains(words[0]) else {
      let near = words[0].nearest(in: ["invite", "join", "list", "revoke"])
      throw arguments.usage("there is no 'cairn peer \(words[0])'", near.map { "did you mean '\($0)'?" })
    }
    for option in options.map(\.name) where arguments.value(option) != nil || arguments.has(option) {
      guard option != "--config", option != "--json", named[words[0]]?.contains(option) != true else { continue }
      throw arguments.usage("option \(option) is for 'cairn peer invite'", nil)
    }
    if words[0] == "list" {
      guard words.count == 1 else { throw arguments.usage("'\(words[1])' is one word too many", nil) }
    } else if words.count == 1 {
      throw arguments.usage(words[0] == "join" ? "the line is missing" : "the name of the peer is missing", nil)
    }
    if words[0] == "invite" {
      let conf = try PeerInvitation.conf(for: words[1], arguments)
      return try at(conf.node) { try PeerInvitation(words[1], conf, $0, arguments).run() }
    }
    // Locking a node out must not wait for a conf that is right again.
    let (node, conf) = try DaemonConf.node(arguments.value("--config"))
    return try at(node) { peers in
      switch words[0] {
      case "join": try join(words[1], node.name, peers, arguments)
      case "revoke": try revoke(words[1], peers, arguments)
      default: PeerListing(conf, peers).run(asJSON: arguments.has("--json"))
      }
    }
  }

  /// Files belong to whom the state folder belongs to, also when root makes them.
  private static func at(_ node: Configuration.Node, _ body: (PeerFolder) throws -> Int32) throws -> Int32 {
    guard Folder.isFolder(node.state) else {
      throw CairnError(
        .stateUnwritable, "the state folder \(node.state) is not there",
        hint: "create it for the user of the daemon ('systemd-tmpfiles --create cairn.conf'), or start the daemon once",
        remedy: .badInput)
    }
    return try Account.asOwner(of: node.state) { try body(PeerFolder(state: node.state)) }
  }

  private static func join(
    _ word: String, _ node: String, _ peers: PeerFolder, _ arguments: Arguments
  ) throws -> Int32 {
    let given = word == "-" ? readLine() ?? "" : word
    // As 'cairn peer invite' prints it.
    let shown = "cairn peer join "
    let text = given.hasPrefix(shown) ? String(given.dropFirst(shown.count)) : given
    guard let line = JoinLine(text) else {
      throw arguments.usage(
        "this is no line to join by", "it is HOST:PORT/TOKEN/KEY, as 'cairn peer invite' prints it;")
    }
    let outcome = try Joining(peers, node: node).join(line)
    let stanza = """
      [pump.to-\(outcome.hub)]
      trail = "\(node).*"
      to    = "https://\(line.address)"
      peer  = "\(outcome.hub)"
      """
    if arguments.has("--json") {
      Terminal.print(
        JSONObject([
          ("event", .text("joined")), ("node", .text(outcome.hub)), ("address", .text(line.address)),
          ("fingerprint", .text(outcome.certificate.fingerprint)),
          ("not_after", .text(UTCTime(outcome.certificate.notAfter).description)), ("conf", .text(stanza)),
        ]).line)
    } else {
      Terminal.note(
        """
        joined \(outcome.hub) at \(line.address) as \(node); the certificate is good until \
        \(UTCTime(outcome.certificate.notAfter).description.prefix(10)), and is renewed before
        to push there, put this into the conf ('from' instead of 'to': to pull), then 'cairn reload':

        """)
      Terminal.print(stanza)
    }
    return 0
  }

  private static func revoke(_ name: String, _ peers: PeerFolder, _ arguments: Arguments) throws -> Int32 {
    let now = Clock.system.microseconds()
    let certificates = try IssuedCertificates(peers).revoke(name, now: now)
    let invitations = try Invitations(peers).withdraw(name, now: now)
    guard !certificates.isEmpty || invitations > 0 else {
      let names = Set(IssuedCertificates(peers).all().filter { !$0.isRevoked }.map(\.certificate.commonName))
      throw CairnError(
        .usage, "the authority of this node has signed nothing for '\(name)' that counts still",
        hint: (name.nearest(in: names.sorted()).map { "did you mean '\($0)'? " } ?? "")
          + "take [peer.\(name)] out of the conf to keep out a certificate of another authority", remedy: .badInput)
    }
    if arguments.has("--json") {
      Terminal.print(
        JSONObject([
          ("event", .text("revoked")), ("peer", .text(name)),
          ("fingerprints", .list(certificates.map { .text($0) })), ("invitations", .integer(Int64(invitations))),
        ]).line)
    } else {
      Terminal.print("revoked \(certificates.count) certificates and \(invitations) invitations of \(name)")
      Terminal.note("take [peer.\(name)] out of the conf, too: a trail is kept for a peer that is granted it")
    }
    return 0
  }
}
