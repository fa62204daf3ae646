import Capturing
import Changes
import Glibc
import SQLiteKit
import Synchronization
import SystemKit
import Trails
import WALKit

/// W7: the cost of capture for a program. It inserts 500,000 rows, 100 per transaction, with WAL and
/// synchronous=NORMAL. Runs with the triggers, without them, and with a reader of the log alternate, so that the ratio
/// holds when the machine's speed drifts.
struct TriggerCost {
  let folder: String
  let rows: Int
  let rounds: Int

  /// The part of Cairn that runs beside the program.
  private enum Beside { case nothing, triggers, reader }

  func run() throws -> Report {
    var report = Report(.triggers, "sqlite")
    report.changes = rows
    for round in 0..<rounds {
      report.add(ceiling: "uncaptured", try insert(into: "plain\(round).db", .nothing))
      report.add(.cairn, try insert(into: "captured\(round).db", .triggers))
      report.add(ceiling: "followed", try insert(into: "followed\(round).db", .reader))
    }
    return report
  }

  /// Inserts the rows. Returns the rate in rows per second.
  private func insert(into name: String, _ beside: Beside) throws -> Double {
    let path = folder + "/" + name
    let database = try Database(path: path, mode: .create)
    try database.executeScript(
      """
      PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL;
      CREATE TABLE sale(id INTEGER PRIMARY KEY, till INTEGER, price REAL, item TEXT, sold_at TEXT)
      """)
    if beside == .triggers {
      let trail = try TrailWriter.open(
        folder: "\(path).trail", name: TrailName(origin: "bench", name: "w7"), now: Clock.system.microseconds)
      // Install the triggers; no capture reads the journal meanwhile.
      _ = try SQLiteCapture(path: path, trail: trail, options: .init())
      try trail.close()
    }
    let follower = beside == .reader ? try LogFollower(path) : nil
    defer { follower?.stop() }
    let statement = try database.prepare("INSERT INTO sale(till, price, item, sold_at) VALUES (?, ?, ?, ?)")
    let text = [UInt8](repeating: 0x78, count: 100)
    let begun = Clock.system.microseconds()
    for row in 0..<rows {
      if row % 100 == 0 { try database.execute("BEGIN") }
      try statement.bind(
        [.integer(Int64(row)), .real(Double(row) / 2), .text(text), .text("2026-01-01 00:00:00")])
      while try statement.step() {}
      if row % 100 == 99 { try database.execute("COMMIT") }
    }
    let seconds = Double(Clock.system.microseconds() - begun) / 1e6
    for suffix in ["", "-wal", "-shm"] { unlink(path + suffix) }
    return Double(rows) / seconds
  }
}

/// Reads the transactions of a log on a thread of its own, and drops them.
private final class LogFollower: Sendable {
  private let isStopped = Atomic(false)
  private let isHeld = Atomic(false)
  private let thread = Mutex<WorkerThread<Void>?>(nil)

  /// Returns when the reader holds the log.
  init(_ path: String) throws {
    let started = try WorkerThread { [self] in
      do {
        let reader = try WALReader(path: path)
        try reader.run(
          until: {
            if reader.holds.isHeld { isHeld.store(true, ordering: .releasing) }
            return isStopped.load(ordering: .acquiring)
          }, { _ in })
      } catch { CairnBench.write("the reader of the log failed: \(error)", to: STDERR_FILENO) }
      isHeld.store(true, ordering: .releasing)
    }
    thread.withLock { $0 = started }
    while !isHeld.load(ordering: .acquiring) { usleep(100) }
  }

  func stop() {
    isStopped.store(true, ordering: .releasing)
    _ = thread.withLock { $0 }?.join()
  }
}
