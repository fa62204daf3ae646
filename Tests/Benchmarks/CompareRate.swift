import TestServers

/// W8: `cairn compare` of equal tables, compared with a plain sequential read of each end, one after the other.
struct CompareRate {
  let stage: Stage
  let pairs: [Pair]

  func run() throws -> [Report] { try pairs.map(measure) }

  private func measure(_ pair: Pair) throws -> Report {
    var report = Report(.compare, pair.name)
    let rows = stage.options.scaled(1_000_000)
    report.changes = rows
    let replication = try Replication(
      stage, from: try Ends.source(stage, pair.from, rows: rows), to: try Ends.target(stage, pair.to), state: "state")
    stage.note("W8, \(pair.name): copying")
    try replication.once()
    try Ends.judge(replication.from, replication.to, pair)
    for _ in 0..<stage.options.rounds {
      let reads = try read(replication.from) + read(replication.to)
      // The exit status is 0 only if the tables are equal.
      let run = try replication.compare()
      report.add(.cairn, Double(rows) / run.seconds)
      report.add(run)
      report.add(ceiling: "two_reads", Double(rows) / reads)
      stage.note("\(pair.name): \(Int(Double(rows) / run.seconds)) rows/s, two reads \(Int(Double(rows) / reads))")
    }
    return report
  }

  /// Returns the time of a sequential read, in seconds.
  private func read(_ url: String) throws -> Double {
    let (program, arguments) =
      url.hasPrefix("sqlite:")
      ? ("/usr/bin/sqlite3", [Ends.path(url), "SELECT * FROM sale"])
      : (try stage.server(.source).path(of: "psql"), ["-Xq", "-d", url, "-c", "\\copy sale TO STDOUT"])
    return try MeasuredRun(program, arguments, in: stage.folder, output: "/dev/null").seconds
  }
}
