import Changes
import Foundation
import HostilePeer
import NetKit
import Pumping
import Synchronization
import SystemKit
import TestServers
import Testing
import Trails

extension Hostile {
  /// Requests of a peer that holds a certificate, straight to the desk that answers them.
  @Suite struct RequestTests {
    private static let needle = "SECRET-OF-ANOTHER-TRAIL"

    private func folder() throws -> String {
      let path = FileManager.default.temporaryDirectory.path + "/cairn-requests-" + UUID().uuidString
      try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
      return path
    }

    private func write(_ state: String, _ name: String, _ text: String) throws -> TrailInfo {
      let folder = "\(state)/\(name)"
      let writer = try TrailWriter.open(
        folder: folder, name: try #require(TrailName(name)), now: { 1_772_368_200_000_000 })
      for _ in 0..<5 {
        _ = try writer.begin(TransactionHeader(commitTime: 1_772_368_200_000_000))
        var payload = ByteWriter()
        payload.append(1)
        payload.appendString(text)
        try writer.append(kind: RecordKind.marker, payload.bytes)
        try writer.commit()
        try writer.sync()
      }
      try writer.close()
      return try Trail.info(folder: folder)
    }

    private static func path(_ random: inout Seeded, _ infos: [TrailInfo]) -> (String, [String: String]) {
      func pick<T>(_ all: [T]) -> T { all[Int.random(in: 0..<all.count, using: &random)] }
      let trail = pick([
        "hub.open", "hub.secret", "evil.x", "evil.x", "evil.y", "evil..", "..", "evil.x/../hub.secret", "é.x",
        String(repeating: "a", count: 300) + ".x", "evil.n\(Int.random(in: 0..<50, using: &random))",
      ])
      let id = pick([
        "\(HostileSegment.id(7))", "\(infos[0].id)", "\(infos[1].id)", "00", "", String(repeating: "f", count: 32),
      ])
      let number = HostileTrails.number(&random)
      let file = pick(["00000001.seg", "00000001.seg", number.hex(8) + ".seg", "\(number).seg", "-1.seg", "../durable"])
      var query: [String: String] = [:]
      let chains = ["\(ChainHash.zero)", "\(infos[0].end.chain)", "\(infos[1].end.chain)", "zz", "", "00"]
      if Bool.random(using: &random) {
        query["offset"] = pick(["0", "0", "512", "\(number)", "-1", "x", "99999999999999999999"])
      }
      if Bool.random(using: &random) { query["chain"] = pick(chains) }
      if Int.random(in: 0..<4, using: &random) == 0 { query["wait"] = pick(["0", "-1", "x", "99999999999999999999"]) }
      if Int.random(in: 0..<4, using: &random) == 0 {
        query["applied"] = pick(["\(number.hex(8)):\(number.hex(8))", "1", ":"])
      }
      if Int.random(in: 0..<4, using: &random) == 0 {
        query["restart"] = pick(["\(number.hex(8)):\(number)", "1:512", "x"])
      }
      let path = pick([
        "/cairn/1/trails/\(trail)/\(id)/\(file)", "/cairn/1/trails/\(trail)/\(id)/\(file)",
        "/cairn/1/trails/\(trail)/\(id)/\(file)", "/cairn/1/trails/\(trail)", "/cairn/1/trails/\(trail)/requests",
        "/cairn/1/trails", "/cairn/1/requests", "/cairn", "/", "/cairn/\(number)/trails",
      ])
      return (path, query)
    }

    private static func body(_ random: inout Seeded) -> [UInt8] {
      switch Int.random(in: 0..<8, using: &random) {
      case 0...2:
        let name = TrailName(origin: "evil", name: ["x", "y", "n1"].randomElement(using: &random) ?? "x")
        var bytes = HostileTrails.segment(name, &random).bytes
        if Bool.random(using: &random) {
          bytes[Int.random(in: 0..<bytes.count, using: &random)] ^= UInt8.random(in: 1...255, using: &random)
        }
        return bytes
      case 3:
        let id = HostileTrails.text(&random)
        return Array(
          "{\"requests\": [{\"id\": \"\(id)\", \"tables\": [\"\(id)\"]}, {\"id\": \"a\", \"tables\": []}]}".utf8)
      case 4: return Array(String(repeating: "[", count: Int.random(in: 1...3000, using: &random)).utf8)
      case 5:
        return (0..<Int.random(in: 0..<300, using: &random)).map { _ in UInt8.random(in: 0...255, using: &random) }
      default: return []
      }
    }

    private func bytes(_ response: HTTPResponse) -> [UInt8] {
      switch response.body {
      case .none: return []
      case .bytes(let bytes): return bytes
      case .memory(let memory):
        defer { free(memory.baseAddress) }
        return Array(memory)
      case .file(let descriptor, let offset, let count):
        defer { close(descriptor) }
        var bytes = [UInt8](repeating: 0, count: Int(min(count, 1 << 20)))
        let found = pread(descriptor, &bytes, bytes.count, off_t(offset))
        return Array(bytes.prefix(max(0, found)))
      }
    }

    @Test func `requests with extreme values stop nothing and get no byte of another trail`() throws {
      let count = count(3000, soak: 1_000_000)
      var random = Seeded(seed("requests, \(count)"))
      let state = try folder()
      defer { try? FileManager.default.removeItem(atPath: state) }
      let infos = [try write(state, "hub.open", "free"), try write(state, "hub.secret", Self.needle)]
      let secret = try Data(contentsOf: URL(fileURLWithPath: "\(state)/hub.secret/00000001.seg"))
      let grants = Grants(["evil": .init(push: TrailPatterns(["evil.*"]), pull: TrailPatterns(["hub.open", "evil.*"]))])
      var hooks = PumpHooks()
      hooks.asked = { _, _, requests in max(0, requests.count - 64) }
      let copies = TrailCopies(state: state)
      let desk = PumpDesk(
        .init(node: "hub", grants: { grants }, hooks: hooks, join: { _ in .answer(HTTPResponse(status: 404)) }),
        copies: copies, bell: try TrailBell())
      var statuses: [UInt32: Int] = [:]
      var leaks = 0
      let start = Clock.monotonicMilliseconds
      let before = residentBytes
      for n in 0..<count {
        let (path, query) = Self.path(&random, infos)
        let method = ["GET", "POST", "POST", "HEAD", "PUT"].randomElement(using: &random) ?? "GET"
        let body = method == "POST" ? Self.body(&random) : []
        let request = HTTPRequest(
          method: method, path: path, query: query, contentLength: UInt64(body.count),
          headers: [
            ("Cairn-Node", ["evil", "evil", "evil", "stranger", "hub"].randomElement(using: &random) ?? "evil"),
            (
              "Range",
              ["", "bytes=0-", "bytes=\(HostileTrails.number(&random))-", "bytes=-1"].randomElement(using: &random)
                ?? ""
            ),
          ])
        let response: HTTPResponse
        switch desk.begin(request) {
        case .answer(let answer): response = answer
        case .receive(let sink):
          if let refusal = body.withUnsafeBytes({ sink.receive($0) }) {
            sink.abandon()
            response = refusal
          } else if n % 13 == 0 {
            sink.abandon()
            continue
          } else {
            response = sink.finish()
          }
        }
        statuses[response.status, default: 0] += 1
        let told = bytes(response)
        if !told.isEmpty, Data(told).range(of: Data(Self.needle.utf8)) != nil { leaks += 1 }
        // So that copies begin again and again.
        if n % 500 == 499 {
          for trail in try Trail.names(state: state) where trail.origin == "evil" {
            _ = try? copies.remove(trail) { _ in true }
          }
        }
      }
      print(
        "\(count) requests in \((Clock.monotonicMilliseconds - start) / 1000) s,", statuses.sorted { $0.key < $1.key },
        "resident \(before >> 20) MiB before, \(residentBytes >> 20) MiB after")
      #expect(leaks == 0)
      #expect(statuses[500] == nil)
      #expect((statuses[200] ?? 0) > count / 100)
      #expect(try Data(contentsOf: URL(fileURLWithPath: "\(state)/hub.secret/00000001.seg")) == secret)
      // Other tests of the process share the budget.
      for _ in 0..<600 where BlockMemory.shared.used > 0 { Clock.sleep(milliseconds: 100) }
      #expect(BlockMemory.shared.used == 0)
      copies.close()
    }
  }
}
