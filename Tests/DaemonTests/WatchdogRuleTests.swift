import ControlAPI
import Testing

@testable import Daemon

@Suite struct WatchdogRuleTests {
  private func sign(_ name: String, _ silent: Int64, isInStatement: Bool = false) throws -> WatchdogRule.Sign {
    WatchdogRule.Sign(
      name: try #require(WorkerName(name)), silentMilliseconds: silent, isInStatement: isInStatement)
  }

  private func rule(_ signs: WatchdogRule.Sign...) -> WatchdogRule { WatchdogRule(signs, limit: 2_000) }

  @Test func `without a silent worker the watchdog is fed`() throws {
    #expect(rule().feeds)
    let both = rule(try sign("capture.pos", 2_000), try sign("apply.pos", 0))
    #expect(both.feeds && both.silent.isEmpty)
  }

  @Test func `a silent worker is named, and the watchdog is fed while another worker shows life`() throws {
    let one = rule(try sign("snapshot.pos", 900_000), try sign("purge.pos", 1_999))
    #expect(one.feeds && one.silent.map(\.name.description) == ["snapshot.pos"])
  }

  @Test func `the watchdog is not fed if all workers are silent`() throws {
    let all = rule(try sign("capture.pos", 2_001), try sign("purge.pos", 900_000))
    #expect(!all.feeds && all.silent.count == 2)
    #expect(!rule(try sign("capture.pos", 2_001)).feeds)
  }

  @Test func `a statement of SQLite that takes long explains the silence of all workers`() throws {
    let all = rule(try sign("capture.pos", 900_000, isInStatement: true), try sign("apply.pos", 3_000))
    #expect(all.feeds && all.silent.count == 2)
  }
}
