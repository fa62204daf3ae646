import Changes
import Endpoints
import Foundation
import SQLiteKit
import Synchronization
import SystemKit
import Testing
import Trails

@testable import Replicating

// The files beside a snapshot, and the earlier snapshot whose name it gets.
extension SnapshotTests {
  @Test(arguments: ["-wal", "-journal", "-shm"])
  func `a log or journal beside the new name is refused, at the start and before the file gets its name`(
    _ suffix: String
  ) throws {
    let (folder, url) = try plain("CREATE TABLE item(id INTEGER PRIMARY KEY); INSERT INTO item VALUES (1)")
    defer { try? FileManager.default.removeItem(atPath: folder) }
    let file = folder + "/b.db"
    @Sendable func plant(_ path: String) {
      // A link that leads nowhere counts: another program can create what it names.
      try? FileManager.default.createSymbolicLink(atPath: path, withDestinationPath: folder + "/none")
    }
    for (replaces, isLate) in [(false, false), (true, false), (false, true), (true, true)] {
      var snapshot = Snapshot(of: url, to: file)
      snapshot.replaces = replaces
      if isLate {
        snapshot.progress = { done, total in if done > total / 2 { plant(file + suffix) } }
      } else {
        plant(file + suffix)
      }
      let order = snapshot
      let error = #expect(throws: CairnError.self) { try order.make() }
      #expect(error?.code == .targetDiffers && error?.message.contains(file + suffix) == true)
      let there = try FileManager.default.contentsOfDirectory(atPath: folder).filter { $0.hasPrefix("b.db") }
      #expect(there == ["b.db\(suffix)"])
      try FileManager.default.removeItem(atPath: file + suffix)
    }
    // Beside the file that is packed, SQLite would read it too.
    var snapshot = Snapshot(of: url, to: file)
    snapshot.progress = { _, _ in plant(file + ".cairn-packed" + suffix) }
    let order = snapshot
    #expect(throws: CairnError.self) { try order.make() }
    #expect(try Self.left(folder) == [])
    _ = try Snapshot(of: url, to: file).make()
  }

  @Test(arguments: ["delete", "wal"])
  func `an earlier snapshot that a program has open is not replaced, and the log of an ended one goes`(
    _ mode: String
  ) throws {
    let (folder, url) = try plain("CREATE TABLE item(id INTEGER PRIMARY KEY, v); INSERT INTO item VALUES (1, 'truth')")
    defer { try? FileManager.default.removeItem(atPath: folder) }
    let file = folder + "/b.db"
    let first = try Snapshot(of: url, to: file).make()
    var snapshot = Snapshot(of: url, to: file)
    snapshot.replaces = true
    do {
      let program = try Database(path: file)
      try program.executeScript("PRAGMA journal_mode = \(mode); PRAGMA wal_autocheckpoint = 0")
      try program.execute("UPDATE item SET v = 'old'")
      let order = snapshot
      let error = #expect(throws: CairnError.self) { try order.make() }
      #expect(error?.code == .databaseBusy && error?.message.contains("has it open") == true)
      #expect(error?.hint.contains("--force") == false)
      if mode == "wal" { try FileManager.default.copyItem(atPath: file + "-wal", toPath: folder + "/log") }
    }
    #expect(try Self.left(folder) == [])
    #expect(try String(contentsOfFile: file + ".sha256", encoding: .utf8).hasPrefix(first.sha256))
    // As a program leaves it that was killed.
    if mode == "wal" { try FileManager.default.moveItem(atPath: folder + "/log", toPath: file + "-wal") }
    let second = try snapshot.make()
    #expect(try Database(path: file, mode: .readOnly).text("SELECT v FROM item") == "truth")
    #expect(try Self.sum(file) == second.sha256)
    let left = try FileManager.default.contentsOfDirectory(atPath: folder).filter { $0.hasPrefix("b.db") }.sorted()
    #expect(left == ["b.db", "b.db.sha256"])
    // A program that opens it in the meantime is seen before the file gets its name.
    let open = Mutex<Database?>(nil)
    snapshot.progress = { _, _ in
      try open.withLock { if $0 == nil { $0 = try Database(path: file, mode: .readOnly) } }
    }
    let order = snapshot
    let error = #expect(throws: CairnError.self) { try order.make() }
    #expect(error?.code == .databaseBusy)
    open.withLock { $0 = nil }
    #expect(try Self.sum(file) == second.sha256)
    #expect(try String(contentsOfFile: file + ".sha256", encoding: .utf8).hasPrefix(second.sha256))
  }

  @Test func `a place that a program wrote into the file is opened only if it is this user's trail`() throws {
    let mesh = try Mesh("s", schema: "CREATE TABLE t(id INTEGER PRIMARY KEY)", isCaptured: false)
    let node = mesh.nodes[0]
    node.goesBothWays = false
    try node.startCapture()
    try node.execute("INSERT INTO t VALUES (1)")
    var count = 0
    func named(_ place: String, _ folders: [String]? = nil) throws -> TrailName? {
      count += 1
      try node.execute("UPDATE cairn_control SET place = '\(place)' WHERE id = 0")
      var snapshot = Snapshot(of: node.url, to: "\(mesh.folder)/now\(count).db")
      snapshot.captureFolders = folders
      let position = try #require(try snapshot.make().note.positions.first)
      try #expect(position.id == Trail.info(folder: node.folder).id)
      return position.trail
    }
    #expect(try named(node.folder) == node.trail)
    // A pipe in the place of the durable mark, which blocks open(2) unless it is opened without waiting.
    let trap = mesh.folder + "/trap"
    try FileManager.default.createDirectory(atPath: trap, withIntermediateDirectories: true)
    #expect(mkfifo(trap + "/durable", 0o600) == 0 && mkfifo(trap + "/replication", 0o600) == 0)
    #expect(try named(trap) == nil)
    try FileManager.default.removeItem(atPath: trap + "/durable")
    #expect(try named(trap) == nil)
    // The state folder of no replication from this file.
    #expect(try named(mesh.folder) == nil)
    #expect(chmod(node.folder, 0o777) == 0)
    #expect(try named(node.folder) == nil)
    // The daemon names the folders of its captures, whatever the file says.
    #expect(try named(trap, [mesh.folder + "/none", node.folder]) == node.trail)
    #expect(try named(node.folder, []) == nil)
    try mesh.close()
  }
}
