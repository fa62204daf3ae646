import Changes
import Foundation
import NetKit
import SystemKit
import TestServers
import Testing
import Trails

@testable import Pumping

/// Strangers and bad peers at a node that has trails. Run with CAIRN_SOAK for 100,000 requests; CAIRN_SEED sets the seed.
@Suite struct DeskFuzzTests {
  /// The parts that make up a request.
  private struct Material: Sendable {
    let own: TrailInfo
    let secret: TrailInfo
    /// The only segment of a trail that the peer may push.
    let segment: [UInt8]
    let pushed: TrailInfo

    func request(_ random: inout Seeded) -> [UInt8] {
      func pick<T>(_ all: [T]) -> T { all[Int.random(in: 0..<all.count, using: &random)] }
      let trail = pick([
        "hub.erp", "hub.secret", "till.pos", "till.pos", "other.x", "..", "hub.erp%2f..", "hub.secret/../hub.erp",
      ])
      let id = pick(["\(own.id)", "\(secret.id)", "\(pushed.id)", "\(pushed.id)", "00", "zz"])
      let file = pick(["00000001.seg", "00000001.seg", "00000002.seg", "ffffffff.seg", "1.seg", "../durable", "%2e%2e"])
      let offset = pick([
        "0", "0", "128", "\(segment.count)", "-1", "18446744073709551615", "99999999999999999999", "x",
      ])
      let chain = pick([String(repeating: "0", count: 64), "\(pushed.end.chain)", "\(secret.end.chain)", "00", "é"])
      let query = pick([
        "", "?offset=\(offset)", "?offset=\(offset)&chain=\(chain)", "?offset=\(offset)&chain=\(chain)&wait=0",
      ])
      // Every fourth is right except for its body.
      let isRight = Int.random(in: 0..<4, using: &random) == 0
      let right =
        "/cairn/1/trails/till.pos/\(pushed.id)/00000001.seg?offset=0&chain=\(String(repeating: "0", count: 64))"
      let path =
        isRight
        ? right
        : pick([
          "/cairn/1/trails/\(trail)/\(id)/\(file)\(query)", "/cairn/1/trails/\(trail)/\(id)/\(file)\(query)",
          "/cairn/1/trails/\(trail)", "/cairn/1/trails", "/cairn", "/cairn/1/trails/\(trail)/requests", "/cairn/1/join",
          "/cairn/2/trails/\(trail)", "/cairn/1/trails/\(trail)/\(id)",
        ])
      let method = isRight ? "POST" : pick(["GET", "GET", "POST", "POST", "POST", "HEAD", "PUT", "DELETE"])
      var body: [UInt8] = []
      if method == "POST" {
        switch Int.random(in: 0..<6, using: &random) {
        case 0: body = segment
        case 1: body = Array(segment.prefix(Int.random(in: 0...segment.count, using: &random)))
        case 2:
          body = (0..<Int.random(in: 0..<4000, using: &random)).map { _ in UInt8.random(in: 0...255, using: &random) }
        case 3: body = Array("{\"requests\": [{\"id\": \"x\", \"tables\": [\"a\"]}], \"tables\": 7}".utf8)
        case 4:
          body = segment
          body[Int.random(in: 0..<body.count, using: &random)] ^= UInt8.random(in: 1...255, using: &random)
        default: break
        }
      }
      let node =
        isRight
        ? "Cairn-Node: till\r\n"
        : pick([
          "Cairn-Node: till\r\n", "Cairn-Node: till\r\n", "Cairn-Node: stranger\r\n", "Cairn-Node: hub\r\n", "",
        ])
      let length = Int.random(in: 0..<20, using: &random) == 0 ? Int.random(in: 0...9999, using: &random) : body.count
      let range = pick(["", "", "Range: bytes=5-\r\n", "Range: bytes=99999999999-1\r\n", "If-None-Match: *\r\n"])
      var bytes =
        Array("\(method) \(path) HTTP/1.1\r\nHost: x\r\n\(node)\(range)Content-Length: \(length)\r\n\r\n".utf8) + body
      if Int.random(in: 0..<5, using: &random) == 0 {
        bytes[Int.random(in: 0..<bytes.count, using: &random)] = UInt8.random(in: 0...255, using: &random)
      }
      return bytes
    }
  }

  private static func attack(_ port: UInt16, _ count: Int, _ seed: UInt64, _ material: Material, _ needle: [UInt8])
    -> Int
  {
    var random = Seeded(seed)
    var leaks = 0
    for n in 0..<count {
      guard let peer = RawPeer(port) else { continue }
      peer.send(material.request(&random))
      if n % 11 == 0 { continue }
      shutdown(peer.descriptor, Int32(SHUT_WR))
      if Data(peer.all()).range(of: Data(needle)) != nil { leaks += 1 }
    }
    return leaks
  }

  private static var residentBytes: Int {
    let words = (try? String(contentsOfFile: "/proc/self/statm", encoding: .utf8))?.split(separator: " ") ?? []
    return (words.count > 1 ? Int(words[1]) ?? 0 : 0) * 4096
  }

  private func files(_ folder: String) throws -> [String: Data] {
    let names = try FileManager.default.contentsOfDirectory(atPath: folder).filter { $0.hasSuffix(".seg") }
    return try Dictionary(
      uniqueKeysWithValues: names.map { ($0, try Data(contentsOf: URL(fileURLWithPath: "\(folder)/\($0)"))) })
  }

  @Test func `nothing that peers and strangers send does harm`() throws {
    let count = isSoak ? 100_000 : 1200
    let seed =
      ProcessInfo.processInfo.environment["CAIRN_SEED"].flatMap { UInt64($0) } ?? UInt64.random(in: 0...9_999_999)
    print("fuzz of the desk: \(count) requests, CAIRN_SEED=\(seed)")
    let temp = try TempFolder()
    let (hub, till) = (try TestNode("hub", temp), try TestNode("till", temp))
    try hub.write("hub.erp", transactions: 30)
    try hub.write("hub.secret", transactions: 30)
    try till.write("till.pos", transactions: 5, segment: 1 << 20)
    try hub.listen(["till": (["till.*", "hub.*"], ["hub.erp"])])
    let secretFile = try Data(contentsOf: URL(fileURLWithPath: hub.folder("hub.secret") + "/00000001.seg"))
    // Bytes that no other trail has: from the middle of its content.
    let needle = Array(secretFile[2000..<2024])
    let pushed = try Trail.info(folder: till.folder("till.pos"))
    let whole = try Data(contentsOf: URL(fileURLWithPath: till.folder("till.pos") + "/00000001.seg"))
    let material = Material(
      own: try Trail.info(folder: hub.folder("hub.erp")), secret: try Trail.info(folder: hub.folder("hub.secret")),
      segment: Array(whole.prefix(Int(pushed.segments[0].bytes))), pushed: pushed)
    let before = (try files(hub.folder("hub.erp")), try files(hub.folder("hub.secret")))
    let port = hub.port
    func round(_ count: Int, _ seed: UInt64) throws -> Int {
      let attackers = try (0..<4).map { n in
        try WorkerThread<Int> { Self.attack(port, count / 4, seed &+ UInt64(n), material, needle) }
      }
      return attackers.reduce(0) { $0 + ($1.join() ?? 1) }
    }
    #expect(try round(count / 5, seed) == 0)
    let resident = Self.residentBytes
    #expect(try round(count * 4 / 5, seed &+ 1000) == 0)
    print("resident \(resident >> 20) MiB before, \(Self.residentBytes >> 20) MiB after")
    if isSoak { #expect(Self.residentBytes - resident < 64 << 20) }
    #expect(try files(hub.folder("hub.erp")) == before.0)
    #expect(try files(hub.folder("hub.secret")) == before.1)
    let others = try FileManager.default.contentsOfDirectory(atPath: hub.state).filter { $0.hasPrefix("other") }
    #expect(others.isEmpty)
    // The copy of the trail that may be pushed is a part of it.
    hub.shared.copies.close()
    _ = try Trail.verify(folder: hub.folder("till.pos"))
    let copied = try Trail.info(folder: hub.folder("till.pos")).segments[0].bytes
    #expect(copied > 200)
    #expect(try files(hub.folder("till.pos"))["00000001.seg"]?.prefix(Int(copied)) == whole.prefix(Int(copied)))
    let client = try HTTPClient(base: hub.url, options: .init(node: "till"), stop: StopSignal())
    #expect(try client.perform("GET", "/cairn").status == 200)
  }
}
