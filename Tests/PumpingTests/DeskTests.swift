import Changes
import Foundation
import NetKit
import SystemKit
import TestServers
import Testing
import Trails

@testable import Pumping

/// Requests as a stranger, a tool or a broken peer would make them.
@Suite struct DeskTests {
  private let temp: TempFolder
  private let node: TestNode
  private let stop = StopSignal()
  private let info: TrailInfo

  init() throws {
    temp = try TempFolder()
    node = try TestNode("hub", temp)
    try node.write("hub.erp", transactions: 60)
    try node.listen(["till": (["till.*", "hub.*"], ["hub.*"])])
    info = try Trail.info(folder: node.folder("hub.erp"))
  }

  private func ask(
    _ method: String, _ target: String, as peer: String? = "till", body: [UInt8]? = nil,
    _ headers: [(String, String)] = []
  ) throws -> (status: Int, headers: [String: String], body: [UInt8]) {
    let client = try HTTPClient(base: node.url, options: .init(node: peer), stop: stop)
    let reply: HTTPReply
    if let body {
      reply = try body.withUnsafeBytes { try client.perform(method, target, headers: headers, body: $0) }
    } else {
      reply = try client.perform(method, target, headers: headers)
    }
    return (reply.status, reply.headers, reply.body)
  }

  private func code(_ body: [UInt8]) -> String? {
    guard case .object(let object)? = try? JSONReader.read(body) else { return nil }
    return object.text("code")
  }

  @Test func `a name that only looks like a peer's has none of its grants`() throws {
    let trail = try #require(TrailName("Kassa.pos"))
    let all = TrailPatterns(["*"])
    let grants = Grants(["Kassa": .init(push: all, pull: all)])
    #expect(grants.allow("Kassa", .push, trail) && grants.allow("Kassa", .pull, trail))
    // The sign of Kelvin is canonically equivalent to K.
    for name in ["\u{212a}assa", "kassa", "Kassa\u{301}", "Kassa ", "", "Kassa\0"] {
      #expect(!grants.allow(name, .push, trail) && !grants.allow(name, .pull, trail), "\(Array(name.utf8))")
    }
  }

  @Test func `sealed segments are plain files with strong tags`() throws {
    let address = "/cairn/1/trails/hub.erp/\(info.id)/00000001.seg"
    let whole = try Data(contentsOf: URL(fileURLWithPath: node.folder("hub.erp") + "/00000001.seg"))
    let all = try ask("GET", address)
    #expect(all.status == 200 && all.body == Array(whole))
    #expect(all.headers["etag"] == "\"\(info.id)-00000001\"")
    #expect(all.headers["cache-control"]?.contains("immutable") == true)
    let part = try ask("GET", address, [("Range", "bytes=100-199")])
    #expect(part.status == 206 && part.body == Array(whole[100..<200]))
    #expect(part.headers["content-range"] == "bytes 100-199/\(whole.count)")
    let rest = try ask("GET", address, [("Range", "bytes=100-")])
    #expect(rest.status == 206 && rest.body == Array(whole[100...]))
    #expect(try ask("GET", address, [("Range", "bytes=\(whole.count)-")]).status == 416)
    #expect(try ask("GET", address, [("If-None-Match", "\"\(info.id)-00000001\"")]).status == 304)
    // The last one is not sealed.
    let last = info.end.position.segment
    #expect(try ask("GET", "/cairn/1/trails/hub.erp/\(info.id)/\(last.hex(8)).seg").status == 404)
  }

  @Test func `strangers learn nothing`() throws {
    let address = "/cairn/1/trails/hub.erp"
    for target in ["/cairn", "/cairn/1/trails", address, "\(address)/\(info.id)/00000001.seg"] {
      let nobody = try ask("GET", target, as: nil)
      #expect(nobody.status == 401 && code(nobody.body) == "peer-unknown", "\(target)")
    }
    // Whether it is there or not: the same answer.
    let stranger = try ask("GET", address, as: "stranger")
    #expect(stranger.status == 403 && code(stranger.body) == "peer-refused")
    #expect(try ask("GET", "/cairn/1/trails/hub.nothing", as: "stranger").status == 403)
    #expect(try ask("GET", "/cairn/1/trails", as: "stranger").body.count < 60)
    #expect(try ask("GET", "/cairn/1/trails/till.x").status == 404)
    #expect(
      try ask("POST", "\(address)/\(info.id)/00000001.seg?offset=0&chain=00", as: "stranger", body: []).status == 403)
    let own = try ask("POST", "\(address)/\(info.id)/00000001.seg?offset=0&chain=\(ChainHash.zero)", body: [1])
    #expect(own.status == 409 && code(own.body) == "trail-own")
  }

  @Test func `HEAD is answered as GET, without a body, and other methods with those that the address takes`() throws {
    let address = "/cairn/1/trails/hub.erp"
    let segment = "\(address)/\(info.id)/00000001.seg"
    for target in ["/cairn", "/cairn/1/requests", "/cairn/1/trails", address, segment] {
      let (head, get) = (try ask("HEAD", target), try ask("GET", target))
      #expect(head.status == 200 && head.body.isEmpty, "\(target)")
      for name in ["etag", "cache-control", "content-type", "content-length"] {
        #expect(head.headers[name] == get.headers[name], "\(name) of \(target)")
      }
    }
    #expect(try ask("HEAD", segment).headers["content-length"] == String(info.segments[0].bytes))
    #expect(try ask("HEAD", "/cairn/1/trails/till.x").status == 404)
    for method in ["PUT", "DELETE", "OPTIONS", "TRACE"] {
      let refused = try ask(method, address)
      #expect(refused.status == 405 && refused.headers["allow"] == "GET, HEAD" && code(refused.body) == "usage")
      #expect(try ask(method, segment).headers["allow"] == "GET, HEAD, POST")
      #expect(try ask(method, address + "/requests").headers["allow"] == "POST")
      // Whether it is there or not, and who asks for it: the same answer.
      #expect(try ask(method, "/cairn/1/trails/till.x", as: "stranger").body == refused.body)
      #expect(try ask(method, "/cairn/1/nothing").status == 404)
    }
  }

  @Test func `requests that are not as they must be change nothing`() throws {
    let address = "/cairn/1/trails/hub.erp/requests"
    func post(_ text: String) throws -> Int { try ask("POST", address, body: Array(text.utf8)).status }
    #expect(try post(#"{"requests":[{"id":"5f-A","tables":["item"]}]}"#) == 200)
    let good = [CopyRequest(id: "5f-A", tables: ["item"])]
    for text in [
      "", "{}", "[]", #"{"requests":"x"}"#, #"{"requests":{}}"#, #"{"requests":[7]}"#, #"{"requests":[{"id":5}]}"#,
      #"{"requests":[{"id":"zz","tables":"item"}]}"#, #"{"requests":[{"id":"zz"}]}"#,
      #"{"requests":[{"id":"zz","tables":["item",5]}]}"#, #"{"requests":[{"id":"zz","tables":[""]}]}"#,
      #"{"requests":[{"id":"a/b","tables":[]}]}"#, #"{"requests":[{"id":"","tables":[]}]}"#,
      #"{"requests":[{"id":"ok","tables":[]},{"id":"a b","tables":[]}]}"#,
      "{\"requests\":[{\"id\":\"\(String(repeating: "a", count: 65))\",\"tables\":[]}]}",
    ] {
      #expect(try post(text) == 400, "\(text)")
      #expect(node.heard.withLock { $0.asked["till hub.erp"] } == good, "\(text)")
    }
    #expect(try post(#"{"requests":[]}"#) == 200)
    #expect(node.heard.withLock { $0.asked["till hub.erp"] } == [])
    for wait in ["abc", "-1", "", "1.5"] {
      #expect(try ask("GET", "/cairn/1/requests?known=x&wait=\(wait)").status == 400, "\(wait)")
    }
    #expect(try ask("GET", "/cairn/1/requests?known=x&wait=999").status == 200)
    let place = "/cairn/1/trails/hub.erp/\(info.id)/00000001.seg?offset=0"
    for (applied, status) in [("00000001:5", 200), ("", 400), ("1", 400), ("x:y", 400)] {
      #expect(try ask("GET", "\(place)&applied=\(applied)").status == status, "\(applied)")
    }
  }

  @Test func `more copies than may be asked for at once are refused, the rest is taken`() throws {
    let address = "/cairn/1/trails/hub.erp/requests"
    func body(_ count: Int) -> [UInt8] {
      let list = (0..<count).map { "{\"id\": \"r\($0)\", \"tables\": [\"t\"]}" }
      return Array("{\"requests\": [\(list.joined(separator: ","))]}".utf8)
    }
    #expect(try ask("POST", address, body: body(64)).status == 200)
    let surplus = try ask("POST", address, body: body(67))
    #expect(surplus.status == 503 && code(surplus.body) == "busy")
    #expect(String(decoding: surplus.body, as: UTF8.self).contains("3 of 67 copies that peer 'till' asks for are"))
    #expect(node.heard.withLock { $0.asked["till hub.erp"]?.count } == 64)
  }

  @Test func `nothing stays of a copy that never began`() throws {
    let address = "/cairn/1/trails/till.new/\(info.id)/00000001.seg?offset=0&chain=\(ChainHash.zero)"
    for body in [[], Array("rubbish".utf8), [UInt8](repeating: 7, count: 5000)] {
      #expect([400, 404, 422].contains(try ask("POST", address, body: body).status))
      #expect(!FileManager.default.fileExists(atPath: node.folder("till.new")))
    }
    #expect(try ask("GET", "/cairn/1/trails/till.new").status == 404)
  }

  @Test(arguments: [
    "/", "/cairn/2/trails", "/cairn/1/", "/cairn/1/trails/hub", "/cairn/1/trails/..%2Fhub.erp",
    "/cairn/1/trails/hub.erp/x",
    "/cairn/1/trails/hub.erp/00/00000001.seg", "/cairn/1/trails/hub.erp/ID/1.seg",
    "/cairn/1/trails/hub.erp/ID/0000000A.seg",
    "/cairn/1/trails/hub.erp/ID/00000000.seg", "/cairn/1/trails/hub.erp/ID/00000001.seg?offset=-1&chain=CHAIN",
    "/cairn/1/trails/hub.erp/ID/00000001.seg?offset=1&chain=zz", "/cairn/1/trails/hub.erp/ID/00000001.seg?offset=99",
    "/cairn/1/trails/hub.erp/ID/ffffffffffffffffff.seg", "/cairn/1/trails/%00.x",
  ])
  func `a broken address is refused`(target: String) throws {
    let target = target.replacingOccurrences(of: "ID", with: info.id.description)
      .replacingOccurrences(of: "CHAIN", with: ChainHash.zero.description)
    #expect([400, 404].contains(try ask("GET", target).status), "\(target)")
  }

  @Test func `places are judged`() throws {
    let address = "/cairn/1/trails/hub.erp/\(info.id)/"
    let last = info.segments[info.segments.count - 1]
    func place(_ segment: UInt64, _ offset: UInt64, _ chain: ChainHash) -> String {
      "\(address)\(segment.hex(8)).seg?offset=\(offset)&chain=\(chain)"
    }
    let end = try ask("GET", place(last.number, last.bytes, info.end.chain))
    #expect(end.status == 204 && end.headers["cairn-end"] == "\(last.number.hex(8)):\(last.bytes)")
    #expect(node.heard.withLock { $0.acknowledged["till hub.erp"]?.offset } == last.bytes)
    let forked = try ask("GET", place(last.number, last.bytes, .zero))
    #expect(forked.status == 409 && code(forked.body) == "trail-forked")
    let beyond = try ask("GET", place(last.number, last.bytes + 1, info.end.chain))
    #expect(beyond.status == 409 && code(beyond.body) == "trail-forked")
    node.unopened.withLock { $0 = [info.name] }
    let unopened = try ask("GET", place(last.number, last.bytes + 1, info.end.chain))
    #expect(unopened.status == 409 && code(unopened.body) == "trail-elsewhere")
    let foreign = try ask("GET", "/cairn/1/trails/hub.erp/\(String(repeating: "ab", count: 16))/00000001.seg?offset=0")
    #expect(foreign.status == 409 && code(foreign.body) == "trail-forked")
    #expect(node.heard.withLock { $0.acknowledged["till hub.erp"]?.offset } == last.bytes)
    _ = try Trail.purge(folder: node.folder("hub.erp"), below: Position(segment: 3, offset: 0))
    let purged = try ask("GET", place(1, 0, .zero))
    #expect(purged.status == 410 && code(purged.body) == "trail-purged")
    guard case .object(let object) = try JSONReader.read(purged.body) else { return }
    #expect(object.object("state")?.integer("oldest") == 3)
  }

  @Test func `a long poll is answered by what comes, and by the end of the node`() throws {
    let last = info.segments[info.segments.count - 1]
    let target =
      "/cairn/1/trails/hub.erp/\(info.id)/\(last.number.hex(8)).seg?offset=\(last.bytes)&chain=\(info.end.chain)&wait=20"
    let (node, temp) = (node, temp)
    let writing = try WorkerThread<Void> {
      Clock.sleep(milliseconds: 200)
      _ = try? node.write("hub.erp", transactions: 1, bytes: 10)
      _ = temp
    }
    let began = Clock.monotonicMilliseconds
    #expect(try ask("GET", target).status == 200)
    #expect(Clock.monotonicMilliseconds - began < 5000)
    _ = writing.join()
    let now = try Trail.info(folder: node.folder("hub.erp"))
    let end = now.segments[now.segments.count - 1]
    let ending = try WorkerThread<Void> {
      Clock.sleep(milliseconds: 200)
      node.endWaits()
    }
    let over = try ask(
      "GET",
      "/cairn/1/trails/hub.erp/\(info.id)/\(end.number.hex(8)).seg?offset=\(end.bytes)&chain=\(now.end.chain)&wait=20")
    #expect(over.status == 503 && code(over.body) == "busy")
    _ = ending.join()
  }

  @Test func `bytes that are not of the trail are refused, whatever they are`() throws {
    let till = try TestNode("till", temp)
    try till.write("till.pos", transactions: 8, bytes: 1000, segment: 1 << 20)
    let source = try SegmentSource.open(folder: till.folder("till.pos"))
    let start = try #require(try source.start(of: 1))
    let piece = try #require(try source.piece(at: start, max: 1 << 20))
    var good = [UInt8](repeating: 0, count: piece.count)
    try good.withUnsafeMutableBytes { try source.read(piece, into: $0) }
    let address = "/cairn/1/trails/till.pos/\(source.id)/00000001.seg?offset=0&chain=\(start.chain)"
    var random = SystemRandomNumberGenerator()
    for _ in 0..<60 {
      var bad = good
      switch Int.random(in: 0...3, using: &random) {
      case 0: bad.removeLast(Int.random(in: 1..<bad.count, using: &random))
      case 1: bad[Int.random(in: 0..<bad.count, using: &random)] ^= 1
      case 2:
        bad = (0..<Int.random(in: 0...5000, using: &random)).map { _ in UInt8.random(in: 0...255, using: &random) }
      default: bad.insert(7, at: Int.random(in: 0..<bad.count, using: &random))
      }
      let reply = try ask("POST", address, body: bad)
      #expect([200, 400, 404, 409, 422].contains(reply.status), "\(reply.status)")
      // Whatever was kept is of the trail.
      if let end = node.end(of: "till.pos") {
        #expect(
          try source.judge(
            segment: end.position.segment, offset: Trail.info(folder: node.folder("till.pos")).bytes, chain: end.chain)
            != .forked)
      }
    }
    till.pump(.push, node, "till.pos")
    try eventually("it arrives") { node.end(of: "till.pos") == till.end(of: "till.pos") }
    try node.expectEqual("till.pos", till)
  }
}
