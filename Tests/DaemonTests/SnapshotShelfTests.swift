import Configuring
import Foundation
import Testing

@testable import Daemon

/// The files of a `[snapshot.NAME]`, and when the next one is made.
@Suite struct SnapshotShelfTests {
  private let second: Int64 = 1_000_000

  @Test func `a file is due after its interval, at once without one, and after a clock was set back`() {
    #expect(SnapshotSchedule.wait(newest: nil, every: .seconds(60), now: 5) == .zero)
    #expect(SnapshotSchedule.wait(newest: 0, every: .seconds(60), now: 59 * second) == .seconds(1))
    #expect(SnapshotSchedule.wait(newest: 0, every: .seconds(60), now: 60 * second) == .zero)
    #expect(SnapshotSchedule.wait(newest: 0, every: .seconds(60), now: 600 * second) == .zero)
    #expect(SnapshotSchedule.wait(newest: 10, every: .seconds(60), now: 9) == .zero)
  }

  @Test(arguments: [
    "", ".db", "0.db", "-1.db", "01.db", "+1.db", "1.db.sha256", "1", "a.db", "99999999999999999999.db",
  ])
  func `another name is no file of a shelf`(_ name: String) {
    #expect(SnapshotShelf.time(ofFile: name) == nil)
    #expect(SnapshotShelf.time(ofFile: "1764396900123456.db") == 1_764_396_900_123_456)
  }

  @Test func `files without a sum, left ones and those of other rules are removed`() throws {
    let state = NSTemporaryDirectory() + "cairn-" + UUID().uuidString
    defer { try? FileManager.default.removeItem(atPath: state) }
    var snapshot = Configuration.Snapshot(name: "prices", database: "erp")
    let url = "sqlite:///srv/erp.db"
    let shelf = SnapshotShelf(state: state, snapshot, url: url)
    #expect(try shelf.files() == [])
    try shelf.prepare()
    func write(_ name: String, _ text: String) throws {
      try Data(text.utf8).write(to: URL(fileURLWithPath: "\(shelf.folder)/\(name)"))
    }
    func names() throws -> [String] { try FileManager.default.contentsOfDirectory(atPath: shelf.folder).sorted() }
    let sum = String(repeating: "ab", count: 32)
    for time in 1...3 {
      try write("\(time).db", "content \(time)")
      try write("\(time).db.sha256", "\(sum)  \(time).db\n")
    }
    try write("4.db", "without a sum")
    try write("5.db.cairn-snapshot", "left")
    for suffix in ["-wal", "-journal", "-shm"] { try write("3.db\(suffix)", "left") }
    try write("6.db.sha256", "\(sum)  6.db\n")
    #expect(try shelf.files().map(\.madeAt) == [3, 2, 1])
    try shelf.prepare()
    #expect(try names() == ["1.db", "1.db.sha256", "2.db", "2.db.sha256", "3.db", "3.db.sha256", "rules"])
    try shelf.prune(keep: 2)
    #expect(try shelf.files().map(\.madeAt) == [3, 2])
    // Files that were made with other tables are not published, not even before they are removed.
    snapshot.tables = ["item"]
    let narrow = SnapshotShelf(state: state, snapshot, url: url)
    #expect(try narrow.files() == [])
    #expect(try SnapshotShelf(state: state, snapshot, url: "sqlite:///srv/other.db").files() == [])
    try narrow.prepare()
    #expect(try names() == ["rules"])
  }

  @Test func `only listed peers with a section may fetch`() throws {
    var conf = WorkerPlanTests.conf()
    var snapshot = Configuration.Snapshot(name: "prices", database: "pos")
    snapshot.peers = ["till", "gone"]
    conf.snapshots = [snapshot]
    conf.peers = [
      .init(name: "till", push: .init([]), pull: .init([])), .init(name: "shop", push: .init([]), pull: .init([])),
    ]
    #expect(conf.snapshots(for: "till") == ["prices"])
    for peer in ["shop", "gone", "Till", "till ", "", "til\u{6c}\u{301}"] { #expect(conf.snapshots(for: peer) == []) }
    // Other peers do not make the worker begin again.
    let plan = WorkerPlan(conf)
    #expect(plan.names.map(\.description).contains("snapshot.prices"))
    conf.snapshots[0].peers = []
    #expect(plan.change(to: WorkerPlan(conf)).isNothing)
    conf.snapshots[0].keep = 5
    #expect(plan.change(to: WorkerPlan(conf)).altered.map(\.description) == ["snapshot.prices"])
  }
}
