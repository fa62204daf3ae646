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

    private func bytes(_ response: HTTPResponse) -> [UInt8] {
      switch response.body {
      case .none: return []
      case .bytes(let bytes): return bytes
      case .memory(let memory):
        defer { free(memory.baseAddress) }
        return Array(memory)
      case .file(let file, let offset, let count):
        var bytes = [UInt8](repeating: 0, count: Int(min(count, 1 << 20)))
        let found = (try? bytes.withUnsafeMutableBytes { try file.read(into: $0, at: offset) }) ?? 0
        return Array(bytes.prefix(found))
      }
    }

    @Test func `requests with extreme values stop nothing and get no byte of another trail`() throws {
      let count = count(3000, soak: 100_000)
      var random = Seeded(seed("requests, \(count)"))
      let state = try makeTemporaryFolder("requests")
      defer { try? FileManager.default.removeItem(atPath: state) }
      let infos = [try write(state, "hub.open", "free"), try write(state, "hub.secret", Self.needle)]
      let secret = try Data(contentsOf: URL(fileURLWithPath: "\(state)/hub.secret/00000001.seg"))
      let grants = Grants(["evil": .init(push: TrailPatterns(["evil.*"]), pull: TrailPatterns(["hub.open", "evil.*"]))])
      var hooks = PumpHooks()
      hooks.asked = { _, _, requests in max(0, requests.count - 64) }
      let copies = TrailCopies(state: state)
      let desk = PumpHandler(
        .init(node: "hub", grants: { grants }, hooks: hooks, join: { _ in .answer(HTTPResponse(status: 404)) }),
        copies: copies)
      let known = HostileRequest.Known(ids: infos.map { "\($0.id)" }, chains: infos.map { "\($0.end.chain)" })
      var statuses: [UInt32: Int] = [:]
      var leaks = 0
      let start = Clock.monotonicMilliseconds
      let before = residentMemory()
      for n in 0..<count {
        let hostile = HostileRequest(&random, known)
        let body = hostile.body
        let request = HTTPRequest(
          method: hostile.method, path: hostile.path, query: hostile.query, contentLength: UInt64(body.count),
          headers: [("Cairn-Node", hostile.node), ("Range", hostile.range)])
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
        "resident \(before >> 20) MiB before, \(residentMemory() >> 20) MiB after")
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
