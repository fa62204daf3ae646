import Changes
import Foundation
import NetKit
import Synchronization
import SystemKit
import TestServers
import Testing
import Trails

@testable import Pumping

/// Requests and reports by which a peer tries to use up descriptors and processor time of a node.
@Suite struct PumpAttackTests {
  private let temp: TempFolder
  private let node: TestNode
  private let stop = StopSignal()
  private let info: TrailInfo
  private let first: TrailInfo.Segment
  private let next: TrailPlace

  init() throws {
    temp = try TempFolder()
    node = try TestNode("hub", temp)
    try node.write("hub.erp", transactions: 60)
    try node.listen(["till": (["till.*"], ["hub.*"])])
    info = try Trail.info(folder: node.folder("hub.erp"))
    first = info.segments[0]
    next = try #require(try SegmentSource.open(folder: node.folder("hub.erp")).start(of: 2))
  }

  private func ask(
    _ method: String, _ target: String, _ headers: [(String, String)] = []
  ) throws -> (status: Int, body: [UInt8]) {
    let client = try HTTPClient(base: node.url, options: .init(node: "till"), stop: stop)
    let reply = try client.perform(method, "/cairn/1/trails/hub.erp/\(info.id)/\(target)", headers: headers)
    return (reply.status, reply.body)
  }

  private func openFiles(of trail: String) -> Int {
    let list = "/proc/self/fd"
    return ((try? FileManager.default.contentsOfDirectory(atPath: list)) ?? []).count {
      let path = try? FileManager.default.destinationOfSymbolicLink(atPath: "\(list)/\($0)")
      return path?.hasPrefix(node.folder(trail) + "/") ?? false
    }
  }

  @Test func `no request leaves a file of a trail open`() throws {
    let last = info.end.position.segment
    let headers: [[(String, String)]] = [
      [], [("Range", "bytes=0-9")], [("Range", "bytes=99999999-")], [("If-None-Match", "*")],
    ]
    for segment in [1, last, last + 1].map({ "\($0.hex(8)).seg" }) {
      for query in ["", "?offset=0", "?offset=5&chain=\(ChainHash.zero)"] {
        for method in ["GET", "HEAD", "PUT"] {
          for headers in headers { _ = try ask(method, segment + query, headers) }
        }
      }
    }
    try eventually("the files are closed", seconds: 5) { openFiles(of: "hub.erp") == 0 }
  }

  @Test func `the end of a sealed segment is the same place as the begin of the next one`() throws {
    let source = try SegmentSource.open(folder: node.folder("hub.erp"))
    let place = TrailPlace(segment: 1, offset: first.bytes, chain: next.chain)
    #expect(try source.judge(place) == .follows)
    let piece = try #require(try source.piece(at: place, max: 4096))
    #expect(piece.place == next)
    let reply = try ask("GET", "00000001.seg?offset=\(first.bytes)&chain=\(next.chain)&wait=1")
    let file = try Data(contentsOf: URL(fileURLWithPath: node.folder("hub.erp") + "/00000002.seg"))
    #expect(reply.status == 200 && reply.body.count >= piece.count && file.starts(with: reply.body))
  }

  /// A listener that reports one end of its copy whatever is sent to it, and answers reads at once.
  private final class Liar: HTTPHandler {
    struct Counts {
      var pushes = 0
      var reads = 0
    }

    let counts = Mutex(Counts())
    private let report: JSONObject
    private let reading: UInt32

    init(_ report: TrailReport, reading: UInt32 = 204) { (self.report, self.reading) = (report.json, reading) }

    private final class Sink: HTTPBodySink {
      private let liar: Liar
      init(_ liar: Liar) { self.liar = liar }
      func receive(_ bytes: UnsafeRawBufferPointer) -> HTTPResponse? { nil }
      func finish() -> HTTPResponse { PumpHandler.response(liar.report) }
      func abandon() {}
    }

    func begin(_ request: HTTPRequest) -> HTTPAction {
      let isOfSegment = request.path.hasSuffix(".seg")
      if request.method == "POST" {
        counts.withLock { $0.pushes += isOfSegment ? 1 : 0 }
        return .receive(Sink(self))
      }
      if isOfSegment {
        counts.withLock { $0.reads += 1 }
        return .answer(HTTPResponse(status: reading))
      }
      if request.path.hasPrefix("/cairn/1/trails/") { return .answer(PumpHandler.response(report)) }
      return .answer(HTTPResponse(status: 404))
    }
  }

  /// Returns the number of requests that a pump sends to a liar in a second, after the first one.
  private func counts(
    _ direction: TransferProgress.Direction, _ trail: TrailName, end: TrailPlace, reading: UInt32 = 204
  ) throws -> Liar.Counts {
    let standing = TrailStanding(
      name: trail, id: info.id, oldest: 1, end: end, position: Position(segment: 1, offset: 0), lastTransaction: 1)
    let liar = Liar(TrailReport(node: "liar", standing: standing, applied: nil, requests: []), reading: reading)
    let server = try HTTPServer(host: "127.0.0.1", port: 0, handler: liar)
    defer { server.stop() }
    let plan = PumpPlan(
      direction, url: "http://127.0.0.1:\(server.port)", trails: TrailPatterns([trail.description]), node: "hub")
    let pump = Pump(plan, node.shared)
    let stop = StopSignal()
    let thread = try WorkerThread<Void> { try? pump.run(stop: stop) }
    try eventually("the liar is asked") { liar.counts.withLock { $0.pushes + $0.reads } > 0 }
    Clock.sleep(milliseconds: 1_000)
    stop.set()
    _ = thread.join()
    return liar.counts.withLock { $0 }
  }

  @Test func `a listener that reports the end of a sealed segment gets the next one, and no more without progress`()
    throws
  {
    let name = try #require(TrailName("hub.erp"))
    let sealed = TrailPlace(segment: 1, offset: first.bytes, chain: next.chain)
    let pushes = try counts(.push, name, end: sealed).pushes
    #expect((1...20).contains(pushes), "\(pushes)")
    // Also with a place inside of a segment.
    let inside = try counts(.push, name, end: next).pushes
    #expect((1...20).contains(inside), "\(inside)")
  }

  @Test(arguments: [200, 204] as [UInt32])
  func `a listener that answers at once, with nothing, is not asked without a pause`(status: UInt32) throws {
    let name = try #require(TrailName("till.pos"))
    let reads = try counts(.pull, name, end: TrailPlace(segment: 1, offset: 0, chain: .zero), reading: status).reads
    #expect((1...30).contains(reads), "\(reads)")
  }

  @Test func `empty pushes to invented trails close no copy of another node`() throws {
    let till = try TestNode("till", temp)
    try till.write("till.pos")
    let plan = PumpPlan(.push, url: node.url, trails: TrailPatterns(["till.pos"]), node: "till")
    let pump = Pump(plan, till.shared)
    let ended = StopSignal()
    let thread = try WorkerThread<Void> { try? pump.run(stop: ended) }
    try eventually("the copy is open") { node.end(of: "till.pos") == till.end(of: "till.pos") }
    ended.set()
    _ = thread.join()
    let open = openFiles(of: "till.pos")
    #expect(open > 0)
    for number in 0..<600 {
      let name = try #require(TrailName("evil.t\(number)"))
      _ = try node.shared.copies.with(name) { try $0.sync() }
    }
    #expect(openFiles(of: "till.pos") == open)
  }

  @Test func `the many trails of one node close no copy of another node`() throws {
    let writer = try TestNode("evil", temp)
    let copies = TrailCopies(state: temp.path + "/few", openMax: 4)
    try Folder.create(temp.path + "/few")
    func bring(_ trail: String) throws -> TrailName {
      try writer.write(trail, transactions: 1)
      let source = try SegmentSource.open(folder: writer.folder(trail))
      let start = try #require(try source.start(of: 1))
      let piece = try #require(try source.piece(at: start, max: 1 << 20))
      let name = try #require(TrailName(trail))
      var bytes = [UInt8](repeating: 0, count: piece.count)
      try bytes.withUnsafeMutableBytes { try source.read(piece, into: $0) }
      try copies.with(name) { copy in
        let feed = CopyFeed(trail: source.id, at: start, from: "sender")
        try bytes.withUnsafeBytes { try feed.take($0, for: copy) }
        _ = try copy.sync()
      }
      return name
    }
    let good = try bring("good.pos")
    let evil = try (0..<8).map { try bring("evil.t\($0)") }
    #expect(copies.isOpen(good) && copies.count == 4)
    #expect(evil.count { copies.isOpen($0) } == 3)
    copies.close()
  }
}
