import Foundation
import TestServers
import Testing

extension DaemonScenarios {
  /// `cairn trail` and `cairn restore` find the trails of a daemon by its conf.
  @Suite struct TrailConfigTests {
    @Test func `trails of a conf are found by their names`() throws {
      let node = try DaemonBench()
      let bench = node.bench
      _ = try bench.sqlite(
        "source.db",
        "PRAGMA journal_mode = WAL; CREATE TABLE item(id INTEGER PRIMARY KEY, name TEXT); INSERT INTO item VALUES (1, 'tea')"
      )
      try node.write(node.pair())
      try node.start()
      #expect(try bench.waitForTarget("SELECT count(*) FROM item", "1"), "\(node.log)")
      func trail(_ words: String...) throws -> Outcome { try bench.run(Bench.cairn, ["trail"] + words) }

      for name in ["pos", "store-042.pos"] {
        let shown = try trail("show", name, "--config", "conf", "--table", "item")
        #expect(shown.status == 0 && shown.output.contains("name = 'tea'"), "\(shown)")
      }
      #expect(try trail("show", "--config", "conf/cairn.toml").status == 0)
      let listed = try trail("list", "--config", "conf", "--json")
      #expect(listed.status == 0 && listed.output.contains("\"trail\":\"store-042.pos\""), "\(listed)")
      #expect(try trail("verify", "pos", "--config", "conf").output.hasPrefix("trail store-042.pos is whole"))
      let near = try trail("show", "poss", "--config", "conf")
      #expect(near.status == 66 && near.errors.contains("did you mean 'pos'?"), "\(near)")
      let both = try trail("show", "--config", "conf", "--state", "state")
      #expect(both.status == 64 && both.errors.contains("--config and --state exclude each other"), "\(both)")
      // Without the conf, the short name means nothing.
      #expect(try trail("show", "pos", "--state", "state").status == 66)

      let restored = try bench.run(
        Bench.cairn,
        ["restore", "--config", "conf", "--trail", "pos", "--to-time", "now", "--into", "sqlite:restored.db"])
      #expect(restored.status == 0, "\(restored)")
      #expect(try bench.sqlite("restored.db", "SELECT name FROM item").hasPrefix("tea"))
      #expect(node.end() == 0)

      // A mistake in another section does not hide the trails.
      try node.write(node.pair("conflikt = 'newest'"))
      let broken = try trail("show", "pos", "--config", "conf")
      #expect(broken.status == 0 && broken.output.contains("name = 'tea'"), "\(broken)")
      #expect(broken.errors.contains("the conf does not load"), "\(broken)")
      let missing = try trail("list", "--config", "nowhere")
      #expect(missing.status != 0 && missing.errors.contains("nowhere"), "\(missing)")
    }
  }
}
