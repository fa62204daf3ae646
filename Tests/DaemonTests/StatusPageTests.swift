import Changes
import CodecKit
import Configuring
import ControlAPI
import Foundation
import NetKit
import ServiceKit
import SystemKit
import TestServers
import Testing

@testable import Daemon

/// The status page over HTTP, and in Chromium if that is installed.
@Suite(.timeLimit(.minutes(20))) struct StatusPageTests {
  /// A listener with a status of its own.
  private final class Bench {
    let context: ServiceContext
    let listener: MetricsListener
    let port: UInt16

    init(
      host: String = "127.0.0.1", token: String? = nil, tls: Configuration.PeerFiles? = nil, port: UInt16? = nil,
      status: NodeStatus = StatusPageTests.sample()
    ) {
      self.port = port ?? ServiceTests.freePort()
      var conf = Configuration(node: .init(name: "store-042", state: NSTemporaryDirectory()))
      var metrics = Configuration.Metrics(host: host, port: self.port)
      (metrics.token, metrics.tls) = (token, tls)
      conf.metrics = metrics
      context = ServiceContext(conf, log: ServiceLog(level: .error))
      listener = MetricsListener(context) { status }
      listener.keep()
    }

    deinit { listener.close() }

    func ask(
      _ path: String, _ method: String = "GET", token: String? = nil, tls: ClientTLS? = nil
    ) throws -> HTTPReply {
      let base = "\(tls == nil ? "http" : "https")://127.0.0.1:\(port)"
      let client = try HTTPClient(base: base, tls: tls, options: .init(bodyBytesMax: 64 << 20), stop: StopSignal())
      return try client.perform(method, path, headers: token.map { [("Authorization", "Bearer \($0)")] } ?? [])
    }
  }

  static let hostile = "<img src=x onerror=\"document.title='owned'\">"

  static func sample() -> NodeStatus {
    var status = NodeStatus(
      node: "store-042", version: "1", process: 1, now: 3_000_000, startedAt: 2_000_000, loadedAt: 0)
    var apply = NodeStatus.Worker(WorkerName(.apply, "erp"), .failed)
    (apply.trail, apply.place, apply.detail) = ("store-042.pos", hostile, hostile)
    apply.waits = [.init(table: hostile, code: "schema", message: hostile, hint: hostile)]
    apply.problem = .init(code: "bug", message: hostile, hint: hostile, times: 2)
    var capture = NodeStatus.Worker(WorkerName(.capture, "pos"), .running)
    (capture.trail, capture.place, capture.lagMilliseconds) = ("store-042.pos", hostile, 3)
    status.workers = [capture, apply]
    status.paths = [NodeStatus.Path("store-042.pos", hostile, .push, .failed)]
    status.refusal = .init(code: "bug", message: hostile, hint: hostile, times: 1)
    var source = NodeStatus.Source(capture: "pos")
    (source.unhooked, source.database) = ([hostile], hostile)
    status.sources = [source]
    return status
  }

  // MARK: The page

  @Test func `the page runs its own script and loads nothing else`() throws {
    let reply = try Bench().ask("/status")
    let page = String(decoding: reply.body, as: UTF8.self)
    #expect(reply.status == 200 && reply.headers["content-type"] == "text/html; charset=utf-8")
    #expect(reply.headers["x-content-type-options"] == "nosniff" && reply.headers["x-frame-options"] == "DENY")
    #expect(reply.headers["cache-control"] == "no-store" && reply.headers["referrer-policy"] == "no-referrer")
    #expect(reply.headers["cross-origin-resource-policy"] == "same-origin")
    let policy = try #require(reply.headers["content-security-policy"])
    #expect(policy.hasPrefix("default-src 'none'; ") && !policy.contains("unsafe"))
    #expect(policy.contains("frame-ancestors 'none'") && policy.contains("form-action 'none'"))
    for (tag, source) in [("script", "script-src"), ("style", "style-src")] {
      let parts = page.components(separatedBy: "<\(tag)>")
      #expect(parts.count == 2)
      let text = try #require(parts.last?.components(separatedBy: "</\(tag)>").first)
      let hash = try SHA256()
      hash.update(Array(text.utf8))
      let digest = Data(hash.finalize()).base64EncodedString()
      #expect(policy.contains("\(source) 'sha256-\(digest)'"), "\(tag)")
    }
    // No other file, no handler in an attribute, and no way from a text to HTML.
    for word in [
      "http-equiv", " src=", "@import", "url(", "onclick", "onerror", "innerHTML", "outerHTML", "insertAdjacent",
      "document.write", "eval(", "Function(", "DOMParser", "srcdoc", "javascript:",
    ] { #expect(!page.contains(word), "\(word)") }
    // The only address is the name of a namespace, which is not fetched.
    let addresses = page.components(separatedBy: "http").count - 1
    #expect(addresses == 1 && page.contains("http://www.w3.org/2000/svg"))
    #expect(reply.body.count < 64 << 10)
  }

  @Test func `the page has landmarks, heads of tables and one polite live region`() {
    let page = StatusPage.html
    for part in [
      "<html lang=\"en\">", "<header>", "<main>", "<footer", "<noscript>", "aria-live=\"polite\"", "class=\"skip\"",
      "name=\"viewport\"", "prefers-color-scheme:dark", "prefers-reduced-motion", "aria-pressed", "role=\"img\"",
      "scope: \"row\"",
    ] { #expect(page.contains(part), "\(part)") }
    #expect(page.components(separatedBy: "aria-live").count == 2)
    let heads = page.components(separatedBy: "<th ").count
    #expect(heads > 15 && page.components(separatedBy: "<th scope=\"col\">").count == heads)
    #expect(page.components(separatedBy: "<table>").count == page.components(separatedBy: "<table><caption").count)
  }

  @Test func `names of others are data: they are in the JSON, and not in the page`() throws {
    let bench = Bench()
    #expect(!String(decoding: try bench.ask("/status").body, as: UTF8.self).contains("<img"))
    let reply = try bench.ask("/status.json")
    #expect(reply.headers["content-type"] == "application/json")
    #expect(reply.headers["x-content-type-options"] == "nosniff")
    guard case .object(let json)? = try? JSONReader.read(reply.body.dropLast()) else {
      Issue.record("no JSON")
      return
    }
    #expect(json.objects("workers").last?.text("detail") == Self.hostile)
    #expect(json.objects("paths").first?.text("peer") == Self.hostile)
  }

  @Test func `only GET and HEAD are answered`() throws {
    let bench = Bench()
    for path in ["/status", "/status.json", "/status/log.json", "/metrics"] {
      for method in ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"] {
        let reply = try bench.ask(path, method)
        #expect(reply.status == 405 && reply.headers["allow"] == "GET, HEAD", "\(method) \(path)")
      }
    }
    let head = try bench.ask("/status", "HEAD")
    #expect(head.status == 200 && head.body.isEmpty)
    let root = try bench.ask("/")
    #expect(root.status == 303 && root.headers["location"] == "status")
    #expect(try bench.ask("/status/log.json?apply=nothing").status == 404)
    #expect(try bench.ask("/status/other").status == 404)
  }

  // MARK: Who may read it

  @Test func `from other machines the status needs a token`() throws {
    let open = Bench(host: "0.0.0.0")
    for path in ["/status", "/status.json", "/status/log.json", "/"] {
      let reply = try open.ask(path)
      #expect(reply.status == 403 && String(decoding: reply.body, as: UTF8.self).contains("metrics.token"), "\(path)")
    }
    #expect(try open.ask("/metrics").status == 200 && open.ask("/healthz").status == 200)
    let token = "0123456789abcdef"
    let closed = Bench(host: "0.0.0.0", token: token)
    for path in ["/status", "/status.json", "/metrics", "/readyz"] {
      let refused = try closed.ask(path)
      #expect(refused.status == 401 && refused.headers["www-authenticate"]?.hasPrefix("Basic") == true, "\(path)")
      #expect(try closed.ask(path, token: token + "0").status == 401, "\(path)")
      #expect(try closed.ask(path, token: token).status == (path == "/readyz" ? 503 : 200), "\(path)")
    }
    #expect(try closed.ask("/healthz").status == 200)
    // A reload takes another token.
    closed.context.configuration.metrics?.token = "another-token-of-this-node"
    #expect(try closed.ask("/status", token: token).status == 401)
    #expect(try closed.ask("/status", token: "another-token-of-this-node").status == 200)
  }

  @Test func `a certificate of a trusted authority opens the status over TLS`() throws {
    let (own, other) = (try PageAuthority(), try PageAuthority())
    try own.issue("127.0.0.1", .server(names: ["127.0.0.1"]))
    try own.issue("ann", .client)
    try other.issue("ann", .client)
    let bench = Bench(host: "0.0.0.0", tls: own.files("127.0.0.1"))
    func status(_ authority: PageAuthority?) throws -> Int {
      let tls = ClientTLS(
        certificate: authority.map { $0.path("ann.crt") }, key: authority.map { $0.path("ann.key") },
        authorities: own.path("ca.crt"))
      return try bench.ask("/status.json", tls: tls).status
    }
    #expect(try status(own) == 200)
    #expect(try status(nil) == 403)
    #expect(try status(other) == 403)
  }

  // MARK: The listener

  @Test func `a port in use is a problem in the status, and no end`() throws {
    let first = Bench()
    let second = Bench(port: first.port)
    #expect(first.listener.problem == nil)
    let problem = try #require(second.listener.problem)
    #expect(problem.code == "io-failed" && problem.message.contains("\(first.port)"))
    // Another address of the conf is opened at once.
    let port = ServiceTests.freePort()
    second.context.configuration.metrics = .init(host: "127.0.0.1", port: port)
    second.listener.keep()
    #expect(second.listener.problem == nil && RawPeer(port) != nil)
    second.context.configuration.metrics = nil
    second.listener.keep()
    #expect(RawPeer(port) == nil && RawPeer(first.port) != nil)
  }

  @Test func `a status of 1,000 workers with hostile texts is bounded`() throws {
    var status = Self.sample()
    let long = String(repeating: "\u{1}<", count: 2000)
    status.workers = (0..<1000).map { number in
      var worker = NodeStatus.Worker(WorkerName(.apply, "a\(number)"), .failed)
      (worker.trail, worker.place, worker.detail) = ("store-\(number).pos", "sqlite:///srv/\(number).db", long)
      worker.waits = (0..<100).map { .init(table: "t\($0)", code: "schema", message: long, hint: long) }
      worker.problem = .init(code: "bug", message: long, hint: long, times: 1)
      return worker
    }
    let reply = try Bench(status: status).ask("/status.json")
    #expect(reply.status == 200 && reply.body.count < 16 << 20, "\(reply.body.count)")
    guard case .object(let json)? = try? JSONReader.read(reply.body.dropLast()) else {
      Issue.record("no JSON")
      return
    }
    #expect(json.objects("workers").count == 1000)
    #expect(json.objects("workers").allSatisfy { !$0.objects("waits").isEmpty && $0.text("detail") != "" })
  }

  // MARK: In a browser

  private static let browser = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"]
    .first { FileManager.default.isExecutableFile(atPath: $0) }

  @Test(.enabled(if: browser != nil, "no Chromium is installed"))
  func `a browser shows hostile names as text, and runs none of them`() throws {
    let bench = Bench()
    let folder = NSTemporaryDirectory() + "cairn-page-\(UUID().uuidString)"
    defer { try? FileManager.default.removeItem(atPath: folder) }
    let process = Process()
    process.executableURL = URL(fileURLWithPath: try #require(Self.browser))
    process.arguments = [
      "--headless=new", "--no-sandbox", "--disable-gpu", "--user-data-dir=\(folder)", "--virtual-time-budget=5000",
      "--dump-dom", "http://127.0.0.1:\(bench.port)/status",
    ]
    let pipe = Pipe()
    (process.standardOutput, process.standardError) = (pipe, FileHandle.nullDevice)
    try process.run()
    let dom = String(decoding: pipe.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
    process.waitUntilExit()
    #expect(dom.contains("<title>▲ store-042: Cairn</title>"), "\(dom.suffix(2000))")
    #expect(dom.contains("table &lt;img src=x onerror=") && !dom.contains("<img"))
    #expect(dom.contains("apply.erp has failed") && dom.contains("class=\"bad\""))
  }
}

/// An authority with its files in a folder of its own.
private final class PageAuthority {
  private let folder = NSTemporaryDirectory() + "cairn-page-tls-\(UUID().uuidString)"
  private let certificate: Certificate
  private let key: PrivateKey
  private let now = Int64(Date().timeIntervalSince1970) * 1_000_000
  private static let day: Int64 = 86_400_000_000

  init() throws {
    try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
    key = try PrivateKey()
    certificate = try Certificate.selfSigned(
      CertificateTerms(
        commonName: "authority", purpose: .authority, notBefore: now - Self.day, notAfter: now + Self.day), key: key)
    try certificate.pem.write(toFile: path("ca.crt"), atomically: true, encoding: .utf8)
  }

  deinit { try? FileManager.default.removeItem(atPath: folder) }

  func path(_ name: String) -> String { "\(folder)/\(name)" }

  func files(_ name: String) -> Configuration.PeerFiles {
    Configuration.PeerFiles(certificate: path("\(name).crt"), key: path("\(name).key"), peers: path("ca.crt"))
  }

  func issue(_ name: String, _ purpose: CertificateTerms.Purpose) throws {
    let own = try PrivateKey()
    let request = try CertificateRequest(pem: try CertificateRequest(commonName: "ignored", key: own).pem)
    let issued = try Certificate.issue(
      CertificateTerms(commonName: name, purpose: purpose, notBefore: now - Self.day, notAfter: now + Self.day),
      for: request, by: certificate, key: key)
    try issued.pem.write(toFile: path("\(name).crt"), atomically: true, encoding: .utf8)
    try own.pem.write(toFile: path("\(name).key"), atomically: true, encoding: .utf8)
  }
}
