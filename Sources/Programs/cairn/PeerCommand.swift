import Changes
import Configuring
import Glibc
import NetKit
import SystemKit
import Trust

/// `cairn peer`: manages the nodes that may connect to this node, and the nodes that this node connects to. Works
/// without the daemon.
struct PeerCommand: Command {
  static let name = "peer"
  static let summary = "invite and join nodes, list, revoke and remove peers"
  static let operands = "invite|join|list|revoke|remove|rotate [NAME|LINE]"
  static let options = [
    Option("--config", "DIR", "folder of the daemon's conf (default \(ConfFolder.usual))"),
    Option("--address", "HOST:PORT", "invite: the address at which the other node reaches this node"),
    Option("--ttl", "TIME", "invite: how long the line is valid (default 1h)"),
    Option("--push", "PATTERNS", "invite: trails that the other node may push here (default 'NAME.*')"),
    Option("--pull", "PATTERNS", "invite: trails that it may pull from here (default none)"),
    Option("--write", nil, "invite: write [peer.NAME] into conf.d/peer-NAME.toml instead of printing it"),
    Option(
      "--replace", "SHA256", "join: the first 16 digits of the new authority, for a node that this node joined before"),
    Option(
      "--ca", nil,
      "rotate: create a new authority; the old one stays valid until every peer has a certificate of the new one"),
    Option("--listener", nil, "rotate: create a new key and certificate for [receive]"),
    Option(
      "--drop", nil,
      "rotate: drop the old authority at once; peers without a certificate of the new one must join again"),
    Option.json,
  ]
  static let details = """
      invite NAME   print the line with which node NAME joins this one, and the [peer.NAME] with its grants. The first
                    time, create an authority in the folder peers of the state folder, with a certificate for
                    [receive]. The line has a token that is valid once
      join LINE     get a certificate from the node that printed the line, and print a [pump.NAME] to start with. '-'
                    reads the line from standard input: other users of the machine can see command lines
      list          peers: certificate, its end, grants of [peer.NAME]; the nodes that this node joined; the authority
                    and the certificate of this node
      revoke NAME   refuse certificates and invitations of NAME; running requests end within a second
      remove NAME   take NAME out for good: revoke it, delete the file of the conf that has only [peer.NAME], and list
                    what else names it. 'cairn reload' puts that in force
      rotate        create a new authority and a new key for [receive]. Peers fetch certificates of the new authority by
                    themselves, within minutes while they are connected; then the old one is refused

    All except invite need only name and state of [node]: they work while something else in the conf is wrong.
    Run them as root or as the user of the daemon, on the machine of the conf. Certificates are renewed by themselves.

    example: cairn peer invite store-042 --address hq.example:7420 --push 'store-042.*' --pull hq.erp --write
    example: cairn peer join -
    """

  static func run(_ arguments: Arguments) throws -> Int32 {
    let words = try arguments.operands(1...2)
    let named = [
      "invite": ["--address", "--ttl", "--push", "--pull", "--write"], "join": ["--replace"],
      "rotate": ["--ca", "--listener", "--drop"],
    ]
    let orders = ["invite", "join", "list", "revoke", "remove", "rotate"]
    guard orders.contains(words[0]) else {
      let near = words[0].nearest(in: orders)
      throw arguments.usage("there is no 'cairn peer \(words[0])'", near.map { "did you mean '\($0)'?" })
    }
    for option in options.map(\.name) where arguments.value(option) != nil || arguments.has(option) {
      guard option != "--config", option != "--json", named[words[0]]?.contains(option) != true else { continue }
      let owner = orders.first { named[$0]?.contains(option) == true } ?? "invite"
      throw arguments.usage("option \(option) is for 'cairn peer \(owner)'", nil)
    }
    if ["list", "rotate"].contains(words[0]) {
      guard words.count == 1 else { throw arguments.usage("'\(words[1])' is one argument too many", nil) }
    } else if words.count == 1 {
      throw arguments.usage(words[0] == "join" ? "the line is missing" : "the name of the peer is missing", nil)
    }
    if words[0] == "invite" {
      let conf = try PeerInvitation.conf(for: words[1], arguments)
      return try at(conf.node) { try PeerInvitation(words[1], conf, $0, arguments).run() }
    }
    // Revoking a node must be possible even if the configuration has errors.
    let (node, conf) = try DaemonConf.node(arguments.value("--config"))
    return try at(node) { peers in
      switch words[0] {
      case "join": try join(words[1], node.name, peers, arguments)
      case "revoke": try revoke(words[1], conf, peers, arguments)
      case "remove": try PeerRemoving(words[1], conf, peers, arguments).run(state: node.state)
      case "rotate": try rotate(node.name, peers, arguments)
      default: PeerListing(conf, peers).run(asJSON: arguments.has("--json"))
      }
    }
  }

  /// Runs `body` with the node's peer folder. New files belong to the owner of the state folder, even if root runs the
  /// command.
  private static func at(_ node: Configuration.Node, _ body: (PeerFolder) throws -> Int32) throws -> Int32 {
    guard Folder.isFolder(node.state) else {
      throw CairnError(
        .stateUnwritable, "the state folder \(node.state) does not exist",
        hint: "create it for the user of the daemon ('systemd-tmpfiles --create cairn.conf'), or start the daemon once",
        remedy: .badInput)
    }
    return try Account.asOwner(of: node.state) { try body(PeerFolder(state: node.state)) }
  }

  private static func join(
    _ word: String, _ node: String, _ peers: PeerFolder, _ arguments: Arguments
  ) throws -> Int32 {
    let given = word == "-" ? readLine() ?? "" : word
    // Accepts the complete command as 'cairn peer invite' prints it.
    let shown = "cairn peer join "
    let text = given.hasPrefix(shown) ? String(given.dropFirst(shown.count)) : given
    guard let line = JoinLine(text) else {
      throw arguments.usage(
        "this is not a line of an invitation", "it is HOST:PORT/TOKEN/KEY, as 'cairn peer invite' prints it;")
    }
    let replacing = arguments.value("--replace")
    if let replacing, replacing.utf8.count < 16 {
      throw arguments.usage("--replace is '\(replacing)'", "write 16 digits or more of the authority's SHA-256;")
    }
    let outcome = try Joining(peers, node: node).join(line, replacing: replacing)
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
          ("fingerprint", .text(outcome.certificate.fingerprint)), ("authority", .text(outcome.authority.fingerprint)),
          ("not_after", .text(UTCTime(outcome.certificate.notAfter).description)), ("conf", .text(stanza)),
        ]).line)
    } else {
      Terminal.notes(
        """
        joined \(outcome.hub) at \(line.address) as \(node); the certificate is valid until \
        \(UTCTime(outcome.certificate.notAfter).description.prefix(10)), and is renewed before
        its authority has the SHA-256 \(outcome.authority.fingerprint)
        to push there, put this into the conf ('from' instead of 'to': to pull), then run 'cairn reload':

        """)
      Terminal.page(stanza)
    }
    return 0
  }

  private static func revoke(
    _ name: String, _ conf: Configuration?, _ peers: PeerFolder, _ arguments: Arguments
  ) throws -> Int32 {
    // A configuration that does not load may still have the section.
    let isGranted = conf?.peers.contains { $0.name == name } ?? true
    let now = Clock.system.microseconds()
    let (certificates, invitations) = try IssuedCertificates(peers).revoke(name, now: now)
    guard !certificates.isEmpty || invitations > 0 else {
      let names = Set(IssuedCertificates(peers).all().filter { !$0.isRevoked }.map(\.certificate.commonName))
      throw CairnError(
        .usage, "the authority of this node has no valid certificate for '\(name)'",
        hint: (name.nearest(in: names.sorted()).map { "did you mean '\($0)'? " } ?? "")
          + (isGranted
            ? "remove [peer.\(name)] from the conf to refuse a certificate of another authority"
            : "run 'cairn peer list' to see the certificates; the conf has no [peer.\(name)], so every request of it is refused"),
        remedy: .badInput)
    }
    if arguments.has("--json") {
      Terminal.print(
        JSONObject([
          ("event", .text("revoked")), ("peer", .text(name)),
          ("fingerprints", .list(certificates.map { .text($0) })), ("invitations", .integer(Int64(invitations))),
        ]).line)
    } else {
      Terminal.print(
        "revoked \(certificates.count.counted("certificate")) and \(invitations.counted("invitation")) of \(name)")
      if isGranted {
        Terminal.note("also remove [peer.\(name)] from the conf: until then, trails are kept for this peer")
      }
    }
    return 0
  }

  private static func rotate(_ node: String, _ peers: PeerFolder, _ arguments: Arguments) throws -> Int32 {
    let isAll = !arguments.has("--ca") && !arguments.has("--listener") && !arguments.has("--drop")
    let now = Clock.system.microseconds()
    let rotation = try peers.rotate(
      node: node, authority: isAll || arguments.has("--ca"), listener: isAll || arguments.has("--listener"),
      dropsOld: arguments.has("--drop"), now: now)
    let waiting = try peers.peersOfOldAuthorities(now: now)
    if arguments.has("--json") {
      var object = JSONObject([("event", .text("rotated"))])
      object["authority"] = rotation.authority.map { .text($0) }
      object["listener_key"] = rotation.listenerKey.map { .text($0) }
      object["waiting"] = .list(waiting.map { .text($0) })
      Terminal.print(object.line)
      return 0
    }
    if let key = rotation.listenerKey {
      Terminal.print("the listener has a new key, SHA-256 \(key)")
      Terminal.note("unused lines of 'cairn peer invite' are no longer valid: print new ones")
    }
    if let authority = rotation.authority { Terminal.print("new authority, SHA-256 \(authority)") }
    if arguments.has("--drop") {
      Terminal.print("only the newest authority is valid now")
      if !waiting.isEmpty { Terminal.note("these peers must join again: \(waiting.joined(separator: ", "))") }
    } else if rotation.authority != nil {
      Terminal.note(
        waiting.isEmpty
          ? "the daemon drops the old one within ten minutes: no peer needs it"
          : "the old one stays valid until these peers have a certificate of the new one: \(waiting.joined(separator: ", "))"
      )
    }
    return 0
  }
}
