import SQLiteKit
import TestServers

/// W6: the first copy of a table, from no state and no target until cairn has ended. It is compared with a pipe between
/// the engines' own shells that only transfers the rows.
struct FirstCopy {
  let stage: Stage
  let pairs: [Pair]

  func run() throws -> [Report] {
    var reports = pairs.map { Report(.firstCopy, $0.name) }
    let rows = stage.options.scaled(500_000)
    var sources: [Engine: String] = [:]
    for engine in Set(pairs.map(\.from)) { sources[engine] = try Ends.source(stage, engine, rows: rows) }
    for round in 0..<stage.options.rounds {
      stage.note("W6, round \(round + 1) of \(stage.options.rounds)")
      for (index, pair) in pairs.enumerated() {
        guard let from = sources[pair.from] else { continue }
        reports[index].changes = rows
        let run = try copy(pair, from)
        let pipe = try Double(rows) / self.pipe(pair, from)
        reports[index].add(.cairn, Double(rows) / run.seconds)
        reports[index].add(run)
        reports[index].add(ceiling: "pipe", pipe)
        stage.note("\(pair.name): \(Int(Double(rows) / run.seconds)) rows/s, the pipe \(Int(pipe))")
      }
    }
    return reports
  }

  private func copy(_ pair: Pair, _ from: String) throws -> MeasuredRun {
    let replication = try Replication(stage, from: from, to: try Ends.target(stage, pair.to), state: "state")
    stage.settle()
    let run = try replication.once()
    try Ends.judge(from, replication.to, pair)
    try replication.detach()
    return run
  }

  /// Seconds of the pipe, as CSV, into a table that is there.
  private func pipe(_ pair: Pair, _ from: String) throws -> Double {
    let to = try Ends.target(stage, pair.to, "pipe")
    switch pair.to {
    case .sqlite: try Database(path: Ends.path(to), mode: .create).executeScript(Sale.schema(.sqlite))
    case .postgres: try PostgresSales(to).create(rows: 0, time: pair.from == .sqlite ? "text" : "timestamptz")
    }
    let psql = "PGTZ=UTC \(try stage.server(.target).path(of: "psql")) -Xq"
    let reads =
      pair.from == .sqlite
      ? "sqlite3 -csv '\(Ends.path(from))' 'SELECT * FROM sale'"
      : "\(psql) -d '\(from)' -c '\\copy sale TO STDOUT (FORMAT csv)'"
    let writes =
      pair.to == .sqlite
      ? "sqlite3 -csv '\(Ends.path(to))' '.import /dev/stdin sale'"
      : "\(psql) -d '\(to)' -c '\\copy sale FROM STDIN (FORMAT csv)'"
    stage.settle()
    let run = try MeasuredRun("/bin/sh", ["-c", "\(reads) | \(writes)"], in: stage.folder)
    try Ends.judge(from, to, pair)
    return run.seconds
  }
}
