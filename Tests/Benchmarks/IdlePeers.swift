import Changes
import Glibc
import NetKit
import Pumping
import SystemKit
import TestServers

/// W11: the resources that a daemon uses while 200 nodes wait for news of one of its trails.
struct IdlePeers {
  let stage: Stage

  func run() throws -> [Report] {
    // Each peer opens a dozen files.
    var limit = rlimit()
    getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
    limit.rlim_cur = limit.rlim_max
    setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
    return try [false, true].map(measure)
  }

  private func measure(isTLS: Bool) throws -> Report {
    var report = Report(.idlePeers, isTLS ? "tls" : "plain")
    let (count, seconds) = (stage.options.scaled(200), max(3, 20 * min(1, stage.options.scale)))
    report.changes = count
    let certificates = try BenchCertificates(stage.freshFolder("certificates"))
    let root = try stage.freshFolder("idle")
    let state = "\(root)/hub"
    try Folder.create(state)
    let trail = try SalesTrail(state: state)
    try trail.commit(rows: 100)
    try trail.close()
    let port = try Self.freePort()
    try File.replace(
      "\(root)/hub.toml", text: conf(state, port, count, isTLS ? certificates.server : nil), permissions: 0o600)
    let hub = try MeasuredRun.start(
      Folder.parent(of: stage.options.cairn) + "/cairnd", ["--config", "\(root)/hub.toml"], in: stage.folder)
    defer {
      hub.signal(SIGTERM)
      hub.waitUntilExit()
    }
    let origin = try PumpNode("till", state: state)
    let peers = try (0..<count).map { number in
      let name = "peer-\(number)"
      try Folder.create("\(root)/\(name)")
      let peer = try PumpNode(name, state: "\(root)/\(name)")
      try peer.pump(.pull, port: port, isTLS ? certificates.client(name) : nil)
      return peer
    }
    stage.note("W11: \(count) peers begin")
    for peer in peers { try peer.wait(until: origin, pump: peer, pause: 1000, seconds: 120) }
    for _ in 0..<stage.options.rounds {
      let (begun, used) = (Stopwatch(), Self.cpuSeconds(hub.processIdentifier))
      while begun.seconds < seconds { usleep(100_000) }
      report.add(.cairn, (Self.cpuSeconds(hub.processIdentifier) - used) / begun.seconds * 100)
      report.add(fact: "memory_mib", MeasuredRun.anonymousMebibytes(hub.processIdentifier))
    }
    stage.note("W11, \(report.pair): done")
    return report
  }

  private func conf(_ state: String, _ port: UInt16, _ count: Int, _ tls: ServerTLS?) -> String {
    var text = """
      [node]
      name = "hub"
      state = "\(state)"

      [receive]
      listen = "127.0.0.1:\(port)"

      """
    if let tls {
      text += """
        tls = { certificate = "\(tls.certificate)", key = "\(tls.key)", peers = "\(tls.authorities)" }

        """
    } else {
      text += "insecure = true\n"
    }
    text += "\n[peer.till]\nmay = { push = [\"\(SalesTrail.name)\"] }\n"
    for number in 0..<count { text += "\n[peer.peer-\(number)]\nmay = { pull = [\"\(SalesTrail.name)\"] }\n" }
    return text
  }

  /// Returns a port that no process listens on at present.
  private static func freePort() throws -> UInt16 {
    let server = try HTTPServer(host: "127.0.0.1", port: 0, handler: Nobody())
    defer { server.stop() }
    return server.port
  }

  private struct Nobody: HTTPHandler {
    func begin(_ request: HTTPRequest) -> HTTPAction { .answer(HTTPResponse(status: 503)) }
  }

  /// Returns the user and system time of a process: proc(5).
  private static func cpuSeconds(_ process: pid_t) -> Double {
    let fields = MeasuredRun.text("/proc/\(process)/stat").split(separator: ")").last?.split(separator: " ") ?? []
    let ticks = fields.dropFirst(11).prefix(2).reduce(0) { $0 + (Double($1) ?? 0) }
    return ticks / Double(sysconf(Int32(_SC_CLK_TCK)))
  }
}
