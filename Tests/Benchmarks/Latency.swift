import Glibc
import PostgresKit
import SQLiteKit
import TestServers

/// W3: the latency of single rows that are committed at a steady pace while cairn follows. It lasts from the commit
/// until another program sees the row at the target.
struct Latency {
  let stage: Stage
  let pairs: [Pair]
  private static let pauseSeconds = 0.02
  /// The number of rows before the measurement starts.
  private static let warmup = 20

  func run() throws -> [Report] {
    var reports = pairs.map { Report(.latency, $0.name) }
    for round in 0..<stage.options.rounds {
      stage.note("W3, round \(round + 1) of \(stage.options.rounds)")
      let syncs = try Ceilings.syncs(stage)
      for index in pairs.indices {
        try measureCairn(pairs[index], &reports[index])
        if pairs[index].from == .postgres, pairs[index].to == .postgres { try measureNative(&reports[index]) }
        reports[index].add(ceiling: "fdatasync", syncs, unit: "syncs/s")
      }
    }
    return reports
  }

  private func measureCairn(_ pair: Pair, _ report: inout Report) throws {
    let replication = try Replication(
      stage, from: try Ends.source(stage, pair.from, rows: 0), to: try Ends.target(stage, pair.to), state: "state")
    try replication.once()
    let child = try replication.follow()
    let latencies = try measure(from: replication.from, to: replication.to)
    let memory = MeasuredRun.anonymousMebibytes(child.processIdentifier)
    try replication.stop(child)
    try Ends.judge(replication.from, replication.to, pair)
    add(.cairn, latencies, &report)
    report.add(fact: "memory_mib", memory)
    stage.note("\(pair.name): p50 \(latencies[latencies.count / 2]) ms")
  }

  private func measureNative(_ report: inout Report) throws {
    let from = try Ends.source(stage, .postgres, rows: 0)
    let to = try Ends.target(stage, .postgres, "native")
    try PostgresSales(to).create(rows: 0)
    let source = try PostgresConnection(from, application: "cairn-bench")
    try source.executeScript("SET search_path = public; \(NativeReplication.markSchema)")
    let native = try NativeReplication(source: source, sourceURL: from, targetURL: to, tables: ["sale"])
    try native.enable()
    let latencies = try measure(from: from, to: to)
    try native.drop()
    add(.native, latencies, &report)
    stage.note("native: p50 \(latencies[latencies.count / 2]) ms")
  }

  private func add(_ competitor: Report.Competitor, _ latencies: [Double], _ report: inout Report) {
    report.changes = latencies.count
    report.add(competitor, latencies[latencies.count / 2], metric: "p50")
    report.add(competitor, latencies[latencies.count * 99 / 100], metric: "p99")
  }

  /// Returns the latencies in milliseconds, sorted.
  private func measure(from: String, to: String) throws -> [Double] {
    let (commit, isVisible) = (try Self.writer(from), try Self.reader(to))
    var latencies: [Double] = []
    let count = max(20, stage.options.scaled(200))
    var next = Stopwatch.now
    for id in 1...Self.warmup + count {
      let pause = next - Stopwatch.now
      if pause > 0 { usleep(UInt32(pause * 1e6)) }
      try commit(Sale(id: id))
      let committed = Stopwatch()
      while try !isVisible(id) {
        guard committed.seconds < 60 else { throw TestFailure("row \(id) does not come to \(to)") }
        usleep(100)
      }
      let milliseconds = committed.seconds * 1000
      if id > Self.warmup { latencies.append(milliseconds) }
      // A late row does not make the next rows come in a burst.
      next = max(next + Self.pauseSeconds, Stopwatch.now)
    }
    return latencies.sorted()
  }

  /// Commits a sale in a transaction of its own.
  private static func writer(_ url: String) throws -> (Sale) throws -> Void {
    if url.hasPrefix("sqlite:") {
      let sales = try SQLiteSales(Ends.path(url))
      return { sale in try sales.write([.insert(sale.id)], perTransaction: 1) }
    }
    let connection = try PostgresConnection(url, application: "cairn-bench")
    return { sale in
      var time: [UInt8] = []
      sale.appendTime(to: &time)
      try connection.run(
        "INSERT INTO public.sale VALUES ($1, $2, $3, $4, $5)",
        [
          "\(sale.id)", "\(sale.till)", "\(sale.price)", String(decoding: sale.item, as: UTF8.self),
          String(decoding: time, as: UTF8.self),
        ])
    }
  }

  /// Returns a function that checks with a prepared statement whether a sale has arrived.
  private static func reader(_ url: String) throws -> (Int) throws -> Bool {
    if url.hasPrefix("sqlite:") {
      let statement = try Database(path: Ends.path(url), mode: .readOnly).prepare("SELECT 1 FROM sale WHERE id = ?")
      return { id in
        try statement.bind(Int64(id), at: 1)
        defer { statement.reset() }
        return try statement.step()
      }
    }
    let connection = try PostgresConnection(url, application: "cairn-bench")
    try connection.execute("PREPARE there(bigint) AS SELECT 1 FROM public.sale WHERE id = $1")
    return { id in try connection.first("EXECUTE there(\(id))") != nil }
  }
}
