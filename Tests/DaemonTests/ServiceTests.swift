import Changes
import ControlAPI
import Foundation
import Glibc
import ServiceKit
import TestServers
import Testing

@testable import Daemon

@Suite struct ServiceTests {
  @Test func `an error has its fields in the journal`() {
    let error = CairnError(
      .rowDiffers, "row 7 differs", hint: "run 'cairn compare'", context: ["table": "item", "position": "1:2"])
    let fields = Dictionary(uniqueKeysWithValues: LogEntry(error, .error, worker: "apply.erp").fields.map { ($0, $1) })
    #expect(fields["PRIORITY"] == "3" && fields["CAIRN_WORKER"] == "apply.erp" && fields["CAIRN_TABLE"] == "item")
    #expect(fields["CAIRN_POSITION"] == "1:2" && fields["CAIRN_CODE"] == "row-differs")
    #expect(fields["CAIRN_HINT"] == "run 'cairn compare'")
    #expect(fields["MESSAGE"] == "apply.erp: [row-differs] row 7 differs (hint: run 'cairn compare')")
    #expect(fields["MESSAGE_ID"]?.count == 32)
  }

  @Test func `every code has a message id of its own, for ever`() {
    let ids = ErrorCode.allCases.map(\.messageID)
    #expect(Set(ids).count == ids.count)
  }

  @Test func `nothing in a message breaks the line`() {
    #expect(LogEntry(.info, "a\r\nb\u{1b}[31mc\u{9b}\u{202e}d\u{2028}e").line == "a  b\\x1b[31mc\\x9b\\u202ed e")
  }

  // MARK: HTTP

  private func get(_ port: UInt16, _ path: String) throws -> (status: Int, body: String) {
    let outcome = Process()
    outcome.executableURL = URL(fileURLWithPath: "/usr/bin/python3")
    outcome.arguments = [
      "-c",
      """
      import sys, urllib.request, urllib.error
      try:
        r = urllib.request.urlopen(sys.argv[1], timeout=10); code = r.status
      except urllib.error.HTTPError as e: r, code = e, e.code
      print(code); sys.stdout.write(r.read().decode())
      """, "http://127.0.0.1:\(port)\(path)",
    ]
    let pipe = Pipe()
    outcome.standardOutput = pipe
    try outcome.run()
    let text = String(decoding: pipe.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
    outcome.waitUntilExit()
    let lines = text.split(separator: "\n", maxSplits: 1, omittingEmptySubsequences: false)
    return (Int(lines[0]) ?? 0, lines.count > 1 ? String(lines[1]) : "")
  }

  static func freePort() -> UInt16 {
    let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
    defer { close(descriptor) }
    var address = sockaddr_in()
    address.sin_family = sa_family_t(AF_INET)
    address.sin_addr.s_addr = UInt32(0x7f00_0001).bigEndian
    var length = socklen_t(MemoryLayout<sockaddr_in>.size)
    return withUnsafeMutablePointer(to: &address) {
      $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
        _ = bind(descriptor, $0, length)
        getsockname(descriptor, $0, &length)
      }
      return UInt16(bigEndian: $0.pointee.sin_port)
    }
  }

  @Test func `pages are answered, others are not there, and a taken port is reported`() throws {
    let port = Self.freePort()
    let listener = try HTTPListener(host: "127.0.0.1", port: port) { request in
      request.path == "/healthz" ? .init(body: "ok\n") : nil
    }
    #expect(try get(port, "/healthz") == (200, "ok\n"))
    #expect(try get(port, "/etc/passwd").status == 404)
    let error = #expect(throws: CairnError.self) {
      _ = try HTTPListener(host: "127.0.0.1", port: port) { _ in nil }
    }
    #expect(error?.message.contains("\(port)") == true)
    withExtendedLifetime(listener) {}
  }

  @Test func `a page on loopback is for who asks for loopback: DNS rebinding leads nowhere`() throws {
    let port = Self.freePort()
    let listener = try HTTPListener(host: "127.0.0.1", port: port) { _ in .init(body: "secret\n") }
    for (host, status) in [
      ("127.0.0.1:\(port)", 200), ("localhost", 200), ("[::1]:\(port)", 200), ("evil.example:\(port)", 403),
      ("127.0.0.1.evil.example", 403), ("", 403),
    ] {
      let peer = try #require(RawPeer(port))
      peer.send("GET /metrics HTTP/1.1\r\nHost: \(host)\r\nConnection: close\r\n\r\n")
      #expect(peer.status() == status, "\(host)")
    }
    withExtendedLifetime(listener) {}
  }

  // MARK: Metrics

  @Test func `no label breaks the page into lines or ends before its end`() {
    var status = sample()
    let names = ["a\r\nb", "x\"\u{301}}", "y\\\u{301}", "\u{600}\"z", "\n\u{fe0f}", "\u{1b}[31m", "\u{2028}", "\u{85}"]
    for name in names { status.paths.append(NodeStatus.Path("t.t", name, .push, .connected)) }
    let page = Metrics.page(status)
    // Bytes, as a scraper sees them.
    for line in page.utf8.split(separator: 0x0a) where line.first != 0x23 {
      let quotes = Array(line).indices.filter { index in
        let bytes = Array(line)
        guard bytes[index] == 0x22 else { return false }
        let slashes = bytes[..<index].reversed().prefix { $0 == 0x5c }.count
        return slashes % 2 == 0
      }
      #expect(quotes.count % 2 == 0, "\(String(decoding: line, as: UTF8.self))")
      #expect(line.starts(with: "cairn_".utf8), "\(String(decoding: line, as: UTF8.self))")
      #expect(!line.contains { $0 < 0x20 })
    }
    #expect(page.contains("peer=\"a\\\\x0d\\nb\""), "\(page)")
  }

  private func sample() -> NodeStatus {
    var status = NodeStatus(
      node: "store-042", version: "1", process: 1, now: 0, startedAt: 2_000_000, loadedAt: 0)
    var apply = NodeStatus.Worker(WorkerName(.apply, "er\"p"), .retrying)
    apply.trail = "store-042.pos"
    (apply.lagMilliseconds, apply.versionsKept) = (1500, 100_000)
    apply.rowsWaiting = ["item": 2, "sales.\"x": 1]
    apply.waits = [.init(table: "t", code: "rule-refused", message: "no", hint: "mend")]
    apply.problem = .init(code: "bug", message: "x", hint: "y", times: 2, agoMilliseconds: 7, isPassed: true)
    for microseconds in [500, 2_000, 2_000_000_000] as [Int64] { apply.lags.add(microseconds: microseconds) }
    status.workers = [apply]
    status.trails = [.init(name: "store-042.pos", bytes: 4096, segments: 1, end: "1", oldest: 0)]
    var source = NodeStatus.Source(capture: "pos")
    (source.slotBytes, source.slotStatus) = (77, "reserved")
    status.sources = [source]
    var path = NodeStatus.Path("store-042.pos", "hq", .push, .connected)
    (path.worker, path.durable, path.bytes, path.seenAt) = ("pump.hq", "00000001:4096", 4096, 3_000_000)
    (path.durableLagMilliseconds, path.behindBytes) = (250, 12)
    status.paths = [path]
    return status
  }

  @Test func `metrics are in the text format of Prometheus`() {
    let page = Metrics.page(sample())
    for line in [
      "# TYPE cairn_lag_seconds gauge",
      "cairn_lag_seconds{worker=\"apply.er\\\"p\",trail=\"store-042.pos\"} 1.5",
      "cairn_worker_state{worker=\"apply.er\\\"p\",state=\"retrying\"} 1",
      "cairn_worker_state{worker=\"apply.er\\\"p\",state=\"running\"} 0",
      "cairn_latency_seconds_bucket{worker=\"apply.er\\\"p\",stage=\"apply\",le=\"0.001\"} 1",
      "cairn_latency_seconds_bucket{worker=\"apply.er\\\"p\",stage=\"apply\",le=\"+Inf\"} 3",
      "cairn_latency_seconds_count{worker=\"apply.er\\\"p\",stage=\"apply\"} 3",
      "cairn_trail_bytes{trail=\"store-042.pos\"} 4096", "cairn_slot_retained_bytes{capture=\"pos\"} 77",
      "cairn_start_time_seconds 2",
      "cairn_path_state{trail=\"store-042.pos\",peer=\"hq\",way=\"push\",state=\"connected\"} 1",
      "cairn_path_lag_seconds{trail=\"store-042.pos\",peer=\"hq\",way=\"push\",stage=\"durable\"} 0.25",
      "cairn_path_behind_bytes{trail=\"store-042.pos\",peer=\"hq\",way=\"push\"} 12",
      "cairn_path_seen_time_seconds{trail=\"store-042.pos\",peer=\"hq\",way=\"push\"} 3",
    ] { #expect(page.contains(line + "\n"), "\(line)") }
    for line in page.split(separator: "\n") where !line.hasPrefix("#") {
      #expect(line.split(separator: " ").last.flatMap { Double($0) } != nil, "\(line)")
    }
  }

  @Test func `the docs name every metric`() throws {
    let root = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
      .deletingLastPathComponent()
    let text = try String(contentsOf: root.appendingPathComponent("docs/reference/metrics.md"), encoding: .utf8)
    #expect(text.contains(Metrics.markdown), "\n\(Metrics.markdown)")
  }

  @Test func `a status lists some suspended tables and counts the rest`() throws {
    var status = sample()
    let long = String(repeating: "\u{1}", count: 4000)
    status.workers[0].waits = (0..<10_000).map { .init(table: "t\($0)", code: "bug", message: "no", hint: "mend") }
    status.workers[0].leftOut = (0..<10_000).map { "l\($0)" }
    status.workers[0].rowsWaiting = Dictionary(uniqueKeysWithValues: (0..<10_000).map { ("w\($0)".nameKey, 1) })
    status.sources[0].unhooked = (0..<10_000).map { "u\($0)" }
    #expect(status.json.line.utf8.count < 64 << 10)
    let worker = try #require(status.json.objects("workers").compactMap { NodeStatus.Worker($0) }.first)
    #expect(worker.waits.map(\.table) == (0..<100).map { "t\($0)" } && worker.moreWaits == 9900)
    #expect(worker.leftOut.count == 100 && worker.moreLeftOut == 9900)
    #expect(worker.rowsWaiting.count == 100 && worker.moreRowsWaiting == 9900)
    let source = try #require(status.json.objects("sources").first)
    #expect(source.list("unhooked").count == 100 && source.integer("unhooked_more") == 9900)
    #expect(Metrics.page(status).contains(#"cairn_tables_waiting{worker="apply.er\"p",trail="store-042.pos"} 10000"#))
    status.workers[0].waits = (0..<10_000).map { _ in .init(table: long, code: "bug", message: long, hint: long) }
    status.workers[0].leftOut = Array(repeating: long, count: 10_000)
    #expect(status.json.line.utf8.count < 256 << 10)
    let some = try #require(status.json.objects("workers").compactMap { NodeStatus.Worker($0) }.first)
    #expect(some.waits.count == 1 && some.moreWaits == 9999 && some.leftOut.count + some.moreLeftOut == 10_000)
  }

  @Test func `an answer names some suspended tables and counts the rest`() {
    let waits = (0..<10_000).map { NodeStatus.Wait(table: "t\($0)", code: "bug", message: "no", hint: "mend") }
    let notes = Supervisor.notes(on: waits, of: WorkerName(.apply, "erp"), TablePatterns())
    #expect(notes.count == 21 && notes.last == "9980 more tables are suspended at apply.erp")
    #expect(Supervisor.notes(on: waits, of: WorkerName(.apply, "erp"), TablePatterns(["t7"])).count == 1)
  }

  @Test func `a status is the same after a journey`() throws {
    let before = sample().workers[0]
    let json = sample().json
    let after = try #require(json.objects("workers").compactMap { NodeStatus.Worker($0) }.first)
    #expect(after.name == before.name && after.state == before.state && after.lagMilliseconds == 1500)
    #expect(after.waits == before.waits && after.problem == before.problem)
    #expect(after.silence?.hasPrefix("keeps 100000 versions of rows, as node store-042 has not confirmed them") == true)
    #expect(NodeStatus.Worker(after.name, .running).silence == nil)
    // A request for what is wrong now gets nothing of the past.
    #expect(sample().json.objects("workers").first?.object("error") == nil)
    #expect(json.text("summary")?.contains("0 of 1 worker running") == true)
  }
}
