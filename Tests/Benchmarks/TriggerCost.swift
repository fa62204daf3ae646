import Capturing
import Changes
import Glibc
import SQLiteKit
import SystemKit
import Trails

/// W7: the cost of capture for a program. It inserts 500,000 rows, 100 per transaction, with WAL and
/// synchronous=NORMAL. Runs with and without the triggers alternate, so that the ratio holds when the machine's speed
/// drifts.
struct TriggerCost {
  let folder: String
  let rows: Int
  let rounds: Int

  func run() throws -> Report {
    var report = Report(.triggers, "sqlite")
    report.changes = rows
    for round in 0..<rounds {
      report.add(ceiling: "uncaptured", try insert(into: "plain\(round).db", isCaptured: false))
      report.add(.cairn, try insert(into: "captured\(round).db", isCaptured: true))
    }
    return report
  }

  /// Inserts the rows. Returns the rate in rows per second.
  private func insert(into name: String, isCaptured: Bool) throws -> Double {
    let path = folder + "/" + name
    let database = try Database(path: path, mode: .create)
    try database.executeScript(
      """
      PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL;
      CREATE TABLE sale(id INTEGER PRIMARY KEY, till INTEGER, price REAL, item TEXT, sold_at TEXT)
      """)
    if isCaptured {
      let trail = try TrailWriter.open(
        folder: "\(path).trail", name: TrailName(origin: "bench", name: "w7"), now: Clock.system.microseconds)
      // Install the triggers; no capture reads the journal meanwhile.
      _ = try SQLiteCapture(path: path, trail: trail, options: .init())
      try trail.close()
    }
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
