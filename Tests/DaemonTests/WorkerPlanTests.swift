import Changes
import Configuring
import ControlAPI
import Testing

@testable import Daemon

@Suite struct WorkerPlanTests {
  static func conf() -> Configuration {
    var conf = Configuration(node: .init(name: "store-042", state: "/state"))
    conf.databases = [.init(name: "copy", url: "sqlite:///copy.db"), .init(name: "pos", url: "sqlite:///pos.db")]
    conf.captures = [.init(name: "pos", database: "pos")]
    conf.applies = [.init(name: "copy", trail: "store-042.pos", database: "copy")]
    return conf
  }

  @Test func `a capture, an apply, a purge and a heartbeat`() {
    #expect(
      WorkerPlan(Self.conf()).names.map(\.description)
        == ["capture.pos", "apply.copy", "heartbeat.pos", "purge.pos"])
  }

  @Test func `the same conf changes nothing`() {
    #expect(WorkerPlan(Self.conf()).change(to: WorkerPlan(Self.conf())).isNothing)
  }

  @Test func `other tables concern the capture alone`() {
    var other = Self.conf()
    other.captures[0].tables = ["item"]
    let change = WorkerPlan(Self.conf()).change(to: WorkerPlan(other))
    #expect(change == .init(altered: [WorkerName(.capture, "pos")]))
  }

  @Test func `names that only look alike are other tables`() {
    var (composed, decomposed) = (Self.conf(), Self.conf())
    (composed.captures[0].tables, decomposed.captures[0].tables) = (["caf\u{e9}"], ["cafe\u{301}"])
    (composed.applies[0].tables, decomposed.applies[0].tables) = (["caf\u{e9}"], ["cafe\u{301}"])
    let change = WorkerPlan(composed).change(to: WorkerPlan(decomposed))
    #expect(change.altered == [WorkerName(.capture, "pos"), WorkerName(.apply, "copy")])
  }

  @Test func `another place concerns all who use the database`() {
    var other = Self.conf()
    other.databases[1].url = "sqlite:///moved.db"
    let change = WorkerPlan(Self.conf()).change(to: WorkerPlan(other))
    #expect(change == .init(altered: [WorkerName(.capture, "pos"), WorkerName(.heartbeat, "pos")]))
  }

  @Test func `a setting that the applies of a two-way database share concerns all of them`() throws {
    var conf = Self.conf()
    conf.applies = ["hq", "north"].map { .init(name: $0, trail: "\($0).pos", database: "pos") }
    let url = try #require(PeerURL("https://hq"))
    conf.pumps = [.init(name: "hq", trails: TrailPatterns(["*"]), way: .push, url: url)]
    var other = conf
    other.applies.append(.init(name: "south", trail: "south.pos", database: "pos"))
    let change = WorkerPlan(conf).change(to: WorkerPlan(other))
    #expect(change.altered == [WorkerName(.apply, "hq"), WorkerName(.apply, "north")])
    #expect(change.added.contains(WorkerName(.apply, "south")))
    var tables = conf
    tables.captures[0].tables = ["item"]
    #expect(WorkerPlan(conf).change(to: WorkerPlan(tables)).altered.count == 3, "capture and both applies")
  }

  @Test func `an apply comes, another goes`() {
    var other = Self.conf()
    other.applies = [.init(name: "erp", trail: "hq.erp", database: "copy")]
    let change = WorkerPlan(Self.conf()).change(to: WorkerPlan(other))
    #expect(change.removed == [WorkerName(.apply, "copy")])
    #expect(change.added.map(\.description) == ["apply.erp", "purge.hq.erp"])
  }

  @Test func `a log level concerns no worker`() {
    var other = Self.conf()
    other.log.level = .debug
    #expect(WorkerPlan(Self.conf()).change(to: WorkerPlan(other)).isNothing)
    #expect(WorkerPlan.refusal(from: Self.conf(), to: other) == nil)
  }

  @Test func `another node or state folder needs a new start`() {
    var other = Self.conf()
    other.node.state = "/elsewhere"
    let refusal = WorkerPlan.refusal(from: Self.conf(), to: other)
    #expect(refusal?.code == .restartNeeded)
    #expect(refusal?.message.contains("/elsewhere") == true)
  }

  @Test func `another socket needs a new start, another address of the metrics does not`() {
    var other = Self.conf()
    other.control.socket = "/run/other"
    let refusal = WorkerPlan.refusal(from: Self.conf(), to: other)
    #expect(refusal?.code == .restartNeeded)
    #expect(refusal?.message.contains("[control] socket was changed from nothing to '/run/other'") == true)
    other.control.socket = nil
    #expect(WorkerPlan.refusal(from: Self.conf(), to: other) == nil)
    other.metrics = .init(host: "127.0.0.1", port: 7421)
    #expect(WorkerPlan.refusal(from: Self.conf(), to: other) == nil)
  }

  @Test func `a worker is meant by its whole name, or by the section where that is enough`() {
    let all = WorkerPlan(Self.conf()).names
    #expect(WorkerName.meant(by: "apply.copy", among: all) == WorkerName(.apply, "copy"))
    #expect(WorkerName.meant(by: "pos", among: all) == WorkerName(.capture, "pos"))
    #expect(WorkerName.meant(by: "purge.pos", among: all) == WorkerName(.purge, "pos"))
    #expect(WorkerName.meant(by: "nothing", among: all) == nil)
  }
}
