import TestServers

/// W1, W2, W4, W5: a backlog is written while cairn is off; the clock runs from cairn's start to its exit.
struct Drain {
  let stage: Stage
  let workload: Workload
  let pairs: [Pair]

  func run() throws -> [Report] {
    var reports = Dictionary(uniqueKeysWithValues: pairs.map { ($0, Report(workload, $0.name)) })
    let backlog = Backlog(workload, stage.options)
    for round in 0..<stage.options.rounds {
      stage.note("\(workload.rawValue), round \(round + 1) of \(stage.options.rounds)")
      let fromPostgres = pairs.filter { $0.from == .postgres }
      if !fromPostgres.isEmpty {
        let load: any DrainLoad =
          workload == .pgbench ? PgbenchLoad(stage.options) : SalesLoad(workload: workload, backlog: backlog)
        try PostgresDrain(stage, fromPostgres, load).run(round: round, &reports)
      }
      for pair in pairs where pair.from == .sqlite {
        guard var report = reports[pair] else { continue }
        try SQLiteDrain(stage: stage, workload: workload, backlog: backlog).run(pair, &report)
        reports[pair] = report
      }
      try addCeilings(backlog, &reports)
    }
    return pairs.compactMap { reports[$0] }
  }

  private func addCeilings(_ backlog: Backlog, _ reports: inout [Pair: Report]) throws {
    for engine in Engine.allCases where pairs.contains(where: { $0.to == engine }) {
      for (name, rate) in try rates(engine, backlog) {
        stage.note("\(engine.rawValue), \(name): \(Int(rate)) changes/s")
        for pair in pairs where pair.to == engine { reports[pair]?.add(ceiling: name, rate) }
      }
    }
    let syncs = try Ceilings.syncs(stage)
    for pair in pairs { reports[pair]?.add(ceiling: "fdatasync", syncs, unit: "syncs/s") }
  }

  private func rates(_ engine: Engine, _ backlog: Backlog) throws -> [(name: String, rate: Double)] {
    if workload == .pgbench {
      let ceilings = PgbenchCeilings(stage: stage, load: PgbenchLoad(stage.options))
      return engine == .postgres ? [("pipelined", try ceilings.pipelined())] : [("prepared", try ceilings.prepared())]
    }
    let ceilings = Ceilings(stage: stage, backlog: backlog)
    return try engine == .postgres ? ceilings.postgres() : ceilings.sqlite()
  }
}
