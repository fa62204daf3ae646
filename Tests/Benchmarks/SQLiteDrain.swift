import Glibc
import TestServers

/// One round of a backlog in an SQLite file, drained into a target of either engine.
struct SQLiteDrain {
  let stage: Stage
  let workload: Workload
  let backlog: Backlog

  func run(_ pair: Pair, _ report: inout Report) throws {
    let from = try Ends.source(stage, .sqlite, rows: backlog.rows)
    let replication = try Replication(stage, from: from, to: try Ends.target(stage, pair.to), state: "state")
    try replication.once()
    try Ends.vacuum(replication.to)
    report.add(fact: "idle_seconds", try replication.once().seconds)
    let walBytes = try write(Ends.path(from))

    let tally = try TrailTally(stage, replication)
    stage.settle()
    let run = try replication.once(watch: tally.look)
    try Ends.judge(replication.from, replication.to, pair)
    let rate = Double(backlog.changes.count) / run.seconds
    report.changes = backlog.changes.count
    report.add(.cairn, rate)
    report.add(run)
    report.add(fact: "trail_bytes", try tally.bytes())
    report.add(fact: "wal_bytes", walBytes)
    stage.note("\(pair.name): \(Int(rate)) changes/s")
  }

  /// Returns how long the `-wal` file became, journal included; it is in the database afterwards.
  private func write(_ path: String) throws -> Double {
    let sales = try SQLiteSales(path, settings: "PRAGMA synchronous = NORMAL; PRAGMA wal_autocheckpoint = 0")
    if workload == .oneTransaction {
      try sales.database.executeScript("UPDATE sale SET till = till + 1")
    } else {
      try sales.write(backlog.changes, perTransaction: backlog.perTransaction)
    }
    var status = stat()
    stat(path + "-wal", &status)
    _ = try sales.database.query("PRAGMA wal_checkpoint(TRUNCATE)")
    return Double(status.st_size)
  }
}
