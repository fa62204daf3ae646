import Changes
import Configuring
import ControlAPI
import NetKit
import Pumping
import SystemKit
import Testing
import Trails

@testable import Daemon

/// Pushes of a peer to trails that it invents, beyond the number that it may begin.
@Suite struct InventedTrailTests {
  private static func conf(_ folder: String, _ port: UInt16) -> Configuration {
    var conf = Configuration(node: .init(name: "hub", state: folder + "/state"))
    var receive = Configuration.Receive(host: "127.0.0.1", port: port)
    receive.isInsecure = true
    conf.receive = receive
    conf.peers = ["evil", "good"].map { name in
      var peer = Configuration.Peer(name: name, push: TrailPatterns(["\(name).*"]), pull: TrailPatterns([]))
      peer.trails = 1
      return peer
    }
    return conf
  }

  private func push(_ trail: String, as peer: String, _ port: UInt16) throws -> Int {
    let client = try HTTPClient(
      base: "http://127.0.0.1:\(port)", options: .init(node: peer), stop: StopSignal())
    let id = String(repeating: "07", count: 16)
    let target = "/cairn/1/trails/\(trail)/\(id)/00000001.seg?offset=0&chain=\(ChainHash.zero)"
    return try [UInt8(7)].withUnsafeBytes { try client.perform("POST", target, body: $0) }.status
  }

  private func begin(_ trail: String, _ node: TestNode) throws {
    let writer = try TrailWriter.open(
      folder: "\(node.context.statePath)/\(trail)", name: try #require(TrailName(trail)), options: TrailOptions(),
      now: { Clock.system.microseconds() })
    _ = try writer.begin(TransactionHeader(commitTime: Clock.system.microseconds()))
    try writer.commit()
    try writer.close()
  }

  @Test func `the trails that a peer invents are reported up to a number, and those of others too`() throws {
    let port = ServiceTests.freePort()
    let node = try TestNode { Self.conf($0, port) }
    try begin("evil.own", node)
    try begin("good.own", node)
    node.start()
    defer { node.end() }
    #expect(node.wait { (try? push("evil.t0", as: "evil", port)) == 507 })
    for number in 1..<40 { #expect(try push("evil.t\(number)", as: "evil", port) == 507) }
    #expect(try push("good.new", as: "good", port) == 507)
    let paths = node.supervisor.transfers()
    #expect((1...10).contains(paths.count { $0.peer == "evil" }), "\(paths.count)")
    let good = paths.first { $0.peer == "good" }
    #expect(good?.trail == "good.new" && good?.problem?.code == "disk-budget")
  }
}
