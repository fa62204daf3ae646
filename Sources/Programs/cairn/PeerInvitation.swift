import Changes
import Configuring
import Glibc
import NetKit
import SystemKit
import Trust

/// `cairn peer invite`: prints an invitation, and the section of the conf that grants the invited node access to
/// trails.
struct PeerInvitation {
  private let name: String
  private let conf: Configuration
  private let peers: PeerFolder
  private let arguments: Arguments

  init(_ name: String, _ conf: Configuration, _ peers: PeerFolder, _ arguments: Arguments) {
    (self.name, self.conf, self.peers, self.arguments) = (name, conf, peers, arguments)
  }

  /// Returns the configuration with a section for the invited peer. If the conf has no such section, it is made from
  /// the command's options. Sections of other peers may be missing.
  static func conf(for name: String, _ arguments: Arguments) throws -> Configuration {
    guard TrailName.isValid(name) else {
      throw arguments.usage("'\(name)' is not the name of a node", "letters, digits, '-' and '_' are allowed;")
    }
    let folder = arguments.value("--config")
    let now = try? DaemonConf.load(folder, awaitsPeers: true)
    if now?.node.name == name {
      throw arguments.usage("'\(name)' is the name of this node", "name the node that is to join;")
    }
    if let now, now.peers.contains(where: { $0.name == name }) {
      guard !arguments.has("--write") else {
        throw CairnError(
          .confTwice, "the conf already has [peer.\(name)]", hint: "leave --write out, and edit that section",
          remedy: .badInput)
      }
      return now
    }
    let more = ConfFile(path: path(name, arguments), text: try stanza(name, arguments))
    return try DaemonConf.load(folder, more: [more], awaitsPeers: true)
  }

  private static func path(_ name: String, _ arguments: Arguments) -> String {
    "\(arguments.value("--config") ?? ConfFolder.usual)/conf.d/peer-\(name).toml"
  }

  func run() throws -> Int32 {
    try check()
    let (address, host) = try address()
    let lifetime = try lifetime()
    let stanza = try Self.stanza(name, arguments)
    let now = Clock.system.microseconds()
    try peers.prepare(node: conf.node.name, host: host, now: now)
    if arguments.has("--write") { try write(stanza) }
    // Only the latest invitation of a name is valid.
    _ = try Invitations(peers).withdraw(name, now: now)
    let line = JoinLine(
      address: address, token: try Invitations(peers).make(name, expires: now + lifetime), key: try peers.keyDigest())
    tell(line, stanza, expires: now + lifetime)
    return 0
  }

  private func check() throws {
    let refusal: (String, String)? =
      switch conf.receive {
      case let receive? where receive.tls != nil:
        (
          "[receive] tls names certificates of another authority, for which Cairn cannot sign",
          "let that authority sign a certificate with the common name '\(name)', and write [peer.\(name)]; or remove tls from [receive]"
        )
      case let receive? where receive.isInsecure:
        ("[receive] is insecure: over plain HTTP a peer cannot prove its name", "take insecure out of [receive]")
      default: nil
      }
    if let (message, hint) = refusal { throw CairnError(.confValue, message, hint: hint, remedy: .badInput) }
  }

  /// Returns the address to which the invited node connects, and the host of that address.
  private func address() throws -> (String, String) {
    let port = conf.receive?.port ?? PeerURL.usualPort
    var text = arguments.value("--address") ?? ""
    if text.isEmpty, let receive = conf.receive, !["0.0.0.0", "::"].contains(receive.host) { text = receive.address }
    if text.isEmpty { text = Self.hostName }
    guard let url = PeerURL("https://" + text) else {
      throw arguments.usage("'\(text)' is not an address", "write --address HOST:PORT, such as hq.example:\(port);")
    }
    let isPortGiven = text.hasSuffix(":\(url.port)")
    let host = url.host.contains(":") ? "[\(url.host)]" : url.host
    return ("\(host):\(isPortGiven ? url.port : port)", url.host)
  }

  private static var hostName: String {
    var name = [CChar](repeating: 0, count: 256)
    guard gethostname(&name, 255) == 0 else { return "" }
    return name.withUnsafeBufferPointer { $0.baseAddress.map { String(cString: $0) } ?? "" }
  }

  private func lifetime() throws -> Int64 {
    let text = arguments.value("--ttl") ?? "1h"
    guard let duration = try? Quantity.duration(text), duration >= .seconds(10), duration <= .seconds(86400 * 366)
    else {
      throw arguments.usage("--ttl is '\(text)'", "ten seconds to a year are allowed, such as 1h or 2d;")
    }
    return duration.components.seconds * 1_000_000
  }

  private static func stanza(_ name: String, _ arguments: Arguments) throws -> String {
    let push = try patterns("--push", arguments) ?? ["\(name).*"]
    let pull = try patterns("--pull", arguments) ?? []
    let grants = [("push", push), ("pull", pull)].filter { !$0.1.isEmpty }.map { way, patterns in
      "\(way) = [" + patterns.map { "\"\($0)\"" }.joined(separator: ", ") + "]"
    }
    guard !grants.isEmpty else {
      throw arguments.usage("--push and --pull are empty", "an invitation must grant something;")
    }
    return "[peer.\(name)]\nmay = { \(grants.joined(separator: ", ")) }\n"
  }

  private static func patterns(_ option: String, _ arguments: Arguments) throws -> [String]? {
    guard let text = arguments.value(option) else { return nil }
    let patterns = text.split(separator: ",").map { $0.filter { $0 != " " } }
    for pattern in patterns where !pattern.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7f && $0 != 0x22 && $0 != 0x5c }) {
      throw arguments.usage("\(option) has '\(pattern)'", "patterns of trail names are allowed, such as store-*.pos;")
    }
    return patterns
  }

  private func write(_ stanza: String) throws {
    let folder = arguments.value("--config") ?? ConfFolder.usual
    guard Folder.isFolder(folder) else {
      throw arguments.usage(
        "--write needs a folder as conf", "leave --write out, and copy the output into the file;")
    }
    let path = Self.path(name, arguments)
    do throws(FileError) {
      try Account.asSelf { () throws(FileError) in
        if !Folder.exists("\(folder)/conf.d") {
          try Folder.create("\(folder)/conf.d")
          // The daemon reads the file as another user.
          chmod("\(folder)/conf.d", 0o755)
        }
        try File.replace(path, text: stanza, permissions: 0o644)
      }
    } catch {
      throw CairnError(
        .ioFailed, "cannot write \(path): \(error)",
        hint: "run the command as root, or leave --write out and copy the output into the file", remedy: .badInput)
    }
  }

  private func tell(_ line: JoinLine, _ stanza: String, expires: Int64) {
    let isWritten = arguments.has("--write")
    if arguments.has("--json") {
      Terminal.print(
        JSONObject([
          ("event", .text("invited")), ("peer", .text(name)), ("line", .text(line.description)),
          ("expires", .text(UTCTime(expires).description)), ("conf", .text(stanza)), ("written", .bool(isWritten)),
        ]).line)
      return
    }
    Terminal.notes("at \(name), before \(UTCTime(expires).description.prefix(16))Z, once:\n")
    Terminal.print("cairn peer join \(line)")
    Terminal.notes(isWritten ? "\nwritten: conf.d/peer-\(name).toml" : "\nin the conf here:\n")
    // Standard output has only the line that can be piped to the other machine.
    if !isWritten { Terminal.notes(stanza) }
    Terminal.note(
      "then 'cairn reload' here" + (conf.receive == nil ? "; peers can join only after you add [receive]" : ""))
  }
}
