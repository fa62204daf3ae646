import Changes
import Endpoints
import Foundation
import SQLiteKit
import SystemKit
import TestServers
import Testing
import Trails

@testable import Replicating

/// The place of a snapshot at a device, from the download to the file that programs read.
@Suite(.timeLimit(.minutes(20)))
struct SnapshotSwapTests {
  private let folder: String
  private let place: SnapshotPlace
  private var path: String { place.path }

  init() throws {
    folder = NSTemporaryDirectory() + "cairn-" + UUID().uuidString
    try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
    place = SnapshotPlace(folder + "/prices.db")
  }

  /// Makes a snapshot with one row the pending one, as a download does.
  private func makePending(_ value: Int) throws {
    let source = "\(folder)/source\(value).db"
    try Database(path: source, mode: .create).executeScript(
      "CREATE TABLE t(v); INSERT INTO t VALUES (1)")
    try Database(path: source).execute("UPDATE t SET v = \(value)")
    _ = try Snapshot(of: .sqlite(path: source), to: "\(folder)/made\(value).db").make()
    let manager = FileManager.default
    try? manager.removeItem(atPath: place.pendingPath)
    try? manager.removeItem(atPath: place.pendingPath + ".sha256")
    try manager.moveItem(atPath: "\(folder)/made\(value).db", toPath: place.pendingPath)
    try manager.moveItem(atPath: "\(folder)/made\(value).db.sha256", toPath: place.pendingPath + ".sha256")
  }

  private func value() throws -> Int64? { try Database(path: path, mode: .readOnly).integer("SELECT v FROM t") }
  private func names() throws -> [String] {
    try FileManager.default.contentsOfDirectory(atPath: folder).filter { $0.hasPrefix("prices.db") }.sorted()
  }

  @Test func `none, pending, current, and the next one`() throws {
    defer { try? FileManager.default.removeItem(atPath: folder) }
    let swap = SnapshotSwap(place)
    #expect(swap.state == .none && swap.file == nil)
    #expect(throws: CairnError.self) { try swap.apply() }
    try makePending(1)
    #expect(swap.state == .pending && swap.file == place.pendingPath)
    #expect(try swap.apply().tables == ["t"])
    #expect(swap.state == .current)
    #expect(try value() == 1)
    #expect(try names() == ["prices.db", "prices.db.sha256"])
    try makePending(2)
    #expect(swap.state == .pending)
    #expect(try value() == 1)
    _ = try swap.apply()
    #expect(try value() == 2)
    let sum = try FileSum.of(File(path, .read)) { _, _ in }.sum
    #expect(SnapshotPlace.sum(of: path) == sum)
  }

  @Test(arguments: ["delete", "wal"], ["idle", "reading", "writing"])
  func `a file that a connection has open is replaced only by force`(_ mode: String, _ use: String) throws {
    defer { try? FileManager.default.removeItem(atPath: folder) }
    try makePending(1)
    let swap = SnapshotSwap(place)
    _ = try swap.apply()
    try makePending(2)
    do {
      let program = try Database(path: path)
      try program.execute("PRAGMA journal_mode = \(mode)")
      #expect(try program.integer("SELECT v FROM t") == 1)
      if use == "reading" {
        try program.execute("BEGIN")
        _ = try program.integer("SELECT v FROM t")
      }
      if use == "writing" { try program.executeScript("BEGIN IMMEDIATE; UPDATE t SET v = 7") }
      let error = #expect(throws: CairnError.self) { try swap.apply() }
      #expect(error?.code == .databaseBusy && error?.hint.contains("--force") == true)
      #expect(swap.state == .pending)
      if use != "idle" { try program.execute("ROLLBACK") }
      #expect(try program.integer("SELECT v FROM t") == 1)
      if mode == "wal" { try program.execute("UPDATE t SET v = 3") }
      _ = try swap.apply(force: true)
      // Nothing of the old file's log is taken for one of the new file.
      #expect(try value() == 2)
    }
    #expect(try Database(path: path, mode: .readOnly).text("PRAGMA integrity_check") == "ok")
    #expect(try value() == 2)
  }

  @Test func `a connection of another process is seen, and the log that a program left is taken over`() throws {
    defer { try? FileManager.default.removeItem(atPath: folder) }
    try makePending(1)
    let swap = SnapshotSwap(place)
    _ = try swap.apply()
    try makePending(2)
    let shell = try Child(
      "/bin/sh", ["-c", "exec sqlite3 '\(path)' 'PRAGMA journal_mode = WAL' 'SELECT 1' '.shell sleep 600'"],
      folder: folder, environment: ["PATH": "/usr/bin:/bin"], output: folder + "/out", errors: folder + "/err")
    let limit = Date().addingTimeInterval(30)
    while !FileManager.default.fileExists(atPath: path + "-wal"), Date() < limit { usleep(10_000) }
    let error = #expect(throws: CairnError.self) { try swap.apply() }
    #expect(error?.message.contains("process") == true)
    shell.signal(SIGKILL)
    shell.waitUntilExit()
    while !OpenFiles.processes(of: path).isEmpty {
      // The shell that it started has the file open too.
      for process in OpenFiles.processes(of: path) where process != getpid() { kill(process, SIGKILL) }
      usleep(10_000)
    }
    _ = try swap.apply()
    #expect(try value() == 2)
    #expect(try names() == ["prices.db", "prices.db.sha256"])
  }

  @Test func `a damaged or foreign pending file is refused, and the file stays`() throws {
    defer { try? FileManager.default.removeItem(atPath: folder) }
    let swap = SnapshotSwap(place)
    try makePending(1)
    _ = try swap.apply()
    try makePending(2)
    let handle = try #require(FileHandle(forWritingAtPath: place.pendingPath))
    try handle.seek(toOffset: 5000)
    try handle.write(contentsOf: Data([255]))
    try handle.close()
    let damaged = #expect(throws: CairnError.self) { try swap.apply() }
    #expect(damaged?.code == .databaseDamaged)
    #expect(swap.state == .current)
    for content in [Data("no database".utf8), Data(count: 8192), Data()] {
      try content.write(to: URL(fileURLWithPath: place.pendingPath))
      let sum = try FileSum.of(File(place.pendingPath, .read)) { _, _ in }.sum
      try SnapshotPlace.store(sum, of: place.pendingPath)
      let error = #expect(throws: CairnError.self) { try swap.apply(force: true) }
      #expect(error?.code == .stateForeign)
    }
    // An SQLite file of another program.
    try FileManager.default.removeItem(atPath: place.pendingPath)
    try Database(path: place.pendingPath, mode: .create).execute("CREATE TABLE x(y)")
    try SnapshotPlace.store(FileSum.of(File(place.pendingPath, .read)) { _, _ in }.sum, of: place.pendingPath)
    #expect(throws: CairnError.self) { try swap.apply() }
    #expect(try value() == 1)
  }

  @Test func `a database that is no snapshot is replaced only by force, and a log beside the pending file is refused`()
    throws
  {
    defer { try? FileManager.default.removeItem(atPath: folder) }
    let swap = SnapshotSwap(place)
    try Database(path: path, mode: .create).executeScript(
      "PRAGMA journal_mode = WAL; CREATE TABLE precious(x); INSERT INTO precious VALUES (1)")
    try makePending(2)
    let error = #expect(throws: CairnError.self) { try swap.apply() }
    #expect(error?.code == .targetDiffers && error?.hint.contains("--force") == true)
    #expect(swap.state == .pending)
    do {
      let own = try Database(path: path)
      #expect(try own.integer("SELECT x FROM precious") == 1)
      #expect(try own.text("PRAGMA journal_mode") == "wal")
    }
    try Data().write(to: URL(fileURLWithPath: place.pendingPath + "-wal"))
    #expect(throws: CairnError.self) { try swap.apply(force: true) }
    try FileManager.default.removeItem(atPath: place.pendingPath + "-wal")
    _ = try swap.apply(force: true)
    #expect(try value() == 2)
    #expect(try names() == ["prices.db", "prices.db.sha256"])
    // No database at all.
    try Data("text".utf8).write(to: URL(fileURLWithPath: path))
    try makePending(3)
    #expect(throws: CairnError.self) { try swap.apply() }
    #expect(try String(contentsOfFile: path, encoding: .utf8) == "text")
  }
}
