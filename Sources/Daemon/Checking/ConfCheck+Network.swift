import Changes
import Configuring
import ControlAPI
import Deploying
import NetKit
import SystemKit
import Trust

/// Checks of the connections to other nodes: certificates, the port, and the grants of trails.
extension ConfCheck {
  private var state: String { configuration.node.state }

  // MARK: The listener

  func check(_ receive: Configuration.Receive) throws {
    let tls = try NetworkTLS.server(receive, state: state)
    if let tls {
      try checkFiles(tls.certificate, tls.key, tls.authorities)
      try tellExpiry(of: tls.certificate)
      try tellExpiry(of: tls.authorities)
      if let problem = PeerFolder(state: state).revoked.problem {
        throw CairnError(
          .stateForeign,
          "the list of revoked certificates cannot be read, so no certificate is accepted: \(problem.reason)",
          hint: "restore the file from a backup", remedy: .badInput)
      }
    } else {
      note(
        receive.isLoopback
          ? "[receive] serves plain HTTP: any user of this machine can claim the name of any peer at \(receive.address)"
          : "[receive] serves plain HTTP to other machines: any machine that reaches \(receive.address) can claim the name of any peer"
      )
    }
    do {
      let server = try HTTPServer(host: receive.host, port: receive.port, tls: tls, handler: NobodyServed())
      server.stop()
      say(
        "\(receive.address): free, \(tls == nil ? "plain HTTP" : "TLS 1.3")",
        [("event", .text("listener")), ("ok", .bool(true)), ("tls", .bool(tls != nil))])
    } catch let error as CairnError where error.code == .ioFailed && isOurs {
      say("\(receive.address): the daemon listens there", [("event", .text("listener")), ("ok", .bool(true))])
    }
    if configuration.peers.isEmpty {
      note("[receive] grants nothing: there is no [peer.NAME]")
    }
  }

  private var isOurs: Bool { running.contains { $0.name == .receive } }

  private struct NobodyServed: HTTPHandler {
    func begin(_ request: HTTPRequest) -> HTTPAction { .answer(HTTPResponse(status: 503, closes: true)) }
  }

  // MARK: Pumps

  func check(_ pump: Configuration.Pump) throws {
    let tls = try NetworkTLS.client(pump, own: configuration.receive?.tls, state: state)
    if let certificate = tls?.certificate, let key = tls?.key, let authorities = tls?.authorities {
      try checkFiles(certificate, key, authorities)
      try tellExpiry(of: certificate)
    }
    let client = try HTTPClient(
      base: pump.url.description, tls: tls,
      options: .init(connectSeconds: 10, silenceSeconds: 20, node: configuration.node.name), stop: StopSignal())
    let hello = try client.perform("GET", "/cairn")
    guard hello.status == 200, let facts = Self.object(hello.body), let node = facts.text("node") else {
      throw refusal(of: hello, pump, "it does not answer like a cairnd")
    }
    if node == configuration.node.name {
      throw CairnError(
        .confValue, "\(pump.url) is this node, \(node)",
        hint: "name another node in [pump.\(pump.name)]", remedy: .badInput)
    }
    say(
      "\(pump.url): node \(node) answers, \(tls == nil ? "plain HTTP" : "TLS 1.3")",
      [("event", .text("peer")), ("ok", .bool(true)), ("node", .text(node)), ("tls", .bool(tls != nil))])
    let names = pump.trails.names
    guard !names.isEmpty else {
      let reply = try client.perform("GET", "/cairn/1/trails")
      guard reply.status == 200 else { throw refusal(of: reply, pump, "it refuses this node") }
      return
    }
    for name in names {
      let reply = try client.perform("GET", "/cairn/1/trails/\(name)")
      switch (reply.status, pump.way) {
      case (200, _): break
      case (404, .push): note("node \(node) accepts trail \(name), and has no copy of it yet")
      case (404, .pull): note("node \(node) has no trail \(name) yet")
      default: throw refusal(of: reply, pump, "it does not allow this node to \(pump.way.rawValue) trail \(name)")
      }
    }
  }

  private func refusal(of reply: HTTPReply, _ pump: Configuration.Pump, _ what: String) -> CairnError {
    let told = Self.object(reply.body)
    let code = told?.text("code").flatMap { ErrorCode(rawValue: $0) } ?? .peerUnreachable
    let message = told?.text("message") ?? "HTTP status \(reply.status)"
    return CairnError(
      code, "\(pump.url): \(what): \(message)",
      hint: told?.text("hint") ?? "check what listens there, and what [peer.\(configuration.node.name)] grants there")
  }

  private static func object(_ body: [UInt8]) -> JSONObject? {
    if case .object(let object)? = try? JSONReader.read(body) { object } else { nil }
  }

  // MARK: Certificates

  func checkFiles(_ files: String...) throws {
    for file in files {
      guard Folder.exists(file) else {
        throw CairnError(
          .confMissing, "file \(file) does not exist",
          hint: "correct its name in tls, or create it with 'cairn peer invite' and 'cairn peer join'")
      }
      guard let account, let place = FileRights.read.obstacle(at: file, for: account) else { continue }
      throw CairnError(
        .confMissing, "user \(account.name) cannot read \(file)\(place == file ? "" : ": \(place) denies access")",
        hint: "run: chown \(account.name) \(place)")
    }
  }

  func tellExpiry(of file: String) throws {
    let text: String
    do throws(FileError) { text = try File.text(file) } catch { throw error.asCairnError(doing: "read a certificate") }
    guard let certificates = try? Certificate.all(pem: text) else {
      throw CairnError(
        .confValue, "\(file) holds no certificate", hint: "name a file in PEM, with -----BEGIN CERTIFICATE-----",
        remedy: .badInput)
    }
    let now = Clock.system.microseconds()
    for (index, certificate) in certificates.enumerated() {
      let ends = UTCTime(certificate.notAfter).description.prefix(10)
      let name = certificate.commonName.oneLine
      // If there are several authorities, only the first one signs.
      if certificate.notAfter < now, index == 0 {
        throw CairnError(
          .peerUntrusted, "the certificate \(file) of '\(name)' has expired on \(ends)",
          hint: "get a new one: 'cairn peer join' with a new invitation, or from the authority that issued it")
      }
      // A certificate that renews itself expires soon only if its renewal failed. The operator renews an authority.
      let days: Int64 = certificate.isAuthority ? 365 : 30
      guard certificate.notAfter < now + days * PeerFolder.day else { continue }
      let next =
        certificate.isAuthority && file.hasPrefix(state + "/peers/ca.crt") ? ": run 'cairn peer rotate --ca'" : ""
      note("the certificate \(file) of '\(name)' ends on \(ends)\(next)")
    }
  }
}
