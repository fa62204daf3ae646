import Configuring
import Foundation
import Testing

/// The examples in `conf/` load unchanged; that they run is seen in `ScenarioTests`.
@Suite struct ExampleTests {
  private static let folder = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
    .deletingLastPathComponent().appending(path: "conf")

  private func load(_ name: String) throws -> Configuration {
    let values = [
      "CAIRN_STATE": "/var/lib/cairn", "CAIRN_SOURCE": "/srv/pos/pos.db", "CAIRN_STORES": "/srv/stores",
      "CAIRN_POSTGRES": "postgresql://cairn@db.example/erp", "CAIRN_ROOT": "/srv/cairn", "CAIRN_HQ": "7420",
      "CAIRN_REGION": "7420", "CAIRN_HUB": "7420", "STORE": "2",
      "CAIRN_NORTH": "7420", "CAIRN_SOUTH": "7421", "CAIRN_WEST": "7422",
      "CAIRN_SHOP": "/srv/shop.db",
    ]
    return try ConfFolder.load(Self.folder.appending(path: name).path(), environment: { values[$0] }).get()
  }

  /// An installed starter has no name and no database; the comments are a conf that works.
  @Test func `the starter of an installation`() throws {
    let path = Self.folder.appending(path: "starter.toml").path()
    let text = try String(contentsOfFile: path, encoding: .utf8)
    #expect(ConfFolder.load(path, environment: { _ in nil }).problems.map(\.code) == [.confMissing])
    let lines = text.split(separator: "\n").map { $0.hasPrefix("#") && !$0.hasPrefix("# ") ? $0.dropFirst() : $0 }
    let file = ConfFile(path: "cairn.toml", text: lines.joined(separator: "\n"))
    let conf = try LoadedConfiguration(files: [file], environment: { _ in nil }).get()
    #expect(conf.captures.map(conf.trail) == ["store-042.pos"] && conf.applies.map(\.trail) == ["store-042.pos"])
  }

  @Test func `one-way`() throws {
    let conf = try load("one-way.toml")
    #expect(conf.databases.map(\.url) == ["postgresql://cairn@db.example/erp", "sqlite:///srv/pos/pos.db"])
    #expect(conf.captures.count == 1 && conf.applies.map(\.trail) == conf.captures.map(conf.trail))
  }

  @Test func `consolidation: ten into one, each row with its store`() throws {
    let conf = try load("consolidation.toml")
    #expect(conf.captures.count == 10 && conf.applies.count == 10)
    #expect(Set(conf.applies.map(\.database)) == ["erp"])
    let stores = conf.applies.map { $0.rules.first?.columns?.first?.expression }
    #expect(stores == (1...10).map { $0 < 10 ? "'0\($0)'" : "'\($0)'" })
  }

  @Test func `distribution: one into five, each with its rows`() throws {
    let conf = try load("distribution.toml")
    #expect(conf.captures.count == 1 && conf.applies.count == 5)
    #expect(Set(conf.applies.map(\.trail)) == ["hq.erp"])
    #expect(conf.applies.map { $0.rules.first?.filter } == (1...5).map { "store = \($0)" })
  }

  @Test(arguments: ["two-way", "network/pair-hq", "network/pair-shop", "network/mesh-north", "network/mesh-west"])
  func `rows that come from both ends are settled`(name: String) throws {
    let conf = try load("\(name).toml")
    for apply in conf.applies { #expect(conf.captureBehind(apply) != nil, "\(apply.name)") }
  }

  @Test func `a subscriber: some tables go one way, some both`() throws {
    let conf = try load("subscriber.toml")
    let (down, up) = try (#require(conf.applies.first), #require(conf.applies.last))
    #expect(conf.captureBehind(down)?.tables == ["*", "!price"] && conf.captureBehind(up)?.tables == ["*", "!sale"])
    #expect(down.localWritesPlan.writes(forTarget: "price") == .refuse)
    #expect(up.localWritesPlan.writes(forTarget: "sale") == .allow)
    #expect(up.localWritesPlan.writes(forTarget: "item") == .stop)
  }

  @Test func `over the network: what is fetched may be, and what is pushed is taken`() throws {
    let pairs = [
      ("broadcast-store", "broadcast-hq"), ("consolidation-store", "consolidation-hq"),
      ("cascade-hq", "cascade-region"),
      ("cascade-store", "cascade-region"), ("spoke-north", "hub"), ("spoke-south", "hub"), ("pair-shop", "pair-hq"),
    ]
    for (dialling, listening) in pairs {
      let (node, hub) = (try load("network/\(dialling).toml"), try load("network/\(listening).toml"))
      let peer = try #require(hub.peers.first { $0.name == node.node.name }, "\(dialling)")
      #expect(hub.receive?.isLoopback == true && !node.pumps.isEmpty)
      for pump in node.pumps {
        let trails = pump.way == .push ? node.captures.map(node.trail) : node.applies.map(\.trail)
        #expect(!trails.isEmpty && trails.allSatisfy(pump.trails.includes))
        #expect(trails.allSatisfy((pump.way == .push ? peer.push : peer.pull).includes))
      }
    }
  }

  /// The advice of `cairn check --security` is followed.
  @Test func `over the network: applies of other nodes' trails name their tables`() throws {
    let network = Self.folder.appending(path: "network").path()
    var count = 0
    for name in try FileManager.default.contentsOfDirectory(atPath: network) {
      let conf = try load("network/" + name)
      for apply in conf.applies where !apply.trail.hasPrefix(conf.node.name + ".") {
        #expect(!apply.tables.contains("*"), "\(name), \(apply.name)")
        count += 1
      }
    }
    #expect(count == 15)
  }

  @Test func `every file in the folder loads`() throws {
    for name in try FileManager.default.contentsOfDirectory(atPath: Self.folder.path())
    where name.hasSuffix(".toml") && name != "starter.toml" {
      _ = try load(name)
    }
    let network = Self.folder.appending(path: "network").path()
    for name in try FileManager.default.contentsOfDirectory(atPath: network) { _ = try load("network/" + name) }
  }
}
