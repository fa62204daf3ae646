import Changes
import Configuring
import ControlAPI
import Foundation
import NetKit
import Pumping
import SystemKit
import Testing
import Trails

@testable import Daemon

/// The behavior of a daemon's pump when its transfers cannot go on, and when they can again.
@Suite struct PumpWorkerTests {
  private static let trail = TrailName(origin: "store-042", name: "pos")

  /// The listener of another node.
  private final class Listener {
    let copies: TrailCopies
    let server: HTTPServer
    private let desk: PumpHandler

    init(_ state: String, _ name: String, push: [String] = [], pull: [String] = []) throws {
      try FileManager.default.createDirectory(atPath: state, withIntermediateDirectories: true)
      copies = TrailCopies(state: state)
      let grants = Grants(["here": .init(push: TrailPatterns(push), pull: TrailPatterns(pull))])
      desk = PumpHandler(
        .init(node: name, grants: { grants }, join: { _ in .answer(HTTPResponse(status: 404)) }), copies: copies)
      server = try HTTPServer(host: "127.0.0.1", port: 0, handler: desk)
    }

    deinit {
      desk.end()
      server.stop()
      copies.close()
    }
  }

  private static func node(_ node: String, _ way: Configuration.Pump.Direction, _ listener: Listener) throws -> TestNode
  {
    let url = try #require(PeerURL("http://127.0.0.1:\(listener.server.port)"))
    return try TestNode { folder in
      var conf = Configuration(node: .init(name: node, state: folder + "/state"))
      conf.pumps = [.init(name: "hq", trails: TrailPatterns([trail.description]), way: way, url: url)]
      conf.limits.diskBytes = 1 << 30
      return conf
    }
  }

  private static func write(_ state: String) throws {
    try FileManager.default.createDirectory(atPath: state, withIntermediateDirectories: true)
    let writer = try TrailWriter.open(
      folder: "\(state)/\(trail)", name: trail, options: TrailOptions(), now: { Clock.system.microseconds() })
    _ = try writer.begin(TransactionHeader(commitTime: Clock.system.microseconds()))
    try writer.commit()
    try writer.close()
  }

  private func temp() -> String {
    FileManager.default.temporaryDirectory.path + "/cairn-transfers-\(UUID().uuidString)"
  }

  @Test func `a transfer that stopped goes on when its pump is started`() throws {
    let folder = temp()
    defer { try? FileManager.default.removeItem(atPath: folder) }
    // Another trail of this name is there already.
    try Self.write(folder)
    let listener = try Listener(folder, "hq", push: ["*"])
    let node = try Self.node("here", .push, listener)
    try Self.write(node.context.statePath)
    node.start()
    defer { node.end() }
    #expect(node.wait { node.worker("pump.hq")?.state == .failed }, "\(node.supervisor.workers())")
    #expect(node.worker("pump.hq")?.detail.contains("[trail-forked]") == true)
    listener.copies.close()
    try FileManager.default.removeItem(atPath: "\(folder)/\(Self.trail)")
    #expect(node.worker("pump.hq")?.state == .failed)
    try node.supervisor.order(.start, "pump.hq")
    func end(_ state: String) -> Checkpoint? { try? Trail.info(folder: "\(state)/\(Self.trail)").end }
    #expect(node.wait { end(folder) != nil && end(folder) == end(node.context.statePath) })
    #expect(node.wait { node.worker("pump.hq")?.isCaughtUp == true }, "\(node.supervisor.workers())")
    // One whose transfers are all well is left alone.
    let before = node.worker("pump.hq")?.restarts
    try node.supervisor.order(.start, "pump.hq")
    #expect(node.worker("pump.hq")?.state == .running && node.worker("pump.hq")?.restarts == before)
  }

  @Test func `a pull waits while the trails have no room`() throws {
    let folder = temp()
    defer { try? FileManager.default.removeItem(atPath: folder) }
    try Self.write(folder)
    let listener = try Listener(folder, "hq", pull: ["*"])
    let node = try Self.node("here", .pull, listener)
    node.context.isFull = true
    node.start()
    defer { node.end() }
    #expect(
      node.wait { node.worker("pump.hq")?.detail.contains("[disk-budget]") == true }, "\(node.supervisor.workers())")
    let copy = "\(node.context.statePath)/\(Self.trail)"
    #expect(!Trail.exists(folder: copy))
    node.context.isFull = false
    #expect(node.wait { Trail.exists(folder: copy) && node.worker("pump.hq")?.isCaughtUp == true })
    #expect(node.worker("pump.hq")?.detail.contains("disk-budget") == false)
  }

  @Test func `the applied place is sent to other nodes from the start on`() throws {
    func conf(_ folder: String) -> Configuration {
      var conf = Configuration(node: .init(name: "hq", state: folder + "/state"))
      conf.databases = [.init(name: "copy", url: "sqlite://\(folder)/copy.db")]
      conf.applies = [.init(name: "copy", trail: Self.trail.description, database: "copy")]
      return conf
    }
    let first = try TestNode(conf)
    try Self.write(first.context.statePath)
    let end = try Trail.info(folder: "\(first.context.statePath)/\(Self.trail)").end.position
    first.start()
    #expect(first.wait { first.context.applied(Self.trail) == end })
    first.end()
    let second = try TestNode(in: first.folder, conf)
    second.start()
    defer { second.end() }
    #expect(second.wait { second.context.applied(Self.trail) == end })
  }
}
