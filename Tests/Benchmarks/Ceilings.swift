import Glibc
import SystemKit
import TestServers

/// The best rates of the engines and the disk: programs that only make the same changes, without a source.
struct Ceilings {
  let stage: Stage
  let backlog: Backlog

  /// Returns the rates of durable commits. Values are formatted before the clock starts, or during the server's work.
  func postgres() throws -> [(name: String, rate: Double)] {
    let changes = backlog.grouped
    let sales = try PostgresSales(stage.server(.target).createDatabase("ceiling"))
    try sales.create(rows: 0)
    let base = PostgresSales.lines(backlog.rows)
    func measure(_ body: () throws -> Void) throws -> Double {
      try sales.connection.execute("TRUNCATE sale")
      if !base.isEmpty { try sales.copy(base) }
      try sales.connection.execute("VACUUM ANALYZE sale")
      stage.settle()
      let begun = Stopwatch()
      try body()
      return Double(changes.count) / begun.seconds
    }
    var rates: [(String, Double)] = []
    if backlog.rows == 0 {
      let lines = PostgresSales.lines(changes.count)
      rates.append(("copy", try measure { try sales.copy(lines) }))
    }
    let batches = PostgresSales.batches(changes)
    rates.append(("arrays", try measure { try sales.write(batches) }))
    rates.append(("pipelined", try measure { try sales.write(changes, perTransaction: 1000) }))
    return rates
  }

  /// Durable commits of 1,000 changes; with the default settings, and with those that cairn uses.
  func sqlite() throws -> [(name: String, rate: Double)] {
    let changes = backlog.grouped
    return try [
      ("prepared", "PRAGMA synchronous = FULL"),
      ("prepared_wide", "PRAGMA synchronous = FULL; PRAGMA wal_autocheckpoint = 4000; PRAGMA cache_size = -16384"),
    ].map { name, settings in
      let path = try stage.freshFolder("ceiling") + "/ceiling.db"
      do { try SQLiteSales(path).create(rows: backlog.rows) }
      let sales = try SQLiteSales(path, settings: settings)
      stage.settle()
      let begun = Stopwatch()
      try sales.write(changes, perTransaction: 1000)
      return (name, Double(changes.count) / begun.seconds)
    }
  }

  /// 4 KiB appended and synced, in one second.
  static func syncs(_ stage: Stage) throws -> Double {
    let file = try File(stage.freshFolder("syncs") + "/file", .create)
    let block = [UInt8](repeating: 0x78, count: 4096)
    let (begun, limit) = (Stopwatch(), min(1, stage.options.scale))
    var count = 0
    repeat {
      try block.withUnsafeBytes { try file.write($0, at: UInt64(count * 4096)) }
      try file.syncData()
      count += 1
    } while begun.seconds < limit
    return Double(count) / begun.seconds
  }
}
