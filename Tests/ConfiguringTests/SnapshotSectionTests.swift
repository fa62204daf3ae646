import Testing

@testable import Configuring

/// `[snapshot.NAME]` in a conf.
@Suite struct SnapshotSectionTests {
  private func load(_ options: String) -> LoadedConfiguration {
    Conf.load(
      Conf.good + "[receive]\nlisten = \"[::]:7420\"\n[peer.till]\nmay = { pull = [\"hq.*\"] }\n[snapshot.stock]\n"
        + options)
  }

  @Test func `options and defaults`() throws {
    let plain = try load("database = \"shop\"\n").get().snapshots
    #expect(plain == [.init(name: "stock", database: "shop")])
    #expect(plain.first?.every == .seconds(3600) && plain.first?.keep == 2 && plain.first?.peers == [])
    let all = try load(
      "database = \"shop\"\nevery = \"15 min\"\nkeep = 3\ntables = [\"item\"]\nwhere = \"id > 1\"\npeers = [\"till\"]\n"
    ).get()
    let snapshot = try #require(all.snapshots.first)
    #expect(snapshot.every == .seconds(900) && snapshot.keep == 3 && snapshot.tables == ["item"])
    #expect(snapshot.condition == "id > 1" && snapshot.peers == ["till"])
    #expect(all.snapshots(for: "till") == ["stock"] && all.snapshots(for: "other") == [])
  }

  @Test(
    arguments: [
      ("keep = 2", "has no 'database'"), ("database = \"none\"", "there is no [database.none]"),
      ("database = \"erp\"", "is of a PostgreSQL database"),
      ("database = \"shop\"\npeers = [\"tlil\"]", "there is no [peer.tlil]"),
      ("database = \"shop\"\npeers = [\"../x\"]", "is not the name of a peer"),
      ("database = \"shop\"\npeers = []", "peers is empty"),
      ("database = \"shop\"\nkeep = 0", "keep is 0"), ("database = \"shop\"\nevery = \"0 s\"", "every is 0 s"),
    ])
  func `a wrong option is refused`(_ options: String, _ message: String) {
    let problems = load(options + "\n").problems
    #expect(problems.contains { $0.message.contains(message) }, "\(problems)")
  }
}
